-- +goose Up
-- side by side: yes, because an older build writes no lacks, and its node counts as able to do everything.
-- A node says which abilities it lacks, so that its shards go to a node that has them.
ALTER TABLE node
    ADD COLUMN lacks VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ''; -- one ability a line, sorted

-- Every node, for people, with the number of its shards and the abilities that it lacks.
DROP VIEW node_report;
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       CAST(TIMESTAMPADD(MICROSECOND, n.started * 1000, '1970-01-01') AS DATETIME(3)) AS started,
       CAST(TIMESTAMPADD(MICROSECOND, n.expires * 1000, '1970-01-01') AS DATETIME(3)) AS expires,
       (SELECT COUNT(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications, n.lacks
FROM node n;

-- +goose Down
DROP VIEW node_report;
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       CAST(TIMESTAMPADD(MICROSECOND, n.started * 1000, '1970-01-01') AS DATETIME(3)) AS started,
       CAST(TIMESTAMPADD(MICROSECOND, n.expires * 1000, '1970-01-01') AS DATETIME(3)) AS expires,
       (SELECT COUNT(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications
FROM node n;
ALTER TABLE node DROP COLUMN lacks;
