-- name: ListDue :many
-- Lists the due entries of each shard in the order of the due index, from (from_time, from_rank, from_id), inclusive, up to (until_time,
-- until_rank, until_id), exclusive.
-- Index: alarm_due alone. Rows: up to row_limit for each shard.
SELECT d.shard, d.next_try_time, d.due_rank, d.id, d.application
FROM (SELECT unnest(sqlc.arg(shards)::smallint[]) AS shard) s
CROSS JOIN LATERAL (
    SELECT a.shard, a.next_try_time::bigint AS next_try_time, a.due_rank, a.id, a.application
    FROM alarm a
    WHERE a.shard = s.shard /* in a.shard */ AND a.next_try_time IS NOT NULL
      AND (a.next_try_time, a.due_rank, a.id) >= (sqlc.arg(from_time)::bigint, sqlc.arg(from_rank)::smallint, sqlc.arg(from_id)::bigint)
      AND (a.next_try_time, a.due_rank, a.id) < (sqlc.arg(until_time)::bigint, sqlc.arg(until_rank)::smallint, sqlc.arg(until_id)::bigint)
    ORDER BY a.next_try_time, a.due_rank, a.id
    LIMIT sqlc.arg(row_limit)
) d;

-- name: ListDueExcept :many
-- Like ListDue, without the entries of the addressees (store.Addressee).
-- Index: alarm_due alone. Rows: up to row_limit for each shard, taken from the entries before the end that ListDueEnd found.
SELECT d.shard, d.next_try_time, d.due_rank, d.id, d.application
FROM (SELECT unnest(sqlc.arg(shards)::smallint[]) AS shard) s
CROSS JOIN LATERAL (
    SELECT a.shard, a.next_try_time::bigint AS next_try_time, a.due_rank, a.id, a.application
    FROM alarm a
    WHERE a.shard = s.shard /* in a.shard */ AND a.next_try_time IS NOT NULL
      AND (a.next_try_time, a.due_rank, a.id) >= (sqlc.arg(from_time)::bigint, sqlc.arg(from_rank)::smallint, sqlc.arg(from_id)::bigint)
      AND (a.next_try_time, a.due_rank, a.id) < (sqlc.arg(until_time)::bigint, sqlc.arg(until_rank)::smallint, sqlc.arg(until_id)::bigint)
      AND a.application || '/' || (a.due_rank / 16) <> ALL(sqlc.arg(addressees)::varchar[])
    ORDER BY a.next_try_time, a.due_rank, a.id
    LIMIT sqlc.arg(row_limit)
) d;

-- name: ListDueOnly :many
-- Like ListDue, only the entries of the addressees (store.Addressee).
-- Index: alarm_due alone. Rows: up to row_limit for each shard, taken from the entries before the end that ListDueEnd found.
SELECT d.shard, d.next_try_time, d.due_rank, d.id, d.application
FROM (SELECT unnest(sqlc.arg(shards)::smallint[]) AS shard) s
CROSS JOIN LATERAL (
    SELECT a.shard, a.next_try_time::bigint AS next_try_time, a.due_rank, a.id, a.application
    FROM alarm a
    WHERE a.shard = s.shard /* in a.shard */ AND a.next_try_time IS NOT NULL
      AND (a.next_try_time, a.due_rank, a.id) >= (sqlc.arg(from_time)::bigint, sqlc.arg(from_rank)::smallint, sqlc.arg(from_id)::bigint)
      AND (a.next_try_time, a.due_rank, a.id) < (sqlc.arg(until_time)::bigint, sqlc.arg(until_rank)::smallint, sqlc.arg(until_id)::bigint)
      AND a.application || '/' || (a.due_rank / 16) = ANY(sqlc.arg(addressees)::varchar[])
    ORDER BY a.next_try_time, a.due_rank, a.id
    LIMIT sqlc.arg(row_limit)
) d;

-- name: ListDueOfApplication :many
-- Like ListDue, only the entries of one application.
-- Index: alarm_due alone. Rows: up to row_limit for each shard, taken from the entries before the end that ListDueEnd found.
SELECT d.shard, d.next_try_time, d.due_rank, d.id, d.application
FROM (SELECT unnest(sqlc.arg(shards)::smallint[]) AS shard) s
CROSS JOIN LATERAL (
    SELECT a.shard, a.next_try_time::bigint AS next_try_time, a.due_rank, a.id, a.application
    FROM alarm a
    WHERE a.shard = s.shard /* in a.shard */ AND a.next_try_time IS NOT NULL
      AND (a.next_try_time, a.due_rank, a.id) >= (sqlc.arg(from_time)::bigint, sqlc.arg(from_rank)::smallint, sqlc.arg(from_id)::bigint)
      AND (a.next_try_time, a.due_rank, a.id) < (sqlc.arg(until_time)::bigint, sqlc.arg(until_rank)::smallint, sqlc.arg(until_id)::bigint)
      AND a.application = sqlc.arg(application)::varchar
    ORDER BY a.next_try_time, a.due_rank, a.id
    LIMIT sqlc.arg(row_limit)
) d;

-- name: ListDueEnd :many
-- Finds the entry at which a filtered read of each shard ends: it skips the given number of entries of ListDue.
-- Index: alarm_due alone. Rows: at most one for each shard, after a read of that number of entries.
SELECT d.shard, d.next_try_time, d.due_rank, d.id, d.application
FROM (SELECT unnest(sqlc.arg(shards)::smallint[]) AS shard) s
CROSS JOIN LATERAL (
    SELECT a.shard, a.next_try_time::bigint AS next_try_time, a.due_rank, a.id, a.application
    FROM alarm a
    WHERE a.shard = s.shard /* in a.shard */ AND a.next_try_time IS NOT NULL
      AND (a.next_try_time, a.due_rank, a.id) >= (sqlc.arg(from_time)::bigint, sqlc.arg(from_rank)::smallint, sqlc.arg(from_id)::bigint)
      AND (a.next_try_time, a.due_rank, a.id) < (sqlc.arg(until_time)::bigint, sqlc.arg(until_rank)::smallint, sqlc.arg(until_id)::bigint)
    ORDER BY a.next_try_time, a.due_rank, a.id
    LIMIT 1 OFFSET sqlc.arg(entries)
) d;

-- name: CountDue :one
-- Counts the due alarms of the shards, up to row_limit, and reads the oldest due time (-1 if there is none).
-- Index: alarm_due alone. Rows: one, after a read of up to row_limit entries and one for each shard.
SELECT (SELECT count(*)
        FROM (SELECT 1
              FROM (SELECT unnest(sqlc.arg(shards)::smallint[]) AS shard) s
              CROSS JOIN LATERAL (
                  SELECT 1 FROM alarm a
                  WHERE a.shard = s.shard /* in a.shard */ AND a.next_try_time IS NOT NULL AND a.next_try_time <= sqlc.arg(now)::bigint
                  ORDER BY a.next_try_time, a.due_rank, a.id
                  LIMIT sqlc.arg(row_limit)
              ) d
              LIMIT sqlc.arg(row_limit)) c) AS count,
       (SELECT coalesce(min(d.next_try_time), -1)
        FROM (SELECT unnest(sqlc.arg(shards)::smallint[]) AS shard) s
        CROSS JOIN LATERAL (
            SELECT a.next_try_time FROM alarm a
            WHERE a.shard = s.shard /* in a.shard */ AND a.next_try_time IS NOT NULL AND a.next_try_time <= sqlc.arg(now)::bigint
            ORDER BY a.next_try_time, a.due_rank, a.id
            LIMIT 1
        ) d)::bigint AS oldest;

-- name: CountDueByTime :many
-- Counts due entries of one shard by time, in steps from from_time on, by application: one, or each with split, and the others without a name. It
-- counts the first entries, up to row_limit.
-- Index: alarm_due alone, as a range that ends at the limit. Rows: one or two for each step; with split one for each application and step.
SELECT ((d.next_try_time - sqlc.arg(from_time)::bigint) / sqlc.arg(step)::bigint)::bigint AS number, d.application::varchar AS application,
       count(*) AS count
FROM (SELECT a.next_try_time,
             CASE WHEN sqlc.arg(split)::boolean OR a.application = sqlc.arg(application)::varchar THEN a.application ELSE '' END AS application
      FROM alarm a
      WHERE a.shard = sqlc.arg(shard)::smallint AND a.next_try_time IS NOT NULL
        AND a.next_try_time >= sqlc.arg(from_time)::bigint AND a.next_try_time < sqlc.arg(until_time)::bigint
      ORDER BY a.next_try_time LIMIT sqlc.arg(row_limit)) d
GROUP BY number, d.application ORDER BY number, d.application LIMIT 1000000;

-- name: CountPending :many
-- Counts the entries of one shard by application. LIMIT is a safety net.
-- Index: alarm_due alone, all entries of the shard. Rows: one for each application.
SELECT a.application, count(*) AS count FROM alarm a
WHERE a.shard = sqlc.arg(shard)::smallint AND a.next_try_time IS NOT NULL
GROUP BY a.application LIMIT 100000;

-- name: ListEnding :many
-- Lists rows that may not ring any more: latest_ring_at has passed, or they have rung max_rings times without an acknowledgement.
-- Index: primary key. Rows: few of the ids.
SELECT id FROM alarm
WHERE id = ANY(sqlc.arg(ids)::bigint[]) /* in shard */ AND state IN (1, 2)
  AND (latest_ring_at < sqlc.arg(now)::bigint OR state = 2 AND rung_at IS NOT NULL AND ring_no >= max_rings);

-- name: PurgeAlarms :one
-- Deletes alarms that finished before the instant, oldest first, with their attempts and time zones. It skips locked rows, and alarms in
-- doubt whose claim may still be settled.
-- Index: alarm_finished, then primary keys and ring_attempt_alarm. Rows: one, the number of deleted alarms.
WITH old AS MATERIALIZED (
    SELECT f.id FROM alarm f
    WHERE f.finished_at < sqlc.arg(before)::bigint /* in f.shard */
      AND (f.in_doubt = 0 OR f.delivery = 0 OR f.finished_at < sqlc.arg(settled)::bigint)
      AND (SELECT b.oldest FROM build_level b WHERE b.only_row = 1) <= sqlc.arg(build)::bigint
    ORDER BY f.finished_at, f.id
    LIMIT sqlc.arg(row_limit)
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM alarm a USING old WHERE a.id = old.id /* in a.shard */ AND coalesce(a.finished_at < sqlc.arg(before)::bigint, FALSE)
      AND (a.in_doubt = 0 OR a.delivery = 0 OR a.finished_at < sqlc.arg(settled)::bigint)
    RETURNING a.id
), attempts AS (
    DELETE FROM ring_attempt r USING gone WHERE r.alarm_id = gone.id /* in r.shard */
), zones AS (
    DELETE FROM zoned_alarm z USING gone WHERE z.alarm_id = gone.id /* in z.shard */
)
SELECT count(*) FROM gone;
