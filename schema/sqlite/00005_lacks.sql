-- +goose Up
-- side by side: yes, because an older build writes no lacks, and its node counts as able to do everything.
-- A node says which abilities it lacks, so that its shards go to a node that has them.
ALTER TABLE node ADD COLUMN lacks TEXT NOT NULL DEFAULT ''; -- one ability a line, sorted

-- Every node, for people, with the number of its shards and the abilities that it lacks.
DROP VIEW node_report;
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       datetime(n.started / 1000, 'unixepoch') || printf('.%03d', n.started % 1000) AS started,
       datetime(n.expires / 1000, 'unixepoch') || printf('.%03d', n.expires % 1000) AS expires,
       (SELECT COUNT(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications, n.lacks
FROM node n;

-- +goose Down
DROP VIEW node_report;
ALTER TABLE node DROP COLUMN lacks;
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       datetime(n.started / 1000, 'unixepoch') || printf('.%03d', n.started % 1000) AS started,
       datetime(n.expires / 1000, 'unixepoch') || printf('.%03d', n.expires % 1000) AS expires,
       (SELECT COUNT(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications
FROM node n;
