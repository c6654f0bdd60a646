-- name: InsertAlarms :execresult
-- The sets of a group as new rows, all or nothing: the tuple is repeated a row. In the order of the group, so that of alarms
-- with one time the first one set rings first. MariaDB runs it with innodb_lock_wait_timeout = 0 where a key may exist: it
-- then never waits for a row that is locked elsewhere.
-- Index: alarm_key. Rows: up to a group.
INSERT INTO alarm (
    application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at, latest_ring_at,
    next_try_time, retry_policy, ack_timeout, max_rings, priority, traceparent, create_time, update_time, delivery, due_rank)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: LockAlarms :many
-- The free rows of the keys, locked in the order of the keys: the pair is repeated a key. MariaDB plans up to 999 pairs as
-- a range of points (in_predicate_conversion_threshold), so the caller sends fewer.
-- Index: alarm_key. Rows: up to a group.
SELECT * FROM alarm FORCE INDEX (alarm_key) WHERE (application, business_id) IN ((?, ?))
ORDER BY application, business_id FOR UPDATE SKIP LOCKED;

-- name: LockAlarmsBriefly :many
-- As LockAlarms, without what a set says: all that a cancel is decided by.
-- Index: alarm_key. Rows: up to a group.
SELECT id, application, business_id, shard, state, generation, next_try_time, last_error, in_doubt, rung_at
FROM alarm FORCE INDEX (alarm_key) WHERE (application, business_id) IN ((?, ?))
ORDER BY application, business_id FOR UPDATE SKIP LOCKED;

-- name: LockAlarmsWaiting :many
-- As LockAlarms, waiting for rows that are locked elsewhere, at most innodb_lock_wait_timeout.
-- Index: alarm_key. Rows: one, mostly.
SELECT * FROM alarm FORCE INDEX (alarm_key) WHERE (application, business_id) IN ((?, ?))
ORDER BY application, business_id FOR UPDATE;

-- name: ReadAlarms :many
-- The rows of the keys as last committed.
-- Index: alarm_key. Rows: some, those that LockAlarms skipped.
SELECT * FROM alarm FORCE INDEX (alarm_key) WHERE (application, business_id) IN ((?, ?))
ORDER BY application, business_id;

-- name: RewriteAlarms :execrows
-- Rows that a set has changed, of one state before: all but the key and create_time; nobody has answered yet. The inner SELECT is repeated a row;
-- -1 stands for NULL, so that its columns have one type. A set always makes the next generation.
-- Index: primary key. Rows: up to a group.
UPDATE (
    SELECT ? AS id, ? AS generation, ? AS state, ? AS payload, ? AS payload_kind, ? AS content_type, ? AS target_ring_at,
           ? AS latest_ring_at, ? AS next_try_time, ? AS ring_no, ? AS retry_times, ? AS last_error, ? AS in_doubt,
           ? AS retry_policy, ? AS ack_timeout, ? AS max_rings, ? AS priority, ? AS traceparent, ? AS claim_id, ? AS rung_at,
           ? AS update_time, ? AS finished_at, ? AS delivery, ? AS due_rank
) c
STRAIGHT_JOIN alarm a FORCE INDEX (PRIMARY) ON c.id = a.id AND c.generation = a.generation + 1
SET a.state = c.state, a.generation = c.generation, a.payload = c.payload, a.payload_kind = c.payload_kind,
    a.content_type = c.content_type, a.target_ring_at = c.target_ring_at, a.latest_ring_at = NULLIF(c.latest_ring_at, -1),
    a.next_try_time = NULLIF(c.next_try_time, -1), a.ring_no = c.ring_no, a.retry_times = c.retry_times,
    a.last_error = c.last_error, a.in_doubt = c.in_doubt, a.retry_policy = c.retry_policy, a.ack_timeout = c.ack_timeout,
    a.max_rings = c.max_rings, a.priority = c.priority, a.traceparent = c.traceparent, a.claim_id = c.claim_id,
    a.rung_at = NULLIF(c.rung_at, -1), a.update_time = c.update_time, a.finished_at = NULLIF(c.finished_at, -1),
    a.delivery = c.delivery, a.due_rank = c.due_rank, a.answer = 0, a.answered_by = '', a.answered_at = NULL
WHERE a.state = sqlc.arg(old_state);

-- name: CancelAlarms :execrows
-- Rows of one generation and state that a cancel has stopped; the payload is not written again.
-- Index: primary key. Rows: up to a group.
UPDATE alarm FORCE INDEX (PRIMARY)
SET state = 6, next_try_time = NULL, update_time = CAST(sqlc.arg(now) AS SIGNED), finished_at = CAST(sqlc.arg(now) AS SIGNED)
WHERE id IN (sqlc.slice(ids)) AND generation = sqlc.arg(generation) AND state = sqlc.arg(old_state);

-- name: AmendAlarms :execrows
-- Rows that were answered, kicked or discarded, of one state and ring_no before: neither what a set says nor the generation. The inner SELECT
-- is repeated a row; -1 stands for NULL.
-- Index: primary key. Rows: up to a group.
UPDATE (
    SELECT ? AS id, ? AS generation, ? AS state, ? AS latest_ring_at, ? AS next_try_time, ? AS ring_no, ? AS retry_times,
           ? AS last_error, ? AS in_doubt, ? AS rung_at, ? AS answer, ? AS answered_by, ? AS answered_at, ? AS update_time, ? AS finished_at
) c
STRAIGHT_JOIN alarm a FORCE INDEX (PRIMARY) ON c.id = a.id AND c.generation = a.generation
SET a.state = c.state, a.latest_ring_at = NULLIF(c.latest_ring_at, -1), a.next_try_time = NULLIF(c.next_try_time, -1),
    a.ring_no = c.ring_no, a.retry_times = c.retry_times, a.last_error = c.last_error, a.in_doubt = c.in_doubt,
    a.rung_at = NULLIF(c.rung_at, -1), a.answer = c.answer, a.answered_by = c.answered_by,
    a.answered_at = NULLIF(c.answered_at, -1), a.update_time = c.update_time, a.finished_at = NULLIF(c.finished_at, -1)
WHERE a.state = sqlc.arg(old_state) AND a.ring_no = sqlc.arg(old_ring_no);

-- name: GetAlarm :one
-- Index: alarm_key. Rows: one.
SELECT * FROM alarm WHERE application = sqlc.arg(application) AND business_id = sqlc.arg(business_id);

-- name: ListKeys :many
-- The keys of the alarms with these ids.
-- Index: primary key. Rows: up to a chunk of answers.
SELECT id, application, business_id FROM alarm FORCE INDEX (PRIMARY) WHERE id IN (sqlc.slice(ids)) ORDER BY id;

-- name: ListAlarms :many
-- Alarms of one application in the order of business_id; -1 does not restrict, nor does a list of all states. Comparisons pad
-- with blanks, so that an id shorter than a prefix that ends with one may lie in the range: the length tells it. LIKE would not
-- pad, but MariaDB ends its range at U+FFFF and loses what follows.
-- Index: alarm_key, as a range that ends at the limit. Rows: up to 1,000.
SELECT * FROM alarm FORCE INDEX (alarm_key)
WHERE application = sqlc.arg(application)
  AND business_id > sqlc.arg(after) AND business_id >= sqlc.arg(prefix) AND business_id < sqlc.arg(prefix_end)
  AND LENGTH(business_id) >= LENGTH(sqlc.arg(prefix))
  AND state IN (sqlc.slice(states))
  AND (CAST(sqlc.arg(due_after) AS SIGNED) = -1 OR next_try_time >= CAST(sqlc.arg(due_after) AS SIGNED))
  AND (CAST(sqlc.arg(due_before) AS SIGNED) = -1 OR next_try_time < CAST(sqlc.arg(due_before) AS SIGNED))
ORDER BY business_id
LIMIT ?;
