-- +goose Up
-- The nodes that share the work: one row for each process. A process writes its row every second. A test compares the columns of the
-- three engines. Instants are epoch milliseconds, UTC.
CREATE TABLE node (
    incarnation  VARCHAR(26)  COLLATE "C" NOT NULL, -- identifies one start of the process
    name         VARCHAR(128) COLLATE "C" NOT NULL, -- two processes may have the same name
    address      VARCHAR(255) COLLATE "C" NOT NULL,
    version      VARCHAR(64)  COLLATE "C" NOT NULL,
    started      BIGINT       NOT NULL,
    expires      BIGINT       NOT NULL, -- from then on other nodes treat the node as dead
    applications TEXT         COLLATE "C" NOT NULL, -- applications with a subscriber on this node, one a line
    PRIMARY KEY (incarnation)
) WITH (
    -- Few rows, each written every second, like the table shard.
    fillfactor = 50
);

-- Every lease, for people. owner, incarnation and expires are NULL for a free shard. node_known is 0 if the owner has no row in node.
CREATE VIEW shard_report AS
SELECT s.shard, NULLIF(s.owner, '') AS owner, NULLIF(s.incarnation, '') AS incarnation, s.epoch,
       (TIMESTAMP '1970-01-01' + NULLIF(s.expires, 0) * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires,
       CASE WHEN n.incarnation IS NULL THEN 0 ELSE 1 END AS node_known
FROM shard s
LEFT JOIN node n ON n.incarnation = s.incarnation;

-- Every node, for people, with the number of its shards.
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       (TIMESTAMP '1970-01-01' + n.started * INTERVAL '1 millisecond')::TIMESTAMP(3) AS started,
       (TIMESTAMP '1970-01-01' + n.expires * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires,
       (SELECT count(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications
FROM node n;

-- +goose Down
DROP VIEW node_report;
DROP VIEW shard_report;
DROP TABLE node;
