-- name: ListDue :many
-- What is due of one shard from (from_time, from_rank, from_id), inclusive, up to (until_time, until_rank, until_id), exclusive, in
-- that order.
-- Repeated with UNION ALL a shard. The plain bounds of the time are what the index is searched by. The limit is cast, for SQLite
-- compiles a statement anew whenever a bare parameter of LIMIT is bound, which takes 20 times as long as to run this one.
-- Index: alarm_due alone. Rows: up to the limit a shard.
SELECT * FROM (
    SELECT shard, next_try_time, due_rank, id, application FROM alarm
    WHERE shard = ? AND next_try_time >= ? AND (next_try_time > ? OR due_rank > ? OR due_rank = ? AND id >= ?)
      AND next_try_time <= ? AND (next_try_time < ? OR due_rank < ? OR due_rank = ? AND id < ?)
    ORDER BY next_try_time, due_rank, id LIMIT CAST(? AS INTEGER));

-- name: CountDue :one
-- How many are due of the shards, counted up to row_limit, and since when (-1: none).
-- Index: alarm_due alone. Rows: one, of row_limit and one a shard.
SELECT CAST((SELECT COUNT(*)
             FROM (SELECT 1 FROM alarm a
                   WHERE a.shard IN (SELECT value FROM json_each(CAST(sqlc.arg(shards) AS TEXT)))
                     AND a.next_try_time <= CAST(sqlc.arg(now) AS INTEGER)
                   LIMIT sqlc.arg(row_limit))) AS INTEGER) AS count,
       CAST(COALESCE((SELECT MIN((SELECT a.next_try_time FROM alarm a
                                  WHERE a.shard = s.value AND a.next_try_time <= CAST(sqlc.arg(now) AS INTEGER)
                                  ORDER BY a.next_try_time LIMIT 1))
                      FROM json_each(CAST(sqlc.arg(shards) AS TEXT)) s), -1) AS INTEGER) AS oldest;

-- name: ExpireAlarms :many
-- Ends those of the due rows that can no longer ring; the reason of an earlier failure stays.
-- Index: primary key. Rows: few of the ids.
UPDATE alarm
SET state = 4, next_try_time = NULL, last_error = CASE WHEN last_error = '' THEN CAST(sqlc.arg(reason) AS TEXT) ELSE last_error END,
    update_time = CAST(sqlc.arg(now) AS INTEGER), finished_at = CAST(sqlc.arg(now) AS INTEGER)
WHERE id IN (SELECT value FROM json_each(CAST(sqlc.arg(ids) AS TEXT))) AND state IN (1, 2)
  AND next_try_time <= CAST(sqlc.arg(now) AS INTEGER) AND latest_ring_at < CAST(sqlc.arg(now) AS INTEGER)
RETURNING id, application, business_id, last_error;

-- name: PurgeAlarms :many
-- Deletes what was over before the instant, oldest first.
-- Index: alarm_finished alone to find them, then primary key. Rows: up to the limit.
DELETE FROM alarm
WHERE id IN (SELECT f.id FROM alarm f WHERE f.finished_at < CAST(sqlc.arg(earlier) AS INTEGER) ORDER BY f.finished_at, f.id LIMIT sqlc.arg(row_limit))
RETURNING id;
