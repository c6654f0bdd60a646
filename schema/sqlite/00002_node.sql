-- +goose Up
-- The nodes that share the work: one row for each process. A process writes its row every second. A test compares the columns of the
-- three engines. Instants are epoch milliseconds, UTC.
CREATE TABLE node (
    incarnation  TEXT    NOT NULL PRIMARY KEY, -- identifies one start of the process
    name         TEXT    NOT NULL, -- two processes may have the same name
    address      TEXT    NOT NULL,
    version      TEXT    NOT NULL,
    started      INTEGER NOT NULL,
    expires      INTEGER NOT NULL, -- from then on other nodes treat the node as dead
    applications TEXT    NOT NULL  -- applications with a subscriber on this node, one a line
) STRICT, WITHOUT ROWID;

-- Every lease, for people. owner, incarnation and expires are NULL for a free shard. node_known is 0 if the owner has no row in node.
CREATE VIEW shard_report AS
SELECT s.shard, NULLIF(s.owner, '') AS owner, NULLIF(s.incarnation, '') AS incarnation, s.epoch,
       datetime(NULLIF(s.expires, 0) / 1000, 'unixepoch') || printf('.%03d', s.expires % 1000) AS expires,
       n.incarnation IS NOT NULL AS node_known
FROM shard s
LEFT JOIN node n ON n.incarnation = s.incarnation;

-- Every node, for people, with the number of its shards.
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       datetime(n.started / 1000, 'unixepoch') || printf('.%03d', n.started % 1000) AS started,
       datetime(n.expires / 1000, 'unixepoch') || printf('.%03d', n.expires % 1000) AS expires,
       (SELECT COUNT(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications
FROM node n;

-- +goose Down
DROP VIEW node_report;
DROP VIEW shard_report;
DROP TABLE node;
