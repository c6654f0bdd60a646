-- +goose Up
-- The nodes that share the work: one row for each process. A process writes its row every second. A test compares the columns of the
-- three engines. Instants are epoch milliseconds, UTC.
CREATE TABLE node (
    incarnation  VARCHAR(26)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- identifies one start of the process
    name         VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- two processes may have the same name
    address      VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    version      VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    started      BIGINT       NOT NULL,
    expires      BIGINT       NOT NULL, -- from then on other nodes treat the node as dead
    applications MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- applications with a subscriber on this node, one a line
    PRIMARY KEY (incarnation)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Every lease, for people. owner, incarnation and expires are NULL for a free shard. node_known is 0 if the owner has no row in node.
CREATE VIEW shard_report AS
SELECT s.shard, NULLIF(s.owner, '') AS owner, NULLIF(s.incarnation, '') AS incarnation, s.epoch,
       CAST(TIMESTAMPADD(MICROSECOND, NULLIF(s.expires, 0) * 1000, '1970-01-01') AS DATETIME(3)) AS expires,
       n.incarnation IS NOT NULL AS node_known
FROM shard s
LEFT JOIN node n ON n.incarnation = s.incarnation;

-- Every node, for people, with the number of its shards.
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       CAST(TIMESTAMPADD(MICROSECOND, n.started * 1000, '1970-01-01') AS DATETIME(3)) AS started,
       CAST(TIMESTAMPADD(MICROSECOND, n.expires * 1000, '1970-01-01') AS DATETIME(3)) AS expires,
       (SELECT COUNT(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications
FROM node n;

-- +goose Down
DROP VIEW node_report;
DROP VIEW shard_report;
DROP TABLE node;
