-- +goose Up
-- side by side: yes, because an older build writes no settings, and its node counts as one that does not report them.
-- A node says which changes of settings it applies, so that a command can wait until all nodes apply its change.
ALTER TABLE node ADD COLUMN settings INTEGER NOT NULL DEFAULT -1; -- number of changes; -1: the build does not report it

-- Every node, for people, with the number of its shards, the abilities that it lacks, and the number of changes of settings that it applies.
DROP VIEW node_report;
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       datetime(n.started / 1000, 'unixepoch') || printf('.%03d', n.started % 1000) AS started,
       datetime(n.expires / 1000, 'unixepoch') || printf('.%03d', n.expires % 1000) AS expires,
       (SELECT COUNT(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications, n.lacks, n.settings
FROM node n;

-- +goose Down
DROP VIEW node_report;
ALTER TABLE node DROP COLUMN settings;
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       datetime(n.started / 1000, 'unixepoch') || printf('.%03d', n.started % 1000) AS started,
       datetime(n.expires / 1000, 'unixepoch') || printf('.%03d', n.expires % 1000) AS expires,
       (SELECT COUNT(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications, n.lacks
FROM node n;
