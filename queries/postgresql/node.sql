-- name: ListCluster :many
-- All nodes (shard -1), then all leases, in one statement and so of one moment. Without a lock.
-- Index: none, both tables are small. Rows: one a node, one a shard; LIMIT is a safety net.
SELECT (-1)::bigint AS shard, incarnation, name AS owner, 0::bigint AS epoch, expires, address, version, started, applications FROM node
UNION ALL
SELECT shard, incarnation, owner, epoch, expires, '', '', 0, '' FROM shard
ORDER BY shard, incarnation LIMIT 100000;

-- name: UpsertNode :exec
-- What a node says of itself. started is of the first time.
-- Index: primary key. Rows: one.
INSERT INTO node (incarnation, name, address, version, started, expires, applications) VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (incarnation) DO UPDATE SET name = excluded.name, address = excluded.address, version = excluded.version,
    expires = excluded.expires, applications = excluded.applications;

-- name: RenewLeases :exec
-- Index: none, the table is small. Rows: the node's shards.
UPDATE shard SET expires = sqlc.arg(expires) WHERE incarnation = sqlc.arg(incarnation);

-- name: ForgetNodes :exec
-- Nodes that expired before the instant, passing over what is locked.
-- Index: none, the table is small. Rows: mostly none.
WITH old AS MATERIALIZED (
    SELECT o.incarnation FROM node o WHERE o.expires < sqlc.arg(forget)::bigint ORDER BY o.incarnation FOR UPDATE SKIP LOCKED
)
DELETE FROM node n USING old WHERE n.incarnation = old.incarnation;

-- name: TakeShards :many
-- Takes those of the shards that are free or expired, passing over what is locked.
-- Index: primary key. Rows: up to all shards.
WITH free AS MATERIALIZED (
    SELECT f.shard FROM shard f
    WHERE f.shard = ANY(sqlc.arg(shards)::smallint[]) AND f.expires <= sqlc.arg(now)::bigint
    ORDER BY f.shard
    FOR UPDATE SKIP LOCKED
)
UPDATE shard s
SET owner = sqlc.arg(owner), incarnation = sqlc.arg(incarnation), epoch = s.epoch + 1, expires = sqlc.arg(expires)
FROM free
WHERE s.shard = free.shard AND s.expires <= sqlc.arg(now)::bigint
RETURNING s.shard;

-- name: YieldShards :exec
-- Frees those of the shards that the node has. The epoch stays, the next owner's is higher.
-- Index: primary key. Rows: up to all shards.
UPDATE shard SET owner = '', incarnation = '', expires = 0
WHERE shard = ANY(sqlc.arg(shards)::smallint[]) AND incarnation = sqlc.arg(incarnation);

-- name: YieldAllShards :exec
-- Index: none, as RenewLeases. Rows: the node's shards.
UPDATE shard SET owner = '', incarnation = '', expires = 0 WHERE incarnation = sqlc.arg(incarnation);

-- name: DeleteNode :exec
-- Index: primary key. Rows: one.
DELETE FROM node WHERE incarnation = sqlc.arg(incarnation);
