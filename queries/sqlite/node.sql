-- name: ListCluster :many
-- All nodes (shard -1), then all leases, in one statement and so of one moment.
-- Index: none, both tables are small. Rows: one a node, one a shard; LIMIT is a safety net.
SELECT CAST(-1 AS INTEGER) AS shard, incarnation, name AS owner, CAST(0 AS INTEGER) AS epoch, expires, address, version, started, applications FROM node
UNION ALL
SELECT shard, incarnation, owner, epoch, expires, '', '', 0, '' FROM shard
ORDER BY shard, incarnation LIMIT 100000;

-- name: UpsertNode :exec
-- What a node says of itself. started is of the first time.
-- Index: primary key. Rows: one.
INSERT INTO node (incarnation, name, address, version, started, expires, applications) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (incarnation) DO UPDATE SET name = excluded.name, address = excluded.address, version = excluded.version,
    expires = excluded.expires, applications = excluded.applications;

-- name: RenewLeases :exec
-- Index: none, the table is small. Rows: the node's shards.
UPDATE shard SET expires = sqlc.arg(expires) WHERE incarnation = sqlc.arg(incarnation);

-- name: ForgetNodes :exec
-- Nodes that expired before the instant.
-- Index: none, the table is small. Rows: mostly none.
DELETE FROM node WHERE expires < CAST(sqlc.arg(forget) AS INTEGER);

-- name: TakeShards :many
-- Takes those of the shards that are free or expired.
-- Index: primary key. Rows: up to all shards.
UPDATE shard
SET owner = sqlc.arg(owner), incarnation = sqlc.arg(incarnation), epoch = epoch + 1, expires = sqlc.arg(expires)
WHERE shard IN (SELECT value FROM json_each(CAST(sqlc.arg(shards) AS TEXT))) AND expires <= CAST(sqlc.arg(now) AS INTEGER)
RETURNING shard;

-- name: YieldShards :exec
-- Frees those of the shards that the node has. The epoch stays, the next owner's is higher.
-- Index: primary key. Rows: up to all shards.
UPDATE shard SET owner = '', incarnation = '', expires = 0
WHERE shard IN (SELECT value FROM json_each(CAST(sqlc.arg(shards) AS TEXT))) AND incarnation = CAST(sqlc.arg(incarnation) AS TEXT);

-- name: YieldAllShards :exec
-- Index: none, as RenewLeases. Rows: the node's shards.
UPDATE shard SET owner = '', incarnation = '', expires = 0 WHERE incarnation = sqlc.arg(incarnation);

-- name: DeleteNode :exec
-- Index: primary key. Rows: one.
DELETE FROM node WHERE incarnation = sqlc.arg(incarnation);
