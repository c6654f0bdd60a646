-- name: LockDue :many
-- The rows of a claim that are due; the transaction, the only one that writes, has locked them already. All that their rings
-- bear but the payloads, which only what is taken needs.
-- Index: primary key. Rows: a batch of rings.
SELECT id, application, business_id, shard, state, generation, payload_kind, content_type, target_ring_at, latest_ring_at, next_try_time,
       ring_no, retry_times, last_error, in_doubt, retry_policy, ack_timeout, max_rings, priority, traceparent, claim_id, rung_at,
       update_time, delivery, due_rank, CAST(length(payload) AS INTEGER) AS payload_length
FROM alarm
WHERE id IN (SELECT value FROM json_each(CAST(sqlc.arg(ids) AS TEXT))) AND state IN (1, 2) AND next_try_time <= CAST(sqlc.arg(now) AS INTEGER)
ORDER BY id;

-- name: LeaseAlarms :many
-- A two-phase claim. A row that such a claim held before, and lost by time, may have been delivered: it is in doubt.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm
SET in_doubt = CASE WHEN state = 2 AND rung_at IS NULL THEN 1 ELSE in_doubt END,
    state = 2, next_try_time = CAST(sqlc.arg(claim_end) AS INTEGER), rung_at = NULL, update_time = CAST(sqlc.arg(now) AS INTEGER)
WHERE id IN (SELECT value FROM json_each(CAST(sqlc.arg(ids) AS TEXT))) AND next_try_time <= CAST(sqlc.arg(now) AS INTEGER)
  AND (latest_ring_at IS NULL OR latest_ring_at >= CAST(sqlc.arg(now) AS INTEGER))
  AND (state = 1 OR state = 2 AND (rung_at IS NULL OR ring_no < max_rings))
RETURNING id, payload;

-- name: TakeOnce :many
-- Rung at most once: said before it is handed over, in doubt until its outcome is known.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm
SET state = 3, next_try_time = NULL, in_doubt = 1, claim_id = sqlc.arg(claim_id), rung_at = CAST(sqlc.arg(now) AS INTEGER),
    update_time = CAST(sqlc.arg(now) AS INTEGER), finished_at = CAST(sqlc.arg(now) AS INTEGER)
WHERE id IN (SELECT value FROM json_each(CAST(sqlc.arg(ids) AS TEXT))) AND state IN (1, 2) AND delivery = 1
  AND next_try_time <= CAST(sqlc.arg(now) AS INTEGER)
  AND (latest_ring_at IS NULL OR latest_ring_at >= CAST(sqlc.arg(now) AS INTEGER))
RETURNING id, payload;

-- name: EndAlarms :execrows
-- A due row that cannot ring any more: expired or dead. Run for each.
-- Index: primary key. Rows: one.
UPDATE alarm
SET state = sqlc.arg(state), next_try_time = NULL, last_error = sqlc.arg(reason), update_time = CAST(sqlc.arg(now) AS INTEGER),
    finished_at = CAST(sqlc.arg(now) AS INTEGER)
WHERE id = sqlc.arg(id) AND state IN (1, 2) AND next_try_time <= CAST(sqlc.arg(now) AS INTEGER);

-- name: SettleAlarms :execrows
-- What became of rings, or with Release the rows as they were; only while they are as the claim left them. Run for all rings of
-- which everything but the id is the same.
-- Index: primary key. Rows: a batch of rings, where all goes well.
UPDATE alarm
SET state = sqlc.arg(state), next_try_time = sqlc.narg(next_try_time), ring_no = sqlc.arg(ring_no), retry_times = sqlc.arg(retry_times),
    last_error = CASE WHEN CAST(sqlc.arg(last_error) AS TEXT) = '' THEN last_error ELSE CAST(sqlc.arg(last_error) AS TEXT) END,
    in_doubt = sqlc.arg(in_doubt), claim_id = sqlc.arg(claim_id), rung_at = sqlc.narg(rung_at), update_time = sqlc.arg(update_time),
    finished_at = sqlc.narg(finished_at)
WHERE id IN (SELECT value FROM json_each(CAST(sqlc.arg(ids) AS TEXT))) AND generation = sqlc.arg(generation)
  AND state = sqlc.arg(held_state) AND claim_id = sqlc.arg(held_claim_id)
  AND next_try_time IS sqlc.narg(held_next_try_time) AND rung_at IS sqlc.narg(held_rung_at);
