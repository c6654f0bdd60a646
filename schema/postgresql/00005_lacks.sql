-- +goose Up
-- side by side: yes, because an older build writes no lacks, and its node counts as able to do everything.
-- A node says which abilities it lacks, so that its shards go to a node that has them.
ALTER TABLE node ADD COLUMN lacks VARCHAR(255) COLLATE "C" NOT NULL DEFAULT ''; -- one ability a line, sorted

-- Every node, for people, with the number of its shards and the abilities that it lacks.
CREATE OR REPLACE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       (TIMESTAMP '1970-01-01' + n.started * INTERVAL '1 millisecond')::TIMESTAMP(3) AS started,
       (TIMESTAMP '1970-01-01' + n.expires * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires,
       (SELECT count(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications, n.lacks
FROM node n;

-- +goose Down
DROP VIEW node_report;
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       (TIMESTAMP '1970-01-01' + n.started * INTERVAL '1 millisecond')::TIMESTAMP(3) AS started,
       (TIMESTAMP '1970-01-01' + n.expires * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires,
       (SELECT count(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications
FROM node n;
ALTER TABLE node DROP COLUMN lacks;
