-- name: ListCluster :many
-- All nodes (shard -1), then all leases, in one statement and so of one moment. Without a lock.
-- Index: none, both tables are small. Rows: one a node, one a shard; LIMIT is a safety net.
SELECT CAST(-1 AS SIGNED) AS shard, incarnation, name AS owner, CAST(0 AS SIGNED) AS epoch, expires, address, version, started, applications FROM node
UNION ALL
SELECT shard, incarnation, owner, epoch, expires, '', '', 0, '' FROM shard
ORDER BY shard, incarnation LIMIT 100000;

-- name: UpsertNode :exec
-- What a node says of itself. started is of the first time.
-- Index: primary key. Rows: one.
INSERT INTO node (incarnation, name, address, version, started, expires, applications) VALUES (?, ?, ?, ?, ?, ?, ?)
ON DUPLICATE KEY UPDATE name = VALUES(name), address = VALUES(address), version = VALUES(version), expires = VALUES(expires),
    applications = VALUES(applications);

-- name: RenewLeases :exec
-- Index: none, the table is small; rows that others have are passed over, locked or not. Rows: the node's shards.
UPDATE shard SET expires = sqlc.arg(expires) WHERE incarnation = sqlc.arg(incarnation);

-- name: ListForgotten :many
-- Nodes that expired before the instant. Read without a lock: a DELETE by expires would wait for every node that attends.
-- Index: none, the table is small. Rows: mostly none.
SELECT incarnation FROM node WHERE expires < CAST(sqlc.arg(forget) AS SIGNED) ORDER BY incarnation LIMIT 1000;

-- name: ForgetNodes :exec
-- Those of the nodes that still expired before the instant.
-- Index: primary key. Rows: few.
DELETE n FROM node n FORCE INDEX (PRIMARY) WHERE n.incarnation IN (sqlc.slice(incarnations)) AND n.expires < CAST(sqlc.arg(forget) AS SIGNED);

-- name: LockFreeShards :many
-- Those of the shards that are free or expired, locked, passing over what is locked; it only avoids waiting, TakeShards decides.
-- Index: primary key. Rows: up to all shards.
SELECT shard FROM shard FORCE INDEX (PRIMARY) WHERE shard IN (sqlc.slice(shards)) AND expires <= CAST(sqlc.arg(now) AS SIGNED)
ORDER BY shard FOR UPDATE SKIP LOCKED;

-- name: TakeShards :execrows
-- Index: primary key. Rows: up to all shards.
UPDATE shard FORCE INDEX (PRIMARY)
SET owner = sqlc.arg(owner), incarnation = sqlc.arg(incarnation), epoch = epoch + 1, expires = sqlc.arg(expires)
WHERE shard IN (sqlc.slice(shards)) AND expires <= CAST(sqlc.arg(now) AS SIGNED);

-- name: YieldShards :exec
-- Frees those of the shards that the node has. The epoch stays, the next owner's is higher.
-- Index: primary key. Rows: up to all shards.
UPDATE shard FORCE INDEX (PRIMARY) SET owner = '', incarnation = '', expires = 0
WHERE shard IN (sqlc.slice(shards)) AND incarnation = sqlc.arg(incarnation);

-- name: YieldAllShards :exec
-- Index: none, as RenewLeases. Rows: the node's shards.
UPDATE shard SET owner = '', incarnation = '', expires = 0 WHERE incarnation = sqlc.arg(incarnation);

-- name: DeleteNode :exec
-- Index: primary key. Rows: one.
DELETE FROM node WHERE incarnation = sqlc.arg(incarnation);
