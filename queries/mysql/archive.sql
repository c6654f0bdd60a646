-- name: ListArchive :many
-- Reads whole rows in the order of their ids, for an export. The caller reads page after page in one snapshot.
-- Index: primary key, as a range that ends at the limit. Rows: a page.
SELECT * FROM alarm WHERE id > sqlc.arg(after) ORDER BY id LIMIT ?;

-- name: ListAttemptsOf :many
-- Reads all attempts of the alarms, the oldest first.
-- Index: ring_attempt_alarm. Rows: up to 20 for each alarm of a page.
SELECT * FROM ring_attempt WHERE alarm_id IN (sqlc.slice(alarm_ids)) ORDER BY alarm_id, id;

-- name: RestoreAlarms :execresult
-- Inserts rows with all their columns except the id, which the database gives, all or none. The tuple is repeated for each row. For a build
-- below the oldest level the application of the first tuple is NULL, and the server refuses the statement.
-- Index: alarm_key. Rows: up to a group.
INSERT INTO alarm (
    application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at, latest_ring_at,
    next_try_time, ring_no, retry_times, last_error, in_doubt, retry_policy, ack_timeout, max_rings, priority, traceparent, claim_id,
    rung_at, create_time, update_time, finished_at, answer, answered_by, answered_at, delivery, due_rank, doubt_target,
    repeat_rule, repeat_state, past_generations, destination, receiver)
VALUES /*FIRST*/((SELECT IF(b.oldest <= sqlc.arg(build), sqlc.arg(application), NULL) FROM build_level b WHERE b.only_row = 1),
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    /*NEXT, (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)*/;

-- name: ListIDs :many
-- Lists ids above one, in order.
-- Index: primary key, as a range that ends at the limit. Rows: a page.
SELECT id FROM alarm FORCE INDEX (PRIMARY) WHERE id > sqlc.arg(after) ORDER BY id LIMIT ?;

-- name: ReadLastID :one
-- Reads the highest id, 0 if there is none.
-- Index: primary key alone, its last entry. Rows: one.
SELECT CAST(COALESCE(MAX(id), 0) AS SIGNED) AS id FROM alarm;

-- name: DoubtDue :execrows
-- Marks due alarms of a restored database as in doubt.
-- Index: primary key. Rows: a page.
UPDATE alarm FORCE INDEX (PRIMARY) SET in_doubt = 1, last_error = sqlc.arg(reason), update_time = CAST(sqlc.arg(now) AS SIGNED)
WHERE id IN (sqlc.slice(ids)) AND state = 1 AND in_doubt = 0 AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED);

-- name: RaiseAttempts :exec
-- Raises the generations of the attempts of the alarms that RaiseGenerations raises.
-- Index: ring_attempt_alarm and primary key. Rows: up to 20 for each alarm of a page.
UPDATE ring_attempt r FORCE INDEX (ring_attempt_alarm) JOIN alarm a FORCE INDEX (PRIMARY) ON a.id = r.alarm_id
SET r.generation = r.generation + CAST(sqlc.arg(by_count) AS SIGNED)
WHERE r.alarm_id IN (sqlc.slice(ids)) AND a.state <> 2 AND a.repeat_rule = ''
  AND (a.next_try_time IS NULL OR a.next_try_time > CAST(sqlc.arg(now) AS SIGNED));

-- name: RaiseGenerations :execrows
-- Raises the generations of alarms of a restored database that are neither due nor ringing. The times of a repeating alarm depend on its
-- generation, so it stays.
-- Index: primary key. Rows: a page.
UPDATE alarm FORCE INDEX (PRIMARY) SET generation = generation + CAST(sqlc.arg(by_count) AS SIGNED)
WHERE id IN (sqlc.slice(ids)) AND state <> 2 AND repeat_rule = '' AND (next_try_time IS NULL OR next_try_time > CAST(sqlc.arg(now) AS SIGNED));
