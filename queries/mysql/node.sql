-- name: ListCluster :many
-- Reads the oldest build level (shard -2, in epoch), all nodes (shard -1), then all leases. One statement reads them all, so they are of
-- one moment. It takes no lock. Empty texts have the collation of their column: TiDB refuses a UNION of two collations.
-- Index: none, both tables are small. Rows: one for each node and each shard; LIMIT is a safety net.
SELECT CAST(-1 AS SIGNED) AS shard, incarnation, name AS owner, CAST(0 AS SIGNED) AS epoch, expires, address, version, started, applications, lacks, settings, secret_keys FROM node
UNION ALL
SELECT -2, _ascii'' COLLATE ascii_bin, '', oldest, 0, '', '', 0, '', _ascii'' COLLATE ascii_bin, 0, _ascii'' COLLATE ascii_bin FROM build_level
UNION ALL
SELECT shard, incarnation, owner, epoch, expires, '', '', 0, '', _ascii'' COLLATE ascii_bin, 0, _ascii'' COLLATE ascii_bin FROM shard
ORDER BY shard, incarnation LIMIT 100000;

-- name: UpsertNode :exec
-- Writes the row of a node. started keeps its first value.
-- Index: primary key. Rows: one.
INSERT INTO node (incarnation, name, address, version, started, expires, applications, lacks, settings, secret_keys)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE name = VALUES(name), address = VALUES(address), version = VALUES(version), expires = VALUES(expires),
    applications = VALUES(applications), lacks = VALUES(lacks), settings = VALUES(settings),
    secret_keys = VALUES(secret_keys);

-- name: RenewLeases :exec
-- Renews the leases of a node. A build below the oldest level renews nothing.
-- Index: none, the table is small. The statement does not wait for rows of other nodes, locked or not. Rows: the node's shards.
UPDATE shard SET expires = sqlc.arg(expires)
WHERE incarnation = sqlc.arg(incarnation)
  AND (SELECT b.oldest FROM build_level b WHERE b.only_row = 1) <= CAST(sqlc.arg(build) AS SIGNED);

-- name: ListForgotten :many
-- Lists nodes that expired before the instant. It reads without a lock: a DELETE by expires would wait for every node that writes its
-- row.
-- Index: none, the table is small. Rows: usually none.
SELECT incarnation FROM node WHERE expires < CAST(sqlc.arg(forget) AS SIGNED) ORDER BY incarnation LIMIT 1000;

-- name: ForgetNodes :exec
-- Deletes the listed nodes that still have expired before the instant.
-- Index: primary key. Rows: few.
DELETE n FROM node n FORCE INDEX (PRIMARY) WHERE n.incarnation IN (sqlc.slice(incarnations)) AND n.expires < CAST(sqlc.arg(forget) AS SIGNED);

-- name: LockFreeShards :many
-- Locks the listed shards that are free or expired, and skips locked rows. This lock only saves TakeShards from waiting; TakeShards
-- decides.
-- Index: primary key. Rows: up to all shards.
SELECT shard FROM shard FORCE INDEX (PRIMARY) WHERE shard IN (sqlc.slice(shards)) AND expires <= CAST(sqlc.arg(now) AS SIGNED)
ORDER BY shard FOR UPDATE SKIP LOCKED;

-- name: TakeShards :execrows
-- Index: primary key. Rows: up to all shards.
UPDATE shard FORCE INDEX (PRIMARY)
SET owner = sqlc.arg(owner), incarnation = sqlc.arg(incarnation), epoch = epoch + 1, expires = sqlc.arg(expires)
WHERE shard IN (sqlc.slice(shards)) AND expires <= CAST(sqlc.arg(now) AS SIGNED);

-- name: YieldShards :exec
-- Frees the listed shards that the node owns. The epoch stays; the next owner gets a higher one.
-- Index: primary key. Rows: up to all shards.
UPDATE shard FORCE INDEX (PRIMARY) SET owner = '', incarnation = '', expires = 0
WHERE shard IN (sqlc.slice(shards)) AND incarnation = sqlc.arg(incarnation);

-- name: YieldAllShards :exec
-- Index: none, like RenewLeases. Rows: the node's shards.
UPDATE shard SET owner = '', incarnation = '', expires = 0 WHERE incarnation = sqlc.arg(incarnation);

-- name: DeleteNode :exec
-- Index: primary key. Rows: one.
DELETE FROM node WHERE incarnation = sqlc.arg(incarnation);
