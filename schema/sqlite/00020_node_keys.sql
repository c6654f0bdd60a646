-- +goose Up
-- side by side: yes, because old builds name the columns that they write, and the new one has a default.

-- Ids of the keys of secrets that the node has, one a line, the one that encrypts first; empty: none, or the build does not report them.
ALTER TABLE node ADD COLUMN secret_keys TEXT NOT NULL DEFAULT '';

DROP VIEW node_report;
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       datetime(n.started / 1000, 'unixepoch') || printf('.%03d', n.started % 1000) AS started,
       datetime(n.expires / 1000, 'unixepoch') || printf('.%03d', n.expires % 1000) AS expires,
       (SELECT COUNT(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications, n.lacks, n.settings, n.secret_keys
FROM node n;
