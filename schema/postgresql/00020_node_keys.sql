-- +goose Up
-- side by side: yes, because old builds name the columns that they write, and the new one has a default.

-- Ids of the keys of secrets that the node has, one a line, the one that encrypts first; empty: none, or the build does not report them.
ALTER TABLE node ADD COLUMN secret_keys VARCHAR(255) COLLATE "C" NOT NULL DEFAULT '';

-- REPLACE keeps the privileges on the view.
CREATE OR REPLACE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       (TIMESTAMP '1970-01-01' + n.started * INTERVAL '1 millisecond')::TIMESTAMP(3) AS started,
       (TIMESTAMP '1970-01-01' + n.expires * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires,
       (SELECT count(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications, n.lacks, n.settings, n.secret_keys
FROM node n;
