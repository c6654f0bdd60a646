-- +goose Up
-- Who shares the work: one row a process, written every second while it lives. A test compares the columns of the three
-- engines. Instants are epoch milliseconds, UTC.
CREATE TABLE node (
    incarnation  VARCHAR(26)  COLLATE "C" NOT NULL, -- of the process
    name         VARCHAR(128) COLLATE "C" NOT NULL, -- two processes may share one
    address      VARCHAR(255) COLLATE "C" NOT NULL,
    version      VARCHAR(64)  COLLATE "C" NOT NULL,
    started      BIGINT       NOT NULL,
    expires      BIGINT       NOT NULL, -- taken for dead from then on
    applications TEXT         COLLATE "C" NOT NULL, -- with a subscriber there, one a line
    PRIMARY KEY (incarnation)
) WITH (
    -- As the table shard: some rows, written every second for ever.
    fillfactor = 50
);

-- Every lease, for people: NULL where nobody has the shard. node_known is 0 where the owner's row is gone.
CREATE VIEW shard_report AS
SELECT s.shard, NULLIF(s.owner, '') AS owner, NULLIF(s.incarnation, '') AS incarnation, s.epoch,
       (TIMESTAMP '1970-01-01' + NULLIF(s.expires, 0) * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires,
       CASE WHEN n.incarnation IS NULL THEN 0 ELSE 1 END AS node_known
FROM shard s
LEFT JOIN node n ON n.incarnation = s.incarnation;

-- Every node, for people, with how many shards it has.
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
