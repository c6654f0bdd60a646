-- name: ListCluster :many
-- Reads the oldest build level (shard -2, in epoch), all nodes (shard -1), then all leases. One statement reads them all, so they are of
-- one moment. It takes no lock.
-- Index: none, both tables are small. Rows: one for each node and each shard; LIMIT is a safety net.
SELECT (-1)::bigint AS shard, incarnation, name AS owner, 0::bigint AS epoch, expires, address, version, started, applications, lacks, settings, secret_keys FROM node
UNION ALL
SELECT -2, '', '', oldest, 0, '', '', 0, '', '', 0, '' FROM build_level
UNION ALL
SELECT shard, incarnation, owner, epoch, expires, '', '', 0, '', '', 0, '' FROM shard
ORDER BY shard, incarnation LIMIT 100000;

-- name: AttendNode :exec
-- Writes the row of a node, and renews the leases of the node. started keeps its first value. A build below the oldest level renews nothing.
-- Index: primary key for the node; none for the leases, the table is small. Rows: one, and the node's shards.
WITH written AS (
    INSERT INTO node (incarnation, name, address, version, started, expires, applications, lacks, settings, secret_keys)
    VALUES (sqlc.arg(incarnation), sqlc.arg(name), sqlc.arg(address), sqlc.arg(version), sqlc.arg(started), sqlc.arg(expires),
        sqlc.arg(applications), sqlc.arg(lacks), sqlc.arg(settings), sqlc.arg(secret_keys))
    ON CONFLICT (incarnation) DO UPDATE SET name = excluded.name, address = excluded.address, version = excluded.version,
        expires = excluded.expires, applications = excluded.applications, lacks = excluded.lacks, settings = excluded.settings,
        secret_keys = excluded.secret_keys
)
UPDATE shard SET expires = sqlc.arg(expires)
WHERE shard.incarnation = sqlc.arg(incarnation) AND (SELECT b.oldest FROM build_level b WHERE b.only_row = 1) <= sqlc.arg(build)::bigint;

-- name: ForgetNodes :exec
-- Deletes nodes that expired before the instant, and skips locked rows.
-- Index: none, the table is small. Rows: usually none.
WITH old AS MATERIALIZED (
    SELECT o.incarnation FROM node o WHERE o.expires < sqlc.arg(forget)::bigint ORDER BY o.incarnation FOR UPDATE SKIP LOCKED
)
DELETE FROM node n USING old WHERE n.incarnation = old.incarnation;

-- name: TakeShards :many
-- Takes the listed shards that are free or expired, and skips locked rows.
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
-- Frees the listed shards that the node owns. The epoch stays; the next owner gets a higher one.
-- Index: primary key. Rows: up to all shards.
UPDATE shard SET owner = '', incarnation = '', expires = 0
WHERE shard = ANY(sqlc.arg(shards)::smallint[]) AND incarnation = sqlc.arg(incarnation);

-- name: YieldAllShards :exec
-- Index: none, like RenewLeases. Rows: the node's shards.
UPDATE shard SET owner = '', incarnation = '', expires = 0 WHERE incarnation = sqlc.arg(incarnation);

-- name: DeleteNode :exec
-- Index: primary key. Rows: one.
DELETE FROM node WHERE incarnation = sqlc.arg(incarnation);
