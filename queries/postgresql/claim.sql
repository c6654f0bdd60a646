-- Where rows are found by id, a condition on next_try_time stands in coalesce(..., FALSE): said plainly it lets the planner choose
-- the due index and read all that is due, which it does while the table is empty or was never analyzed.

-- name: LockDue :many
-- The rows of a claim that are free and due, locked in the order of id; it only avoids waiting, TakeAlarms decides.
-- Index: primary key. Rows: a batch of rings.
SELECT id, application, business_id, state, generation, ring_no, max_rings, ack_timeout, delivery, latest_ring_at, next_try_time,
       due_rank, last_error, in_doubt, claim_id, rung_at, update_time, octet_length(payload)::bigint AS payload_length
FROM alarm
WHERE id = ANY(sqlc.arg(ids)::bigint[]) AND state IN (1, 2) AND coalesce(next_try_time <= sqlc.arg(now)::bigint, FALSE)
ORDER BY id
FOR UPDATE SKIP LOCKED;

-- name: TakeAlarms :many
-- The confirmed outcome, ahead of the ring.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm
SET state = CASE WHEN ack_timeout > 0 THEN 2 ELSE 3 END,
    next_try_time = CASE WHEN ack_timeout > 0 THEN sqlc.arg(now)::bigint + ack_timeout END,
    ring_no = ring_no + 1, in_doubt = 0, claim_id = sqlc.arg(claim_id)::varchar, rung_at = sqlc.arg(now)::bigint,
    update_time = sqlc.arg(now)::bigint,
    finished_at = CASE WHEN ack_timeout > 0 THEN NULL ELSE sqlc.arg(now)::bigint END
WHERE id = ANY(sqlc.arg(ids)::bigint[]) AND state IN (1, 2) AND coalesce(next_try_time <= sqlc.arg(now)::bigint, FALSE)
  AND (latest_ring_at IS NULL OR latest_ring_at >= sqlc.arg(now)::bigint)
RETURNING *;

-- name: TakeFresh :many
-- TakeAlarms of rows that are as they were set, of short payloads, if nobody has locked or changed them since they were written: xmax = 0. So
-- none is waited for, and none is locked in a step before, which would write it twice. What is known of a fresh row is not read, and -1
-- stands for NULL: each text and each value that may be NULL is an allocation.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm
SET state = CASE WHEN ack_timeout > 0 THEN 2 ELSE 3 END,
    next_try_time = CASE WHEN ack_timeout > 0 THEN sqlc.arg(now)::bigint + ack_timeout END,
    ring_no = 1, claim_id = sqlc.arg(claim_id)::varchar, rung_at = sqlc.arg(now)::bigint, update_time = sqlc.arg(now)::bigint,
    finished_at = CASE WHEN ack_timeout > 0 THEN NULL ELSE sqlc.arg(now)::bigint END
WHERE id = ANY(sqlc.arg(ids)::bigint[]) AND state = 1 AND coalesce(next_try_time <= sqlc.arg(now)::bigint, FALSE)
  AND coalesce(next_try_time = target_ring_at, FALSE) AND update_time = create_time AND ring_no = 0 AND retry_times = 0
  AND in_doubt = 0 AND claim_id = '' AND rung_at IS NULL AND last_error = '' AND delivery = 0
  AND (latest_ring_at IS NULL OR latest_ring_at >= sqlc.arg(now)::bigint)
  AND octet_length(payload) <= sqlc.arg(max_payload)::bigint AND xmax = 0
RETURNING id, application, business_id, shard, generation, payload, payload_kind, content_type, target_ring_at,
          coalesce(latest_ring_at, -1)::bigint AS latest_ring_at, retry_policy, ack_timeout, max_rings, priority, due_rank, traceparent,
          create_time;

-- name: LeaseFresh :many
-- LeaseAlarms of the same rows.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm
SET state = 2, next_try_time = sqlc.arg(claim_end)::bigint, update_time = sqlc.arg(now)::bigint
WHERE id = ANY(sqlc.arg(ids)::bigint[]) AND state = 1 AND coalesce(next_try_time <= sqlc.arg(now)::bigint, FALSE)
  AND coalesce(next_try_time = target_ring_at, FALSE) AND update_time = create_time AND ring_no = 0 AND retry_times = 0
  AND in_doubt = 0 AND claim_id = '' AND rung_at IS NULL AND last_error = '' AND delivery = 0
  AND (latest_ring_at IS NULL OR latest_ring_at >= sqlc.arg(now)::bigint)
  AND octet_length(payload) <= sqlc.arg(max_payload)::bigint AND xmax = 0
RETURNING id, application, business_id, shard, generation, payload, payload_kind, content_type, target_ring_at,
          coalesce(latest_ring_at, -1)::bigint AS latest_ring_at, retry_policy, ack_timeout, max_rings, priority, due_rank, traceparent,
          create_time;

-- name: FinishAlarms :exec
-- The confirmed outcome of a two-phase claim, of the rows that are still as it left them: SettleAlarms where all is well.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm a
SET state = CASE WHEN a.ack_timeout > 0 THEN 2 ELSE 3 END,
    next_try_time = CASE WHEN a.ack_timeout > 0 THEN sqlc.arg(rung_at)::bigint + a.ack_timeout END,
    ring_no = a.ring_no + 1, in_doubt = 0, claim_id = sqlc.arg(claim_id)::varchar, rung_at = sqlc.arg(rung_at)::bigint,
    update_time = sqlc.arg(now)::bigint,
    finished_at = CASE WHEN a.ack_timeout > 0 THEN NULL ELSE sqlc.arg(rung_at)::bigint END
FROM (SELECT unnest(sqlc.arg(ids)::bigint[]) AS id, unnest(sqlc.arg(generations)::bigint[]) AS generation) r
WHERE a.id = r.id AND a.generation = r.generation AND a.state = 2 AND a.rung_at IS NULL
  AND coalesce(a.next_try_time = sqlc.arg(claim_end)::bigint, FALSE);

-- name: TakeOnce :many
-- Rung at most once: said before it is handed over, in doubt until its outcome is known.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm
SET state = 3, next_try_time = NULL, in_doubt = 1, claim_id = sqlc.arg(claim_id)::varchar, rung_at = sqlc.arg(now)::bigint,
    update_time = sqlc.arg(now)::bigint, finished_at = sqlc.arg(now)::bigint
WHERE id = ANY(sqlc.arg(ids)::bigint[]) AND state IN (1, 2) AND delivery = 1
  AND coalesce(next_try_time <= sqlc.arg(now)::bigint, FALSE)
  AND (latest_ring_at IS NULL OR latest_ring_at >= sqlc.arg(now)::bigint)
RETURNING *;

-- name: LeaseAlarms :many
-- A two-phase claim. A row that such a claim held before, and lost by time, may have been delivered: it is in doubt.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm
SET in_doubt = CASE WHEN state = 2 AND rung_at IS NULL THEN 1 ELSE in_doubt END,
    state = 2, next_try_time = sqlc.arg(claim_end)::bigint, rung_at = NULL, update_time = sqlc.arg(now)::bigint
WHERE id = ANY(sqlc.arg(ids)::bigint[]) AND state IN (1, 2) AND coalesce(next_try_time <= sqlc.arg(now)::bigint, FALSE)
  AND (latest_ring_at IS NULL OR latest_ring_at >= sqlc.arg(now)::bigint)
RETURNING *;

-- name: EndAlarms :exec
-- Due rows that cannot ring any more: expired or dead.
-- Index: primary key. Rows: few.
UPDATE alarm a
SET state = e.state, next_try_time = NULL, last_error = e.reason, update_time = sqlc.arg(now)::bigint,
    finished_at = sqlc.arg(now)::bigint
FROM (SELECT unnest(sqlc.arg(ids)::bigint[]) AS id, unnest(sqlc.arg(states)::smallint[]) AS state,
             unnest(sqlc.arg(reasons)::varchar[]) AS reason) e
WHERE a.id = e.id AND a.state IN (1, 2) AND coalesce(a.next_try_time <= sqlc.arg(now)::bigint, FALSE);

-- name: SettleAlarms :exec
-- What became of the rings, or with Release the rows as they were; only rows that are as the claim left them, and
-- the attempts of those. IS TRUE has the ids looked up by hash: as a join it would be a nested loop, for others are off.
-- Index: primary key. Rows: a batch of rings at most; with a transactional claim only those not confirmed.
WITH s AS (
    SELECT unnest(sqlc.arg(ids)::bigint[]) AS id,
           unnest(sqlc.arg(generations)::bigint[]) AS generation,
           unnest(sqlc.arg(held_states)::smallint[]) AS held_state,
           unnest(sqlc.arg(held_next_try_times)::bigint[]) AS held_next_try_time,
           unnest(sqlc.arg(held_rung_ats)::bigint[]) AS held_rung_at,
           unnest(sqlc.arg(held_claim_ids)::varchar[]) AS held_claim_id,
           unnest(sqlc.arg(states)::smallint[]) AS state,
           unnest(sqlc.arg(next_try_times)::bigint[]) AS next_try_time,
           unnest(sqlc.arg(ring_nos)::integer[]) AS ring_no,
           unnest(sqlc.arg(retry_times)::integer[]) AS retry_times,
           unnest(sqlc.arg(last_errors)::varchar[]) AS last_error,
           unnest(sqlc.arg(in_doubts)::smallint[]) AS in_doubt,
           unnest(sqlc.arg(claim_ids)::varchar[]) AS claim_id,
           unnest(sqlc.arg(rung_ats)::bigint[]) AS rung_at,
           unnest(sqlc.arg(update_times)::bigint[]) AS update_time,
           unnest(sqlc.arg(finished_ats)::bigint[]) AS finished_at
), settled AS (
    UPDATE alarm a
    SET state = s.state, next_try_time = NULLIF(s.next_try_time, -1), ring_no = s.ring_no, retry_times = s.retry_times,
        last_error = CASE WHEN s.last_error = '' THEN a.last_error ELSE s.last_error END, in_doubt = s.in_doubt,
        claim_id = s.claim_id, rung_at = NULLIF(s.rung_at, -1), update_time = s.update_time,
        finished_at = NULLIF(s.finished_at, -1)
    FROM s
    WHERE a.id = s.id AND a.generation = s.generation AND a.state = s.held_state
      AND a.next_try_time IS NOT DISTINCT FROM NULLIF(s.held_next_try_time, -1)
      AND a.rung_at IS NOT DISTINCT FROM NULLIF(s.held_rung_at, -1) AND a.claim_id = s.held_claim_id
    RETURNING s.id
)
INSERT INTO ring_attempt (alarm_id, generation, ring_no, claim_id, attempt_time, outcome, error, answered_by)
SELECT t.alarm_id, t.generation, t.ring_no, t.claim_id, t.attempt_time, t.outcome, t.error, t.answered_by
FROM (SELECT unnest(sqlc.arg(alarm_ids)::bigint[]) AS alarm_id,
             unnest(sqlc.arg(attempt_generations)::bigint[]) AS generation,
             unnest(sqlc.arg(attempt_ring_nos)::integer[]) AS ring_no,
             unnest(sqlc.arg(attempt_claim_ids)::varchar[]) AS claim_id,
             unnest(sqlc.arg(attempt_times)::bigint[]) AS attempt_time,
             unnest(sqlc.arg(outcomes)::smallint[]) AS outcome,
             unnest(sqlc.arg(errors)::varchar[]) AS error,
             unnest(sqlc.arg(answered_bys)::varchar[]) AS answered_by,
             generate_subscripts(sqlc.arg(alarm_ids)::bigint[], 1) AS position) t
WHERE (t.alarm_id IN (SELECT settled.id FROM settled)) IS TRUE
ORDER BY t.position;
