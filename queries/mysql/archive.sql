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
    repeat_rule, repeat_state)
VALUES /*FIRST*/((SELECT IF(b.oldest <= sqlc.arg(build), sqlc.arg(application), NULL) FROM build_level b WHERE b.only_row = 1),
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    /*NEXT, (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)*/;
