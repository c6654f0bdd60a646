-- name: ListDue :many
-- What is due of each shard from (from_time, from_rank, from_id), inclusive, up to (until_time, until_rank, until_id), exclusive, in
-- that order.
-- Index: alarm_due alone. Rows: up to row_limit a shard.
SELECT d.shard, d.next_try_time, d.due_rank, d.id, d.application
FROM (SELECT unnest(sqlc.arg(shards)::smallint[]) AS shard) s
CROSS JOIN LATERAL (
    SELECT a.shard, a.next_try_time::bigint AS next_try_time, a.due_rank, a.id, a.application
    FROM alarm a
    WHERE a.shard = s.shard AND a.next_try_time IS NOT NULL
      AND (a.next_try_time, a.due_rank, a.id) >= (sqlc.arg(from_time)::bigint, sqlc.arg(from_rank)::smallint, sqlc.arg(from_id)::bigint)
      AND (a.next_try_time, a.due_rank, a.id) < (sqlc.arg(until_time)::bigint, sqlc.arg(until_rank)::smallint, sqlc.arg(until_id)::bigint)
    ORDER BY a.next_try_time, a.due_rank, a.id
    LIMIT sqlc.arg(row_limit)
) d;

-- name: CountDue :one
-- How many are due of the shards, counted up to row_limit, and since when (-1: none).
-- Index: alarm_due alone. Rows: one, of row_limit and one a shard.
SELECT (SELECT count(*)
        FROM (SELECT 1
              FROM (SELECT unnest(sqlc.arg(shards)::smallint[]) AS shard) s
              CROSS JOIN LATERAL (
                  SELECT 1 FROM alarm a
                  WHERE a.shard = s.shard AND a.next_try_time IS NOT NULL AND a.next_try_time <= sqlc.arg(now)::bigint
                  ORDER BY a.next_try_time, a.due_rank, a.id
                  LIMIT sqlc.arg(row_limit)
              ) d
              LIMIT sqlc.arg(row_limit)) c) AS count,
       (SELECT coalesce(min(d.next_try_time), -1)
        FROM (SELECT unnest(sqlc.arg(shards)::smallint[]) AS shard) s
        CROSS JOIN LATERAL (
            SELECT a.next_try_time FROM alarm a
            WHERE a.shard = s.shard AND a.next_try_time IS NOT NULL AND a.next_try_time <= sqlc.arg(now)::bigint
            ORDER BY a.next_try_time, a.due_rank, a.id
            LIMIT 1
        ) d)::bigint AS oldest;

-- name: ExpireAlarms :many
-- Ends those of the due rows that can no longer ring, passing over locked ones.
-- Index: primary key. Rows: few of the ids.
WITH free AS MATERIALIZED (
    SELECT f.id FROM alarm f
    WHERE f.id = ANY(sqlc.arg(ids)::bigint[]) AND f.state IN (1, 2) AND coalesce(f.next_try_time <= sqlc.arg(now)::bigint, FALSE)
      AND f.latest_ring_at < sqlc.arg(now)::bigint
    ORDER BY f.id
    FOR UPDATE SKIP LOCKED
)
UPDATE alarm a
SET state = 4, next_try_time = NULL, update_time = sqlc.arg(now)::bigint, finished_at = sqlc.arg(now)::bigint,
    last_error = CASE WHEN a.last_error = '' THEN sqlc.arg(reason)::varchar ELSE a.last_error END
FROM free
WHERE a.id = free.id AND a.state IN (1, 2) AND coalesce(a.next_try_time <= sqlc.arg(now)::bigint, FALSE)
  AND a.latest_ring_at < sqlc.arg(now)::bigint
RETURNING a.id, a.application, a.business_id, a.last_error;

-- name: PurgeAlarms :one
-- Deletes what was over before the instant, oldest first, with its attempts, passing over locked rows.
-- Index: alarm_finished, then primary key and ring_attempt_alarm. Rows: one, how many.
WITH old AS MATERIALIZED (
    SELECT f.id FROM alarm f
    WHERE f.finished_at < sqlc.arg(before)::bigint
    ORDER BY f.finished_at, f.id
    LIMIT sqlc.arg(row_limit)
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM alarm a USING old WHERE a.id = old.id AND coalesce(a.finished_at < sqlc.arg(before)::bigint, FALSE)
    RETURNING a.id
), attempts AS (
    DELETE FROM ring_attempt r USING gone WHERE r.alarm_id = gone.id
)
SELECT count(*) FROM gone;
