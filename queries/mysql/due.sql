-- name: ListDue :many
-- What is due of one shard from (from_time, from_rank, from_id), inclusive, up to (until_time, until_rank, until_id), exclusive, in
-- that order, each as one value, as packed.go reads it. Repeated with UNION ALL a shard. The row form (a, b) > (?, ?) would be
-- planned over the whole shard. What is due has no finished_at, which has its place in the index.
-- Index: alarm_due alone, as a range. Rows: up to the limit a shard.
(SELECT CONCAT_WS(' ', shard, next_try_time, due_rank, id, application) AS packed FROM alarm FORCE INDEX (alarm_due)
 WHERE shard = ? AND (next_try_time > ? OR next_try_time = ? AND finished_at IS NULL AND (due_rank > ? OR due_rank = ? AND id >= ?))
   AND (next_try_time < ? OR next_try_time = ? AND finished_at IS NULL AND (due_rank < ? OR due_rank = ? AND id < ?))
 ORDER BY next_try_time, finished_at, due_rank, id LIMIT ?);

-- name: CountDue :one
-- How many are due of the shards, counted up to the limit.
-- Index: alarm_due alone, as a range. Rows: one, of as many as the limit.
SELECT COUNT(*) FROM (
    SELECT id FROM alarm FORCE INDEX (alarm_due) WHERE shard IN (sqlc.slice(shards)) AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED) LIMIT ?
) d;

-- name: ListOldest :many
-- Since when something is due of one shard. Repeated with UNION ALL a shard.
-- Index: alarm_due alone, its first entry. Rows: at most one a shard.
(SELECT next_try_time FROM alarm FORCE INDEX (alarm_due) WHERE shard = ? AND next_try_time <= ? ORDER BY next_try_time, finished_at, due_rank, id LIMIT 1);

-- name: LockExpired :many
-- Those of the due rows that can no longer ring, locked in the order of id, passing over what is locked.
-- Index: primary key. Rows: few of the ids.
SELECT id, application, business_id, last_error FROM alarm FORCE INDEX (PRIMARY)
WHERE id IN (sqlc.slice(ids)) AND state IN (1, 2) AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED) AND latest_ring_at < CAST(sqlc.arg(now) AS SIGNED)
ORDER BY id
FOR UPDATE SKIP LOCKED;

-- name: ListFinished :many
-- What of one shard was over before the instant, oldest first. Repeated with UNION ALL a shard. Read without a lock, so that no
-- entry of the index is held against a set that arms the alarm again.
-- Index: alarm_due alone, as a range a shard. Rows: up to the last limit.
(SELECT id FROM alarm FORCE INDEX (alarm_due) WHERE shard = ? AND next_try_time IS NULL AND finished_at < ? ORDER BY finished_at LIMIT ?)
LIMIT ?;

-- name: LockFinished :many
-- Those that are still over, locked, passing over what is locked.
-- Index: primary key. Rows: up to a purge.
SELECT id FROM alarm FORCE INDEX (PRIMARY) WHERE id IN (sqlc.slice(ids)) AND finished_at < CAST(sqlc.arg(earlier) AS SIGNED)
ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: PurgeAlarms :execrows
-- Index: primary key. Rows: up to a purge.
DELETE a FROM alarm a FORCE INDEX (PRIMARY) WHERE a.id IN (sqlc.slice(ids)) AND a.finished_at < CAST(sqlc.arg(earlier) AS SIGNED);
