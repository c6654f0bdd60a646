-- name: ListCluster :many
-- Reads the oldest build level (shard -2, in epoch), all nodes (shard -1), then all leases. One statement reads them all, so they are of
-- one moment.
-- Index: none, both tables are small. Rows: one for each node and each shard; LIMIT is a safety net.
SELECT CAST(-1 AS INTEGER) AS shard, incarnation, name AS owner, CAST(0 AS INTEGER) AS epoch, expires, address, version, started, applications, lacks, settings, secret_keys FROM node
UNION ALL
SELECT -2, '', '', oldest, 0, '', '', 0, '', '', 0, '' FROM build_level
UNION ALL
SELECT shard, incarnation, owner, epoch, expires, '', '', 0, '', '', 0, '' FROM shard
ORDER BY shard, incarnation LIMIT 100000;

-- name: UpsertNode :exec
-- Writes the row of a node. started keeps its first value.
-- Index: primary key. Rows: one.
INSERT INTO node (incarnation, name, address, version, started, expires, applications, lacks, settings, secret_keys)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (incarnation) DO UPDATE SET name = excluded.name, address = excluded.address, version = excluded.version,
    expires = excluded.expires, applications = excluded.applications, lacks = excluded.lacks, settings = excluded.settings,
    secret_keys = excluded.secret_keys;

-- name: RenewLeases :exec
-- Renews the leases of a node. A build below the oldest level renews nothing.
-- Index: none, the table is small. Rows: the node's shards.
UPDATE shard SET expires = sqlc.arg(expires)
WHERE incarnation = sqlc.arg(incarnation) AND (SELECT b.oldest FROM build_level b WHERE b.only_row = 1) <= CAST(sqlc.arg(build) AS INTEGER);

-- name: ForgetNodes :exec
-- Deletes nodes that expired before the instant.
-- Index: none, the table is small. Rows: usually none.
DELETE FROM node WHERE expires < CAST(sqlc.arg(forget) AS INTEGER);

-- name: TakeShards :many
-- Takes the listed shards that are free or expired.
-- Index: primary key. Rows: up to all shards.
UPDATE shard
SET owner = sqlc.arg(owner), incarnation = sqlc.arg(incarnation), epoch = epoch + 1, expires = sqlc.arg(expires)
WHERE shard IN (SELECT value FROM json_each(CAST(sqlc.arg(shards) AS TEXT))) AND expires <= CAST(sqlc.arg(now) AS INTEGER)
RETURNING shard;

-- name: YieldShards :exec
-- Frees the listed shards that the node owns. The epoch stays; the next owner gets a higher one.
-- Index: primary key. Rows: up to all shards.
UPDATE shard SET owner = '', incarnation = '', expires = 0
WHERE shard IN (SELECT value FROM json_each(CAST(sqlc.arg(shards) AS TEXT))) AND incarnation = CAST(sqlc.arg(incarnation) AS TEXT);

-- name: YieldAllShards :exec
-- Index: none, like RenewLeases. Rows: the node's shards.
UPDATE shard SET owner = '', incarnation = '', expires = 0 WHERE incarnation = sqlc.arg(incarnation);

-- name: DeleteNode :exec
-- Index: primary key. Rows: one.
DELETE FROM node WHERE incarnation = sqlc.arg(incarnation);
