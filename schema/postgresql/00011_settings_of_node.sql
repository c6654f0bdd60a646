-- +goose Up
-- side by side: yes, because an older build writes no settings, and its node counts as one that does not report them.
-- A node says which changes of settings it applies, so that a command can wait until all nodes apply its change.
ALTER TABLE node ADD COLUMN settings BIGINT NOT NULL DEFAULT -1; -- number of changes; -1: the build does not report it

-- Every node, for people, with the number of its shards, the abilities that it lacks, and the number of changes of settings that it applies.
CREATE OR REPLACE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       (TIMESTAMP '1970-01-01' + n.started * INTERVAL '1 millisecond')::TIMESTAMP(3) AS started,
       (TIMESTAMP '1970-01-01' + n.expires * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires,
       (SELECT count(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications, n.lacks, n.settings
FROM node n;

-- +goose Down
DROP VIEW node_report;
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       (TIMESTAMP '1970-01-01' + n.started * INTERVAL '1 millisecond')::TIMESTAMP(3) AS started,
       (TIMESTAMP '1970-01-01' + n.expires * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires,
       (SELECT count(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications, n.lacks
FROM node n;
ALTER TABLE node DROP COLUMN settings;
