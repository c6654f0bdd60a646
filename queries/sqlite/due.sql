-- name: ListDue :many
-- Lists the due entries of one shard in the order of the due index, from (from_time, from_rank, from_id), inclusive, up to (until_time,
-- until_rank, until_id), exclusive. The statement is repeated with UNION ALL for each shard.
-- SQLite searches the index by the plain bounds of the time. The limit is cast because SQLite compiles a statement again whenever a bare
-- parameter of LIMIT is bound. Compiling takes 20 times as long as running this statement.
-- Index: alarm_due alone. Rows: up to the limit for each shard.
SELECT * FROM (
    SELECT shard, next_try_time, due_rank, id, application FROM alarm
    WHERE shard = ? AND next_try_time >= ? AND (next_try_time > ? OR due_rank > ? OR due_rank = ? AND id >= ?)
      AND next_try_time <= ? AND (next_try_time < ? OR due_rank < ? OR due_rank = ? AND id < ?)
    ORDER BY next_try_time, due_rank, id LIMIT CAST(? AS INTEGER));

-- name: ListDueExcept :many
-- Like ListDue, without the entries of the addressees (store.Addressee), a JSON array.
-- Index: alarm_due alone. Rows: up to the limit for each shard, taken from the entries before the end that ListDueEnd found.
SELECT * FROM (
    SELECT shard, next_try_time, due_rank, id, application FROM alarm
    WHERE shard = ? AND next_try_time >= ? AND (next_try_time > ? OR due_rank > ? OR due_rank = ? AND id >= ?)
      AND next_try_time <= ? AND (next_try_time < ? OR due_rank < ? OR due_rank = ? AND id < ?)
      AND application || '/' || (due_rank / 16) NOT IN (SELECT value FROM json_each(CAST(? AS TEXT)))
    ORDER BY next_try_time, due_rank, id LIMIT CAST(? AS INTEGER));

-- name: ListDueOnly :many
-- Like ListDue, only the entries of the addressees (store.Addressee), a JSON array.
-- Index: alarm_due alone. Rows: up to the limit for each shard, taken from the entries before the end that ListDueEnd found.
SELECT * FROM (
    SELECT shard, next_try_time, due_rank, id, application FROM alarm
    WHERE shard = ? AND next_try_time >= ? AND (next_try_time > ? OR due_rank > ? OR due_rank = ? AND id >= ?)
      AND next_try_time <= ? AND (next_try_time < ? OR due_rank < ? OR due_rank = ? AND id < ?)
      AND application || '/' || (due_rank / 16) IN (SELECT value FROM json_each(CAST(? AS TEXT)))
    ORDER BY next_try_time, due_rank, id LIMIT CAST(? AS INTEGER));

-- name: ListDueOfApplication :many
-- Like ListDue, only the entries of one application.
-- Index: alarm_due alone. Rows: up to the limit for each shard, taken from the entries before the end that ListDueEnd found.
SELECT * FROM (
    SELECT shard, next_try_time, due_rank, id, application FROM alarm
    WHERE shard = ? AND next_try_time >= ? AND (next_try_time > ? OR due_rank > ? OR due_rank = ? AND id >= ?)
      AND next_try_time <= ? AND (next_try_time < ? OR due_rank < ? OR due_rank = ? AND id < ?)
      AND application = ?
    ORDER BY next_try_time, due_rank, id LIMIT CAST(? AS INTEGER));

-- name: ListDueEnd :many
-- Finds the entry at which a filtered read of one shard ends: it skips as many entries of ListDue as the offset says.
-- Index: alarm_due alone. Rows: at most one for each shard, after a read of as many entries as the offset.
SELECT * FROM (
    SELECT shard, next_try_time, due_rank, id, application FROM alarm
    WHERE shard = ? AND next_try_time >= ? AND (next_try_time > ? OR due_rank > ? OR due_rank = ? AND id >= ?)
      AND next_try_time <= ? AND (next_try_time < ? OR due_rank < ? OR due_rank = ? AND id < ?)
    ORDER BY next_try_time, due_rank, id LIMIT 1 OFFSET CAST(? AS INTEGER));

-- name: CountDue :one
-- Counts the due alarms of the shards, up to row_limit, and reads the oldest due time (-1 if there is none).
-- Index: alarm_due alone. Rows: one, after a read of up to row_limit entries and one for each shard.
SELECT CAST((SELECT COUNT(*)
             FROM (SELECT 1 FROM alarm a
                   WHERE a.shard IN (SELECT value FROM json_each(CAST(sqlc.arg(shards) AS TEXT)))
                     AND a.next_try_time <= CAST(sqlc.arg(now) AS INTEGER)
                   LIMIT sqlc.arg(row_limit))) AS INTEGER) AS count,
       CAST(COALESCE((SELECT MIN((SELECT a.next_try_time FROM alarm a
                                  WHERE a.shard = s.value AND a.next_try_time <= CAST(sqlc.arg(now) AS INTEGER)
                                  ORDER BY a.next_try_time LIMIT 1))
                      FROM json_each(CAST(sqlc.arg(shards) AS TEXT)) s), -1) AS INTEGER) AS oldest;

-- name: CountDueByTime :many
-- Counts due entries of one shard by time, in steps from from_time on, by application: one, or each if split is 1, and the others without a name. It
-- counts the first entries, up to row_limit.
-- Index: alarm_due alone, as a range that ends at the limit. Rows: one or two for each step; with split one for each application and step.
SELECT CAST((d.next_try_time - CAST(sqlc.arg(from_time) AS INTEGER)) / CAST(sqlc.arg(step) AS INTEGER) AS INTEGER) AS number,
       CAST(d.application AS TEXT) AS application, COUNT(*) AS count
FROM (SELECT a.next_try_time,
             CASE WHEN CAST(sqlc.arg(split) AS INTEGER) = 1 OR a.application = CAST(sqlc.arg(application) AS TEXT) THEN a.application ELSE '' END AS application
      FROM alarm a
      WHERE a.shard = sqlc.arg(shard) AND a.next_try_time >= CAST(sqlc.arg(from_time) AS INTEGER) AND a.next_try_time < CAST(sqlc.arg(until_time) AS INTEGER)
      ORDER BY a.next_try_time LIMIT sqlc.arg(row_limit)) d
GROUP BY number, d.application ORDER BY number, d.application LIMIT 1000000;

-- name: CountPending :many
-- Counts the entries of one shard by application. LIMIT is a safety net.
-- Index: alarm_due alone, all entries of the shard. Rows: one for each application.
SELECT a.application, COUNT(*) AS count FROM alarm a
WHERE a.shard = sqlc.arg(shard) AND a.next_try_time IS NOT NULL
GROUP BY a.application LIMIT 100000;

-- name: ListEnding :many
-- Lists rows that may not ring any more: latest_ring_at has passed, or they have rung max_rings times without an acknowledgement.
-- Index: primary key. Rows: few of the ids.
SELECT id FROM alarm
WHERE id IN (SELECT value FROM json_each(CAST(sqlc.arg(ids) AS TEXT))) AND state IN (1, 2)
  AND (latest_ring_at < CAST(sqlc.arg(now) AS INTEGER) OR state = 2 AND rung_at IS NOT NULL AND ring_no >= max_rings);

-- name: PurgeAlarms :many
-- Deletes alarms that finished before the instant, oldest first. It skips alarms in doubt whose claim may still be settled.
-- Index: alarm_finished to find them, then primary key. Rows: up to the limit.
DELETE FROM alarm
WHERE id IN (
    SELECT f.id FROM alarm f
    WHERE f.finished_at < CAST(sqlc.arg(earlier) AS INTEGER)
      AND (f.in_doubt = 0 OR f.delivery = 0 OR f.finished_at < CAST(sqlc.arg(settled) AS INTEGER))
    ORDER BY f.finished_at, f.id LIMIT sqlc.arg(row_limit))
RETURNING id;
