-- The markers FIRST and NEXT surround the part of a statement that is repeated for each row (store/mysql/bulk.go). No line may
-- begin with /* and end with */, because sqlc would drop it as a comment.

-- name: InsertAlarms :execresult
-- Inserts the sets of a group as new rows, all or none. The tuple is repeated for each row. The rows keep the order of the group.
-- So alarms that are due at one time ring in the order in which they were set. A column that has its default in all rows is left out
-- (store/mysql/insert.go).
-- MariaDB runs the statement with innodb_lock_wait_timeout = 0, so that it never waits for a locked row.
-- For a build below the oldest level the application of the first tuple is NULL, and the server refuses the statement. The other tuples
-- need no check.
-- Index: alarm_key. Rows: up to a group.
INSERT INTO alarm (
    application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at, latest_ring_at,
    next_try_time, retry_policy, ack_timeout, max_rings, priority, traceparent, create_time, update_time, delivery, due_rank, repeat_rule, repeat_state, destination, receiver)
VALUES /*FIRST*/((SELECT IF(b.oldest <= sqlc.arg(build), sqlc.arg(application), NULL) FROM build_level b WHERE b.only_row = 1),
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    /*NEXT, (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)*/;

-- name: LockAlarms :many
-- Locks and returns the free rows of the keys, in the order of the keys. The pair is repeated for each key. MariaDB plans any number
-- of pairs as a range of points, because the session turns in_predicate_conversion_threshold off (store/mysql/connect.go).
-- Index: alarm_key. Rows: up to a group.
SELECT * FROM alarm FORCE INDEX (alarm_key) WHERE (application, business_id) IN (/*FIRST*/(?, ?)/*NEXT, FIRST*/)
ORDER BY application, business_id FOR UPDATE SKIP LOCKED;

-- name: LockAlarmsBriefly :many
-- Like LockAlarms, with only the columns that decide a cancel. It omits the content.
-- Index: alarm_key. Rows: up to a group.
SELECT id, application, business_id, shard, state, generation, next_try_time, last_error, in_doubt, rung_at
FROM alarm FORCE INDEX (alarm_key) WHERE (application, business_id) IN (/*FIRST*/(?, ?)/*NEXT, FIRST*/)
ORDER BY application, business_id FOR UPDATE SKIP LOCKED;

-- name: LockAlarmsWaiting :many
-- Like LockAlarms, but waits for locked rows, at most innodb_lock_wait_timeout.
-- Index: alarm_key. Rows: usually one.
SELECT * FROM alarm FORCE INDEX (alarm_key) WHERE (application, business_id) IN (/*FIRST*/(?, ?)/*NEXT, FIRST*/)
ORDER BY application, business_id FOR UPDATE;

-- name: LockAlarmsAtOnce :many
-- Locks the rows of the keys and returns their ids. It fails if another transaction holds a key. The pair is repeated for each key.
-- Index: alarm_key. Rows: usually none, because an earlier read found no rows for the keys.
SELECT id FROM alarm FORCE INDEX (alarm_key) WHERE (application, business_id) IN (/*FIRST*/(?, ?)/*NEXT, FIRST*/)
ORDER BY application, business_id FOR UPDATE NOWAIT;

-- name: ReadAlarms :many
-- Reads the last committed rows of the keys, without a lock.
-- Index: alarm_key. Rows: the few rows that LockAlarms skipped.
SELECT * FROM alarm FORCE INDEX (alarm_key) WHERE (application, business_id) IN (/*FIRST*/(?, ?)/*NEXT, FIRST*/)
ORDER BY application, business_id;

-- name: RewriteAlarms :execrows
-- Writes the rows that a set has changed: all columns except the key and create_time. The row loses the answer to its previous
-- generation. All rows had the same state and in_doubt before; not_in_doubt is the other value, so that an unreadable one counts as 0. The inner SELECT is repeated for each row; -1 stands for NULL, so that each column has
-- one type. A set always makes the next generation.
-- Index: primary key. Rows: up to a group.
UPDATE (
    /*FIRST*/SELECT ? AS id, ? AS generation, ? AS state, ? AS payload, ? AS payload_kind, ? AS content_type, ? AS target_ring_at,
           ? AS latest_ring_at, ? AS next_try_time, ? AS ring_no, ? AS retry_times, ? AS last_error, ? AS in_doubt,
           ? AS retry_policy, ? AS ack_timeout, ? AS max_rings, ? AS priority, ? AS traceparent, ? AS claim_id, ? AS rung_at,
           ? AS update_time, ? AS finished_at, ? AS delivery, ? AS due_rank, ? AS repeat_rule, ? AS repeat_state,
           ? AS past_generations, ? AS destination, ? AS receiver
    /*NEXT UNION ALL SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?*/
) c
STRAIGHT_JOIN alarm a FORCE INDEX (PRIMARY) ON c.id = a.id AND c.generation = a.generation + 1
SET a.state = c.state, a.generation = c.generation, a.payload = c.payload, a.payload_kind = c.payload_kind,
    a.content_type = c.content_type, a.target_ring_at = c.target_ring_at, a.latest_ring_at = NULLIF(c.latest_ring_at, -1),
    a.next_try_time = NULLIF(c.next_try_time, -1), a.ring_no = c.ring_no, a.retry_times = c.retry_times,
    a.last_error = c.last_error, a.in_doubt = c.in_doubt, a.retry_policy = c.retry_policy, a.ack_timeout = c.ack_timeout,
    a.max_rings = c.max_rings, a.priority = c.priority, a.traceparent = c.traceparent, a.claim_id = c.claim_id,
    a.rung_at = NULLIF(c.rung_at, -1), a.update_time = c.update_time, a.finished_at = NULLIF(c.finished_at, -1),
    a.delivery = c.delivery, a.due_rank = c.due_rank, a.repeat_rule = c.repeat_rule, a.repeat_state = c.repeat_state,
    a.past_generations = c.past_generations, a.destination = c.destination, a.receiver = c.receiver, a.answer = 0, a.answered_by = '', a.answered_at = NULL
WHERE a.state = sqlc.arg(old_state) AND a.in_doubt <> sqlc.arg(not_in_doubt)
  AND (SELECT b.oldest FROM build_level b WHERE b.only_row = 1) <= CAST(sqlc.arg(build) AS SIGNED);

-- name: CancelAlarms :execrows
-- Cancels rows that share one generation and one state, and are not in doubt. It does not write the payload again.
-- Index: primary key. Rows: up to a group.
UPDATE alarm FORCE INDEX (PRIMARY)
SET state = 6, next_try_time = NULL, update_time = CAST(sqlc.arg(now) AS SIGNED), finished_at = CAST(sqlc.arg(now) AS SIGNED)
WHERE id IN (sqlc.slice(ids)) AND generation = sqlc.arg(generation) AND state = sqlc.arg(old_state) AND in_doubt <> 1
  AND (SELECT b.oldest FROM build_level b WHERE b.only_row = 1) <= CAST(sqlc.arg(build) AS SIGNED);

-- name: AmendAlarms :execrows
-- Writes rows that were answered, resent, kicked, discarded, paused, resumed or recomputed. All rows had the same state, ring_no,
-- in_doubt and retry_times before (not_in_doubt: see RewriteAlarms). The generation and the content stay, except target_ring_at and latest_ring_at. The inner SELECT is repeated for each row; -1 stands for NULL.
-- Index: primary key. Rows: up to a group.
UPDATE (
    /*FIRST*/SELECT ? AS id, ? AS generation, ? AS state, ? AS target_ring_at, ? AS latest_ring_at, ? AS next_try_time, ? AS ring_no, ? AS retry_times,
           ? AS last_error, ? AS in_doubt, ? AS rung_at, ? AS answer, ? AS answered_by, ? AS answered_at, ? AS update_time, ? AS finished_at,
           ? AS repeat_state, ? AS doubt_target, ? AS past_generations
    /*NEXT UNION ALL SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?*/
) c
STRAIGHT_JOIN alarm a FORCE INDEX (PRIMARY) ON c.id = a.id AND c.generation = a.generation
SET a.state = c.state, a.target_ring_at = c.target_ring_at, a.latest_ring_at = NULLIF(c.latest_ring_at, -1), a.next_try_time = NULLIF(c.next_try_time, -1),
    a.ring_no = c.ring_no, a.retry_times = c.retry_times, a.last_error = c.last_error, a.in_doubt = c.in_doubt,
    a.rung_at = NULLIF(c.rung_at, -1), a.answer = c.answer, a.answered_by = c.answered_by,
    a.answered_at = NULLIF(c.answered_at, -1), a.repeat_state = c.repeat_state, a.doubt_target = c.doubt_target, a.past_generations = c.past_generations, a.update_time = c.update_time, a.finished_at = NULLIF(c.finished_at, -1)
WHERE a.state = sqlc.arg(old_state) AND a.ring_no = sqlc.arg(old_ring_no) AND a.in_doubt <> sqlc.arg(not_in_doubt)
  AND a.retry_times = sqlc.arg(old_retry_times)
  AND (SELECT b.oldest FROM build_level b WHERE b.only_row = 1) <= CAST(sqlc.arg(build) AS SIGNED);

-- name: GetAlarm :one
-- Index: alarm_key. Rows: one.
SELECT * FROM alarm WHERE application = sqlc.arg(application) AND business_id = sqlc.arg(business_id);

-- name: ListKeys :many
-- Reads the keys of the alarms with these ids.
-- Index: primary key. Rows: up to a chunk of answers.
SELECT id, application, business_id FROM alarm FORCE INDEX (PRIMARY) WHERE id IN (sqlc.slice(ids)) ORDER BY id;

-- name: ListAlarms :many
-- Lists alarms of one application in the order of business_id. A list of all states does not restrict.
-- Comparisons pad with blanks. So an id that is shorter than a prefix with a blank at its end may lie in the range; the comparison of
-- lengths excludes it. LIKE does not pad, but MariaDB ends its range at U+FFFF and would lose the ids beyond.
-- Index: alarm_key, as a range that ends at the limit. Rows: up to 1,000.
SELECT * FROM alarm FORCE INDEX (alarm_key)
WHERE application = sqlc.arg(application)
  AND business_id > sqlc.arg(after) AND business_id >= sqlc.arg(prefix) AND business_id < sqlc.arg(range_end)
  AND LENGTH(business_id) >= LENGTH(sqlc.arg(prefix))
  AND state IN (sqlc.slice(states))
ORDER BY business_id
LIMIT ?;

-- name: ListBound :many
-- Finds how far a list by state may look: two neighbouring business ids, after the given number of ids.
-- Index: alarm_key alone, as a range that ends at the second id. Rows: two, or fewer at the end of the list.
SELECT business_id FROM alarm FORCE INDEX (alarm_key)
WHERE application = sqlc.arg(application)
  AND business_id > sqlc.arg(after) AND business_id >= sqlc.arg(prefix) AND business_id < sqlc.arg(range_end)
ORDER BY business_id
LIMIT 2 OFFSET ?;

-- name: NextApplications :many
-- Reads the name of the first application with alarms after each of some names, which are numbered. The statement is repeated with UNION ALL for each
-- name.
-- Index: alarm_key alone. Rows: at most one for each name.
/*FIRST*/(SELECT CAST(? AS SIGNED) AS number, application FROM alarm FORCE INDEX (alarm_key)
 WHERE application > ? ORDER BY application LIMIT 1)/*NEXT UNION ALL FIRST*/;

-- name: CountStates :many
-- Counts alarms of one application by state: the first ones by business_id, up to the limit.
-- Index: alarm_key, as a range that ends at the limit. Rows: one for each state.
SELECT s.state, COUNT(*) AS count
FROM (SELECT a.state FROM alarm a FORCE INDEX (alarm_key) WHERE a.application = sqlc.arg(application) ORDER BY a.business_id LIMIT ?) s
GROUP BY s.state ORDER BY s.state LIMIT 100;

-- name: DeleteAlarm :execrows
-- Deletes the alarm of a write probe, in the transaction that inserted it.
-- Index: primary key. Rows: one.
DELETE FROM alarm WHERE id = sqlc.arg(id);
