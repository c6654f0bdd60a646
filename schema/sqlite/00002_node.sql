-- +goose Up
-- Who shares the work: one row a process, written every second while it lives. A test compares the columns of the three
-- engines. Instants are epoch milliseconds, UTC.
CREATE TABLE node (
    incarnation  TEXT    NOT NULL PRIMARY KEY, -- of the process
    name         TEXT    NOT NULL, -- two processes may share one
    address      TEXT    NOT NULL,
    version      TEXT    NOT NULL,
    started      INTEGER NOT NULL,
    expires      INTEGER NOT NULL, -- taken for dead from then on
    applications TEXT    NOT NULL  -- with a subscriber there, one a line
) STRICT, WITHOUT ROWID;

-- Every lease, for people: NULL where nobody has the shard. node_known is 0 where the owner's row is gone.
CREATE VIEW shard_report AS
SELECT s.shard, NULLIF(s.owner, '') AS owner, NULLIF(s.incarnation, '') AS incarnation, s.epoch,
       datetime(NULLIF(s.expires, 0) / 1000, 'unixepoch') || printf('.%03d', s.expires % 1000) AS expires,
       n.incarnation IS NOT NULL AS node_known
FROM shard s
LEFT JOIN node n ON n.incarnation = s.incarnation;

-- Every node, for people, with how many shards it has.
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
