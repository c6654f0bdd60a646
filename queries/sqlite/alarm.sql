-- name: InsertAlarms :execresult
-- Inserts one set as a new row, or nothing if the key exists. The statement is prepared once and run for each row of a group.
-- Index: alarm_key. Rows: one.
INSERT INTO alarm (
    application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at, latest_ring_at,
    next_try_time, retry_policy, ack_timeout, max_rings, priority, traceparent, create_time, update_time, delivery, due_rank, repeat_rule, repeat_state, destination, receiver)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING;

-- name: RewriteAlarms :execrows
-- Writes a row that a set has changed: all columns except the key and create_time. The row loses the answer to its previous generation.
-- The statement is run for each row.
-- Index: primary key. Rows: one.
UPDATE alarm
SET state = sqlc.arg(state), generation = sqlc.arg(generation), payload = sqlc.arg(payload), payload_kind = sqlc.arg(payload_kind),
    content_type = sqlc.arg(content_type), target_ring_at = sqlc.arg(target_ring_at), latest_ring_at = sqlc.narg(latest_ring_at),
    next_try_time = sqlc.narg(next_try_time), ring_no = sqlc.arg(ring_no), retry_times = sqlc.arg(retry_times),
    last_error = sqlc.arg(last_error), in_doubt = sqlc.arg(in_doubt), retry_policy = sqlc.arg(retry_policy),
    ack_timeout = sqlc.arg(ack_timeout), max_rings = sqlc.arg(max_rings), priority = sqlc.arg(priority),
    due_rank = sqlc.arg(due_rank), delivery = sqlc.arg(delivery), traceparent = sqlc.arg(traceparent), claim_id = sqlc.arg(claim_id),
    rung_at = sqlc.narg(rung_at), answer = 0, answered_by = '', answered_at = NULL, update_time = sqlc.arg(update_time),
    finished_at = sqlc.narg(finished_at), repeat_rule = sqlc.arg(repeat_rule), repeat_state = sqlc.arg(repeat_state),
    past_generations = sqlc.arg(past_generations), destination = sqlc.arg(destination),
    receiver = sqlc.arg(receiver)
WHERE id = sqlc.arg(id) AND generation = sqlc.arg(old_generation) AND state = sqlc.arg(old_state);

-- name: CancelAlarms :execrows
-- Cancels a row. It does not write the payload again. The statement is run for each row.
-- Index: primary key. Rows: one.
UPDATE alarm
SET state = 6, next_try_time = NULL, update_time = sqlc.arg(update_time), finished_at = sqlc.narg(finished_at)
WHERE id = sqlc.arg(id) AND generation = sqlc.arg(old_generation) AND state = sqlc.arg(old_state);

-- name: CancelScheduled :many
-- Cancels the alarms of one application with these keys that are scheduled and not in doubt. It returns neither the content nor the
-- columns whose values are known for every row it cancels.
-- Index: alarm_key. Rows: up to a group.
UPDATE alarm
SET state = 6, next_try_time = NULL, update_time = sqlc.arg(now), finished_at = sqlc.arg(now)
WHERE application = sqlc.arg(application) AND business_id IN (SELECT value FROM json_each(CAST(sqlc.arg(business_ids) AS TEXT)))
  AND state = 1 AND in_doubt = 0
RETURNING id, business_id, generation;

-- name: AmendAlarms :execrows
-- Writes a row that was answered, resent, kicked, discarded, paused, resumed or recomputed. The generation and the content stay, except
-- target_ring_at and latest_ring_at. The statement is run for each row.
-- Index: primary key. Rows: one.
UPDATE alarm
SET state = sqlc.arg(state), target_ring_at = sqlc.arg(target_ring_at), latest_ring_at = sqlc.narg(latest_ring_at),
    next_try_time = sqlc.narg(next_try_time), ring_no = sqlc.arg(ring_no), retry_times = sqlc.arg(retry_times),
    last_error = sqlc.arg(last_error), in_doubt = sqlc.arg(in_doubt), rung_at = sqlc.narg(rung_at), answer = sqlc.arg(answer), answered_by = sqlc.arg(answered_by), answered_at = sqlc.narg(answered_at),
    update_time = sqlc.arg(update_time), finished_at = sqlc.narg(finished_at), repeat_state = sqlc.arg(repeat_state), doubt_target = sqlc.arg(doubt_target),
    past_generations = sqlc.arg(past_generations)
WHERE id = sqlc.arg(id) AND generation = sqlc.arg(old_generation) AND state = sqlc.arg(old_state) AND ring_no = sqlc.arg(old_ring_no);

-- name: GetAlarm :one
-- Index: alarm_key. Rows: one.
SELECT * FROM alarm WHERE application = sqlc.arg(application) AND business_id = sqlc.arg(business_id);

-- name: ListKeys :many
-- Reads the keys of the alarms with these ids.
-- Index: primary key. Rows: up to a chunk of answers.
SELECT id, application, business_id FROM alarm
WHERE id IN (SELECT value FROM json_each(CAST(sqlc.arg(ids) AS TEXT)))
ORDER BY id;

-- name: ListAlarms :many
-- Lists alarms of one application in the order of business_id. A list of all states does not restrict. There is one lower bound, because with
-- two SQLite would search by the wrong one.
-- Index: alarm_key, as a range that ends at the limit. Rows: up to 1,000.
SELECT * FROM alarm
WHERE application = sqlc.arg(application)
  AND business_id >= sqlc.arg(lower) AND business_id < sqlc.arg(upper)
  AND state IN (SELECT value FROM json_each(CAST(sqlc.arg(states) AS TEXT)))
ORDER BY business_id
LIMIT sqlc.arg(row_limit);

-- name: ListBound :many
-- Finds how far a list by state may look: two neighbouring business ids, after the given number of ids.
-- Index: alarm_key alone, as a range that ends at the second id. Rows: two, or fewer at the end of the list.
SELECT business_id FROM alarm
WHERE application = sqlc.arg(application) AND business_id >= sqlc.arg(lower) AND business_id < sqlc.arg(upper)
ORDER BY business_id
LIMIT 2 OFFSET sqlc.arg(entries);

-- name: ListAttention :many
-- Lists the business ids of expired, dead or paused alarms of one application in order.
-- Index: alarm_attention alone, as a range that ends at the limit. Rows: up to 1,000.
SELECT business_id FROM alarm
WHERE application = sqlc.arg(application) AND state = sqlc.arg(state) AND state IN (4, 5, 7)
  AND business_id >= sqlc.arg(lower) AND business_id < sqlc.arg(upper)
ORDER BY business_id
LIMIT sqlc.arg(row_limit);

-- name: CountAttention :one
-- Counts expired, dead or paused alarms of one application, up to row_limit.
-- Index: alarm_attention alone, as a range that ends at the limit. Rows: one.
SELECT count(*) FROM (
  SELECT 1 FROM alarm WHERE application = sqlc.arg(application) AND state = sqlc.arg(state) AND state IN (4, 5, 7) LIMIT sqlc.arg(row_limit)
) counted;

-- name: NextAttentionApplication :one
-- Reads the name of the first application after the given name that has expired, dead or paused alarms.
-- Index: alarm_attention alone. Rows: one, or none.
SELECT application FROM alarm WHERE application > sqlc.arg(after) AND state IN (4, 5, 7) ORDER BY application LIMIT 1;

-- name: NextApplications :many
-- Reads the name of the first application with alarms after each of some names, in their order; empty for none.
-- Index: alarm_key alone. Rows: one for each name.
SELECT CAST(COALESCE((SELECT a.application FROM alarm a WHERE a.application > n.value ORDER BY a.application LIMIT 1), '') AS TEXT) AS application
FROM json_each(CAST(sqlc.arg(names) AS TEXT)) n
ORDER BY n.key;

-- name: CountStates :many
-- Counts alarms of one application by state: the first ones by business_id, up to row_limit.
-- Index: alarm_key, as a range that ends at the limit. Rows: one for each state.
SELECT s.state, COUNT(*) AS count
FROM (SELECT a.state FROM alarm a WHERE a.application = sqlc.arg(application) ORDER BY a.business_id LIMIT sqlc.arg(row_limit)) s
GROUP BY s.state ORDER BY s.state LIMIT 100;

-- name: DeleteAlarm :execrows
-- Deletes the alarm of a write probe, in the transaction that inserted it.
-- Index: primary key. Rows: one.
DELETE FROM alarm WHERE id = sqlc.arg(id);
