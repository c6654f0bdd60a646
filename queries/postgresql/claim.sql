-- Statements that find rows by id wrap conditions on next_try_time in coalesce(..., FALSE). With a plain condition the planner may choose the
-- due index and read all due entries. It does so while the table is empty or was never analyzed.

-- name: LockDue :many
-- Locks the free, due rows of a claim in the order of id. This lock only saves TakeHeld from waiting; TakeHeld decides. It reads
-- everything for the rings except the payloads, which only the taken rows need. A row with an unknown state is read too, so that the
-- caller can end it.
-- Index: primary key. Rows: a batch of rings.
SELECT id, application, business_id, shard, state, generation, payload_kind, content_type, target_ring_at, latest_ring_at, next_try_time,
       ring_no, retry_times, last_error, in_doubt, retry_policy, ack_timeout, max_rings, priority, traceparent, claim_id, rung_at,
       update_time, delivery, due_rank, doubt_target, repeat_rule, repeat_state, destination, receiver,
       octet_length(payload)::bigint AS payload_length
FROM alarm
WHERE id = ANY(sqlc.arg(ids)::bigint[]) /* in shard */ AND state NOT IN (3, 4, 5, 6, 7) AND coalesce(next_try_time <= sqlc.arg(now)::bigint, FALSE)
ORDER BY id
FOR UPDATE SKIP LOCKED;

-- name: TakeHeld :many
-- Writes clock.ConfirmedRow before the ring, to exactly the row versions that LockDue read.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm a
SET state = CASE WHEN a.ack_timeout > 0 THEN 2 ELSE 3 END,
    next_try_time = CASE WHEN a.ack_timeout > 0 THEN sqlc.arg(now)::bigint + a.ack_timeout END,
    ring_no = a.ring_no + 1, in_doubt = 0, claim_id = sqlc.arg(claim_id)::varchar, rung_at = sqlc.arg(now)::bigint,
    update_time = sqlc.arg(now)::bigint,
    finished_at = CASE WHEN a.ack_timeout > 0 THEN NULL ELSE sqlc.arg(now)::bigint END
FROM (SELECT unnest(sqlc.arg(ids)::bigint[]) AS id,
             unnest(sqlc.arg(generations)::bigint[]) AS generation,
             unnest(sqlc.arg(states)::smallint[]) AS state,
             unnest(sqlc.arg(ring_nos)::integer[]) AS ring_no,
             unnest(sqlc.arg(retry_times)::integer[]) AS retry_times,
             unnest(sqlc.arg(in_doubts)::smallint[]) AS in_doubt,
             unnest(sqlc.arg(next_try_times)::bigint[]) AS next_try_time,
             unnest(sqlc.arg(update_times)::bigint[]) AS update_time) v
WHERE a.id = v.id /* in a.shard */ AND a.generation = v.generation AND a.state = v.state AND a.ring_no = v.ring_no AND a.retry_times = v.retry_times
  AND a.in_doubt = v.in_doubt AND coalesce(a.next_try_time = v.next_try_time, FALSE) AND a.update_time = v.update_time
  AND (a.latest_ring_at IS NULL OR a.latest_ring_at >= sqlc.arg(now)::bigint)
RETURNING a.id, a.payload;

-- name: TakeFresh :many
-- Does the work of TakeHeld for fresh rows: rows that have not changed since their set, with short payloads. It skips rows
-- whose present version some transaction has locked or changed, also after that transaction has ended (xmax = 0 for the others). So it waits
-- for no row, and it needs no separate lock, which would write each row twice.
-- It also skips rows with an ack_timeout of more than a day: no set allows one, and its sum with now could overflow.
-- The statement does not return columns that have one value in every fresh row. -1 stands for NULL. Both save allocations: each text and
-- each value that may be NULL costs one.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm
SET state = CASE WHEN ack_timeout > 0 THEN 2 ELSE 3 END,
    next_try_time = CASE WHEN ack_timeout > 0 THEN sqlc.arg(now)::bigint + ack_timeout END,
    ring_no = 1, claim_id = sqlc.arg(claim_id)::varchar, rung_at = sqlc.arg(now)::bigint, update_time = sqlc.arg(now)::bigint,
    finished_at = CASE WHEN ack_timeout > 0 THEN NULL ELSE sqlc.arg(now)::bigint END
WHERE id = ANY(sqlc.arg(ids)::bigint[]) /* in shard */ AND state = 1 AND coalesce(next_try_time <= sqlc.arg(now)::bigint, FALSE)
  AND coalesce(next_try_time = target_ring_at, FALSE) AND update_time = create_time AND ring_no = 0 AND retry_times = 0
  AND in_doubt = 0 AND claim_id = '' AND rung_at IS NULL AND last_error = '' AND delivery = 0 AND repeat_state = '' AND receiver = ''
  AND (latest_ring_at IS NULL OR latest_ring_at >= sqlc.arg(now)::bigint)
  AND octet_length(payload) <= sqlc.arg(max_payload)::bigint AND ack_timeout <= 86400000 AND xmax = 0
RETURNING id, application, business_id, shard, generation, payload, payload_kind, content_type, target_ring_at,
          coalesce(latest_ring_at, -1)::bigint AS latest_ring_at, retry_policy, ack_timeout, max_rings, priority, due_rank, traceparent,
          create_time;

-- name: TakeFreshTwoPhase :many
-- Does the work of TakeTwoPhase for the rows that TakeFresh takes.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm
SET state = 2, doubt_target = sqlc.arg(doubt_target)::smallint, next_try_time = sqlc.arg(claim_end)::bigint, update_time = sqlc.arg(now)::bigint
WHERE id = ANY(sqlc.arg(ids)::bigint[]) /* in shard */ AND state = 1 AND coalesce(next_try_time <= sqlc.arg(now)::bigint, FALSE)
  AND coalesce(next_try_time = target_ring_at, FALSE) AND update_time = create_time AND ring_no = 0 AND retry_times = 0
  AND in_doubt = 0 AND claim_id = '' AND rung_at IS NULL AND last_error = '' AND delivery = 0 AND repeat_state = '' AND receiver = ''
  AND (latest_ring_at IS NULL OR latest_ring_at >= sqlc.arg(now)::bigint)
  AND octet_length(payload) <= sqlc.arg(max_payload)::bigint AND ack_timeout <= 86400000 AND xmax = 0
RETURNING id, application, business_id, shard, generation, payload, payload_kind, content_type, target_ring_at,
          coalesce(latest_ring_at, -1)::bigint AS latest_ring_at, retry_policy, ack_timeout, max_rings, priority, due_rank, traceparent,
          create_time;

-- name: ConfirmAlarms :exec
-- Writes clock.ConfirmedRow to the rows of a two-phase claim that have not changed since the claim. SettleAlarms writes all other rows.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm a
SET state = CASE WHEN a.ack_timeout > 0 THEN 2 ELSE 3 END,
    next_try_time = CASE WHEN a.ack_timeout > 0 THEN sqlc.arg(rung_at)::bigint + a.ack_timeout END,
    ring_no = a.ring_no + 1, in_doubt = 0, claim_id = sqlc.arg(claim_id)::varchar, rung_at = sqlc.arg(rung_at)::bigint,
    update_time = sqlc.arg(rung_at)::bigint,
    finished_at = CASE WHEN a.ack_timeout > 0 THEN NULL ELSE sqlc.arg(rung_at)::bigint END
FROM (SELECT unnest(sqlc.arg(ids)::bigint[]) AS id, unnest(sqlc.arg(generations)::bigint[]) AS generation) r
WHERE a.id = r.id /* in a.shard */ AND a.generation = r.generation AND a.state = 2 AND a.rung_at IS NULL
  AND coalesce(a.next_try_time = sqlc.arg(claim_end)::bigint, FALSE);

-- name: TakeOnce :many
-- Claims alarms that ring at most once: exactly the row versions that LockDue read. It writes the row of a ring in doubt (clock.FateOf)
-- before the message is handed over.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm a
SET state = 3, next_try_time = NULL, in_doubt = 1, claim_id = sqlc.arg(claim_id)::varchar, rung_at = sqlc.arg(now)::bigint,
    update_time = sqlc.arg(now)::bigint, finished_at = sqlc.arg(now)::bigint
FROM (SELECT unnest(sqlc.arg(ids)::bigint[]) AS id,
             unnest(sqlc.arg(generations)::bigint[]) AS generation,
             unnest(sqlc.arg(states)::smallint[]) AS state,
             unnest(sqlc.arg(ring_nos)::integer[]) AS ring_no,
             unnest(sqlc.arg(retry_times)::integer[]) AS retry_times,
             unnest(sqlc.arg(in_doubts)::smallint[]) AS in_doubt,
             unnest(sqlc.arg(next_try_times)::bigint[]) AS next_try_time,
             unnest(sqlc.arg(update_times)::bigint[]) AS update_time) v
WHERE a.id = v.id /* in a.shard */ AND a.generation = v.generation AND a.state = v.state AND a.ring_no = v.ring_no AND a.retry_times = v.retry_times
  AND a.in_doubt = v.in_doubt AND coalesce(a.next_try_time = v.next_try_time, FALSE) AND a.update_time = v.update_time
  AND a.delivery = 1 AND (a.latest_ring_at IS NULL OR a.latest_ring_at >= sqlc.arg(now)::bigint)
RETURNING a.id, a.payload;

-- name: TakeTwoPhase :many
-- Begins a two-phase claim of exactly the row versions that LockDue read. A row that an earlier two-phase claim held until its time ran
-- out may have been delivered: it becomes in doubt.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm a
SET in_doubt = CASE WHEN a.state = 2 AND a.rung_at IS NULL THEN 1 ELSE a.in_doubt END, doubt_target = sqlc.arg(doubt_target)::smallint,
    state = 2, next_try_time = sqlc.arg(claim_end)::bigint, rung_at = NULL, update_time = sqlc.arg(now)::bigint
FROM (SELECT unnest(sqlc.arg(ids)::bigint[]) AS id,
             unnest(sqlc.arg(generations)::bigint[]) AS generation,
             unnest(sqlc.arg(states)::smallint[]) AS state,
             unnest(sqlc.arg(ring_nos)::integer[]) AS ring_no,
             unnest(sqlc.arg(retry_times)::integer[]) AS retry_times,
             unnest(sqlc.arg(in_doubts)::smallint[]) AS in_doubt,
             unnest(sqlc.arg(next_try_times)::bigint[]) AS next_try_time,
             unnest(sqlc.arg(update_times)::bigint[]) AS update_time) v
WHERE a.id = v.id /* in a.shard */ AND a.generation = v.generation AND a.state = v.state AND a.ring_no = v.ring_no AND a.retry_times = v.retry_times
  AND a.in_doubt = v.in_doubt AND coalesce(a.next_try_time = v.next_try_time, FALSE) AND a.update_time = v.update_time
  AND (a.latest_ring_at IS NULL OR a.latest_ring_at >= sqlc.arg(now)::bigint)
RETURNING a.id, a.payload;

-- name: EndAlarms :exec
-- Ends due rows that cannot ring any more, as clock.FateOf says, and inserts their attempts. It changes exactly the row versions that
-- LockDue read.
-- Index: primary key. Rows: few.
WITH e AS (
    SELECT unnest(sqlc.arg(ids)::bigint[]) AS id,
           unnest(sqlc.arg(generations)::bigint[]) AS generation,
           unnest(sqlc.arg(next_try_times)::bigint[]) AS next_try_time,
           unnest(sqlc.arg(update_times)::bigint[]) AS update_time,
           unnest(sqlc.arg(states)::smallint[]) AS state,
           unnest(sqlc.arg(last_errors)::varchar[]) AS last_error,
           unnest(sqlc.arg(in_doubts)::smallint[]) AS in_doubt
), ended AS (
    UPDATE alarm a
    SET state = e.state, in_doubt = e.in_doubt, next_try_time = NULL, last_error = e.last_error, update_time = sqlc.arg(now)::bigint, finished_at = sqlc.arg(now)::bigint
    FROM e
    WHERE a.id = e.id AND a.generation = e.generation AND a.update_time = e.update_time
      AND coalesce(a.next_try_time = e.next_try_time, FALSE) AND a.state NOT IN (3, 4, 5, 6, 7)
    RETURNING e.id
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
WHERE (t.alarm_id IN (SELECT ended.id FROM ended)) IS TRUE
ORDER BY t.position;

-- name: SettleAlarms :exec
-- Writes rows after their rings, or restores rows as they were before the claim (store.Settlement), and inserts the attempts. It
-- changes only rows that have not changed since the claim. The claim wrote its time, claimed_at, to all of them. IS TRUE makes PostgreSQL
-- look up the ids by hash; as a join they would be a nested loop, because the session turns other joins off. With a plain comparison of
-- update_time the planner expects fewer rows, and the statement takes longer: a tenth of claim and settlement.
-- Index: primary key. Rows: at most a batch of rings; with a held claim only the rows with attempts, and the rows that differ from the
-- confirmed row.
WITH s AS (
    SELECT unnest(sqlc.arg(ids)::bigint[]) AS id,
           unnest(sqlc.arg(generations)::bigint[]) AS generation,
           unnest(sqlc.arg(claimed_states)::smallint[]) AS claimed_state,
           unnest(sqlc.arg(claimed_next_try_times)::bigint[]) AS claimed_next_try_time,
           unnest(sqlc.arg(claimed_rung_ats)::bigint[]) AS claimed_rung_at,
           unnest(sqlc.arg(claimed_claim_ids)::varchar[]) AS claimed_claim_id,
           unnest(sqlc.arg(states)::smallint[]) AS state,
           unnest(sqlc.arg(next_try_times)::bigint[]) AS next_try_time,
           unnest(sqlc.arg(ring_nos)::integer[]) AS ring_no,
           unnest(sqlc.arg(retry_times)::integer[]) AS retry_times,
           unnest(sqlc.arg(last_errors)::varchar[]) AS last_error,
           unnest(sqlc.arg(in_doubts)::smallint[]) AS in_doubt,
           unnest(sqlc.arg(claim_ids)::varchar[]) AS claim_id,
           unnest(sqlc.arg(rung_ats)::bigint[]) AS rung_at,
           unnest(sqlc.arg(update_times)::bigint[]) AS update_time,
           unnest(sqlc.arg(finished_ats)::bigint[]) AS finished_at,
           unnest(sqlc.arg(doubt_targets)::smallint[]) AS doubt_target,
           unnest(sqlc.arg(repeat_states)::varchar[]) AS repeat_state
), settled AS (
    UPDATE alarm a
    SET state = s.state, next_try_time = NULLIF(s.next_try_time, -1), ring_no = s.ring_no, retry_times = s.retry_times,
        last_error = s.last_error, in_doubt = s.in_doubt, doubt_target = s.doubt_target, repeat_state = s.repeat_state,
        claim_id = s.claim_id, rung_at = NULLIF(s.rung_at, -1), update_time = s.update_time,
        finished_at = NULLIF(s.finished_at, -1)
    FROM s
    WHERE a.id = s.id AND a.generation = s.generation AND a.state = s.claimed_state
      AND a.next_try_time IS NOT DISTINCT FROM NULLIF(s.claimed_next_try_time, -1)
      AND a.rung_at IS NOT DISTINCT FROM NULLIF(s.claimed_rung_at, -1) AND a.claim_id = s.claimed_claim_id
      AND coalesce(a.update_time = sqlc.arg(claimed_at)::bigint, FALSE)
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
