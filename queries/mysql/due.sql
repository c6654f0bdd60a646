-- name: ListDue :many
-- Lists the due entries of one shard in the order of the due index, from (from_time, from_rank, from_id), inclusive, up to (until_time,
-- until_rank, until_id), exclusive. Each entry is one value in the format of packed.go. The statement is repeated with UNION ALL for each
-- shard.
-- MariaDB would plan the row form (a, b) > (?, ?) over the whole shard. The conditions name finished_at because it is a column of the
-- index; it is NULL for every due alarm.
-- Index: alarm_due alone, as a range. Rows: up to the limit for each shard.
/*FIRST*/(SELECT CONCAT_WS(' ', shard, next_try_time, due_rank, id, application) AS packed FROM alarm FORCE INDEX (alarm_due)
 WHERE shard = ? AND (next_try_time > ? OR next_try_time = ? AND finished_at IS NULL AND (due_rank > ? OR due_rank = ? AND id >= ?))
   AND (next_try_time < ? OR next_try_time = ? AND finished_at IS NULL AND (due_rank < ? OR due_rank = ? AND id < ?))
 ORDER BY next_try_time, finished_at, due_rank, id LIMIT ?)/*NEXT UNION ALL FIRST*/;

-- name: ListDueExcept :many
-- Like ListDue, without the entries of the addressees (store.Addressee): one text, with commas between them.
-- Index: alarm_due alone, as a range. Rows: up to the limit for each shard, taken from the entries before the end that ListDueEnd found.
/*FIRST*/(SELECT CONCAT_WS(' ', shard, next_try_time, due_rank, id, application) AS packed FROM alarm FORCE INDEX (alarm_due)
 WHERE shard = ? AND (next_try_time > ? OR next_try_time = ? AND finished_at IS NULL AND (due_rank > ? OR due_rank = ? AND id >= ?))
   AND (next_try_time < ? OR next_try_time = ? AND finished_at IS NULL AND (due_rank < ? OR due_rank = ? AND id < ?))
   AND FIND_IN_SET(CONCAT(application, '/', due_rank DIV 16), ?) = 0
 ORDER BY next_try_time, finished_at, due_rank, id LIMIT ?)/*NEXT UNION ALL FIRST*/;

-- name: ListDueOnly :many
-- Like ListDue, only the entries of the addressees (store.Addressee): one text, with commas between them.
-- Index: alarm_due alone, as a range. Rows: up to the limit for each shard, taken from the entries before the end that ListDueEnd found.
/*FIRST*/(SELECT CONCAT_WS(' ', shard, next_try_time, due_rank, id, application) AS packed FROM alarm FORCE INDEX (alarm_due)
 WHERE shard = ? AND (next_try_time > ? OR next_try_time = ? AND finished_at IS NULL AND (due_rank > ? OR due_rank = ? AND id >= ?))
   AND (next_try_time < ? OR next_try_time = ? AND finished_at IS NULL AND (due_rank < ? OR due_rank = ? AND id < ?))
   AND FIND_IN_SET(CONCAT(application, '/', due_rank DIV 16), ?) > 0
 ORDER BY next_try_time, finished_at, due_rank, id LIMIT ?)/*NEXT UNION ALL FIRST*/;

-- name: ListDueOfApplication :many
-- Like ListDue, only the entries of one application.
-- Index: alarm_due alone, as a range. Rows: up to the limit for each shard, taken from the entries before the end that ListDueEnd found.
/*FIRST*/(SELECT CONCAT_WS(' ', shard, next_try_time, due_rank, id, application) AS packed FROM alarm FORCE INDEX (alarm_due)
 WHERE shard = ? AND (next_try_time > ? OR next_try_time = ? AND finished_at IS NULL AND (due_rank > ? OR due_rank = ? AND id >= ?))
   AND (next_try_time < ? OR next_try_time = ? AND finished_at IS NULL AND (due_rank < ? OR due_rank = ? AND id < ?))
   AND application = ?
 ORDER BY next_try_time, finished_at, due_rank, id LIMIT ?)/*NEXT UNION ALL FIRST*/;

-- name: ListDueEnd :many
-- Finds the entry at which a filtered read of one shard ends: it skips as many entries of ListDue as the offset says.
-- Index: alarm_due alone, as a range. Rows: at most one for each shard, after a read of as many entries as the offset.
/*FIRST*/(SELECT CONCAT_WS(' ', shard, next_try_time, due_rank, id, application) AS packed FROM alarm FORCE INDEX (alarm_due)
 WHERE shard = ? AND (next_try_time > ? OR next_try_time = ? AND finished_at IS NULL AND (due_rank > ? OR due_rank = ? AND id >= ?))
   AND (next_try_time < ? OR next_try_time = ? AND finished_at IS NULL AND (due_rank < ? OR due_rank = ? AND id < ?))
 ORDER BY next_try_time, finished_at, due_rank, id LIMIT 1 OFFSET ?)/*NEXT UNION ALL FIRST*/;

-- name: CountDue :one
-- Counts the due alarms of the shards, up to the limit.
-- Index: alarm_due alone, as a range. Rows: one, after a read of up to the limit.
SELECT COUNT(*) FROM (
    SELECT id FROM alarm FORCE INDEX (alarm_due) WHERE shard IN (sqlc.slice(shards)) AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED) LIMIT ?
) d;

-- name: CountDueByTime :many
-- Counts due entries of one shard by time, in steps from a time on, by application: one, or each if split is 1, and the others without a name. It
-- counts the first entries, up to the limit.
-- Index: alarm_due alone, as a range that ends at the limit. Rows: one or two for each step; with split one for each application and step.
SELECT d.number, d.application, COUNT(*) AS count
FROM (SELECT CAST((a.next_try_time - CAST(sqlc.arg(begin) AS SIGNED)) DIV CAST(sqlc.arg(step) AS SIGNED) AS SIGNED) AS number,
             CASE WHEN CAST(sqlc.arg(split) AS SIGNED) = 1 OR a.application = sqlc.arg(application) THEN a.application ELSE '' END AS application
      FROM alarm a FORCE INDEX (alarm_due)
      WHERE a.shard = sqlc.arg(shard) AND a.next_try_time >= sqlc.arg(from_time) AND a.next_try_time < sqlc.arg(until_time)
      ORDER BY a.next_try_time LIMIT ?) d
GROUP BY d.number, d.application ORDER BY d.number, d.application LIMIT 1000000;

-- name: CountPending :many
-- Counts the entries of one shard by application. LIMIT is a safety net.
-- Index: alarm_due alone, all entries of the shard. Rows: one for each application.
SELECT a.application, COUNT(*) AS count FROM alarm a FORCE INDEX (alarm_due)
WHERE a.shard = sqlc.arg(shard) AND a.next_try_time IS NOT NULL
GROUP BY a.application ORDER BY NULL LIMIT 100000;

-- name: ListOldest :many
-- Reads the due time of the oldest due alarm of one shard. The statement is repeated with UNION ALL for each shard.
-- Index: alarm_due alone, its first entry. Rows: at most one for each shard.
/*FIRST*/(SELECT next_try_time FROM alarm FORCE INDEX (alarm_due)
 WHERE shard = ? AND next_try_time <= ? ORDER BY next_try_time, finished_at, due_rank, id LIMIT 1)/*NEXT UNION ALL FIRST*/;

-- name: ListEnding :many
-- Lists rows that may not ring any more: latest_ring_at has passed, or they have rung max_rings times without an acknowledgement.
-- Index: primary key. Rows: few of the ids.
SELECT id FROM alarm FORCE INDEX (PRIMARY)
WHERE id IN (sqlc.slice(ids)) AND state IN (1, 2)
  AND (latest_ring_at < CAST(sqlc.arg(now) AS SIGNED) OR state = 2 AND rung_at IS NOT NULL AND ring_no >= max_rings);

-- name: ListFinished :many
-- Lists the alarms of one shard that finished before the instant, oldest first. The statement is repeated with UNION ALL for each shard.
-- It reads without a lock, so that a set which arms such an alarm again does not wait for an entry of the index.
-- Index: alarm_due alone, as a range for each shard. Rows: up to the last limit.
/*FIRST*/(SELECT id FROM alarm FORCE INDEX (alarm_due)
 WHERE shard = ? AND next_try_time IS NULL AND finished_at < ? ORDER BY finished_at LIMIT ?)/*NEXT UNION ALL FIRST*/
LIMIT ?;

-- name: LockFinished :many
-- Locks the alarms that are still finished. It skips locked rows, and alarms in doubt whose claim may still be settled.
-- Index: primary key. Rows: up to a purge.
SELECT id FROM alarm FORCE INDEX (PRIMARY) WHERE id IN (sqlc.slice(ids)) AND finished_at < CAST(sqlc.arg(earlier) AS SIGNED)
  AND (in_doubt = 0 OR delivery = 0 OR finished_at < CAST(sqlc.arg(settled) AS SIGNED))
  AND (SELECT b.oldest FROM build_level b WHERE b.only_row = 1) <= CAST(sqlc.arg(build) AS SIGNED)
ORDER BY id FOR UPDATE SKIP LOCKED;

-- name: PurgeAlarms :execrows
-- Index: primary key. Rows: up to a purge.
DELETE a FROM alarm a FORCE INDEX (PRIMARY) WHERE a.id IN (sqlc.slice(ids)) AND a.finished_at < CAST(sqlc.arg(earlier) AS SIGNED)
  AND (a.in_doubt = 0 OR a.delivery = 0 OR a.finished_at < CAST(sqlc.arg(settled) AS SIGNED));
