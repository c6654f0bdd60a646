-- name: LockDue :many
-- Reads the due rows of a claim. They need no lock, because this transaction is the only one that writes. It reads everything that the rings
-- need. A row is one value in the format of engine.Packed: each text after its length in bytes, -1 for NULL. The 0 stands for a server's
-- clock. A payload longer than inline_bytes is left out; ListPayloads reads it. A row with an unknown state is read too, so that the caller
-- can end it.
-- Index: primary key. Rows: a batch of rings.
SELECT CAST(concat_ws(' ', 0, id, generation, state, ring_no, retry_times, in_doubt, coalesce(rung_at, -1), next_try_time, update_time, shard,
                      max_rings, ack_timeout, delivery, priority, due_rank, doubt_target, target_ring_at, coalesce(latest_ring_at, -1),
                      length(CAST(application AS BLOB)), application, length(CAST(business_id AS BLOB)), business_id,
                      length(CAST(last_error AS BLOB)), last_error, length(CAST(claim_id AS BLOB)), claim_id,
                      length(CAST(retry_policy AS BLOB)), retry_policy, length(CAST(traceparent AS BLOB)), traceparent,
                      length(CAST(content_type AS BLOB)), content_type, length(CAST(repeat_rule AS BLOB)), repeat_rule,
                      length(CAST(repeat_state AS BLOB)), repeat_state, length(destination), destination,
                      length(CAST(receiver AS BLOB)), receiver, payload_kind, length(payload),
                      CASE WHEN length(payload) <= CAST(sqlc.arg(inline_bytes) AS INTEGER) THEN payload END) AS BLOB) AS packed
FROM alarm
WHERE id IN (SELECT value FROM json_each(CAST(sqlc.arg(ids) AS TEXT))) AND state NOT IN (3, 4, 5, 6, 7)
  AND next_try_time <= CAST(sqlc.arg(now) AS INTEGER)
ORDER BY id;

-- name: ListPayloads :many
-- Reads the payloads that LockDue left out.
-- Index: primary key. Rows: few.
SELECT id, payload FROM alarm WHERE id IN (SELECT value FROM json_each(CAST(sqlc.arg(ids) AS TEXT))) ORDER BY id;

-- name: TakeTwoPhase :execrows
-- Begins a two-phase claim. A row that an earlier two-phase claim held until its time ran out may have been delivered: it becomes in
-- doubt.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm
SET in_doubt = CASE WHEN state = 2 AND rung_at IS NULL THEN 1 ELSE in_doubt END, doubt_target = sqlc.arg(doubt_target),
    state = 2, next_try_time = CAST(sqlc.arg(claim_end) AS INTEGER), rung_at = NULL, update_time = CAST(sqlc.arg(now) AS INTEGER)
WHERE id IN (SELECT value FROM json_each(CAST(sqlc.arg(ids) AS TEXT))) AND next_try_time <= CAST(sqlc.arg(now) AS INTEGER)
  AND (latest_ring_at IS NULL OR latest_ring_at >= CAST(sqlc.arg(now) AS INTEGER))
  AND (state = 1 OR state = 2 AND (rung_at IS NULL OR ring_no < max_rings OR repeat_state <> ''));

-- name: TakeOnce :execrows
-- Claims alarms that ring at most once. It writes the row of a ring in doubt (clock.FateOf) before the message is handed over.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm
SET state = 3, next_try_time = NULL, in_doubt = 1, claim_id = sqlc.arg(claim_id), rung_at = CAST(sqlc.arg(now) AS INTEGER),
    update_time = CAST(sqlc.arg(now) AS INTEGER), finished_at = CAST(sqlc.arg(now) AS INTEGER)
WHERE id IN (SELECT value FROM json_each(CAST(sqlc.arg(ids) AS TEXT))) AND state IN (1, 2) AND delivery = 1
  AND next_try_time <= CAST(sqlc.arg(now) AS INTEGER)
  AND (latest_ring_at IS NULL OR latest_ring_at >= CAST(sqlc.arg(now) AS INTEGER));

-- name: EndAlarms :execrows
-- Ends a due row that cannot ring any more, as clock.FateOf says. The statement is run for each row.
-- Index: primary key. Rows: one.
UPDATE alarm
SET in_doubt = sqlc.arg(in_doubt), state = sqlc.arg(state), next_try_time = NULL, last_error = sqlc.arg(last_error), update_time = CAST(sqlc.arg(now) AS INTEGER),
    finished_at = CAST(sqlc.arg(now) AS INTEGER)
WHERE id = sqlc.arg(id) AND state NOT IN (3, 4, 5, 6, 7) AND next_try_time <= CAST(sqlc.arg(now) AS INTEGER);

-- name: SettleAlarms :execrows
-- Writes rows after their rings, or restores rows as they were before the claim (store.Settlement). It changes only rows that have not
-- changed since the claim. The statement is run once for all rings that differ in nothing but the id.
-- Index: primary key. Rows: a batch of rings when every ring is confirmed.
UPDATE alarm
SET state = sqlc.arg(state), next_try_time = sqlc.narg(next_try_time), ring_no = sqlc.arg(ring_no), retry_times = sqlc.arg(retry_times),
    last_error = sqlc.arg(last_error),
    in_doubt = sqlc.arg(in_doubt), doubt_target = sqlc.arg(doubt_target), claim_id = sqlc.arg(claim_id), rung_at = sqlc.narg(rung_at), update_time = sqlc.arg(update_time),
    finished_at = sqlc.narg(finished_at), repeat_state = sqlc.arg(repeat_state)
WHERE id IN (SELECT value FROM json_each(CAST(sqlc.arg(ids) AS TEXT))) AND generation = sqlc.arg(generation)
  AND state = sqlc.arg(claimed_state) AND claim_id = sqlc.arg(claimed_claim_id)
  AND next_try_time IS sqlc.narg(claimed_next_try_time) AND rung_at IS sqlc.narg(claimed_rung_at) AND update_time = sqlc.arg(claimed_update_time);
