-- name: LockDue :many
-- The rows of a claim that are free and due, locked in the order of id, with all that their rings need: what TakeAlarms,
-- LeaseAlarms or TakeOnce will write is known. A row is one value, as packed.go reads it: each text after its length in bytes, -1 for
-- NULL. The payload is missing where it is longer than inline_bytes: ListPayloads reads it.
-- Index: primary key. Rows: a batch of rings.
SELECT CONCAT_WS(' ', id, shard, state, generation, ring_no, retry_times, max_rings, ack_timeout, delivery, priority, target_ring_at,
                 COALESCE(latest_ring_at, -1), next_try_time, in_doubt, COALESCE(rung_at, -1), update_time, LENGTH(application), application,
                 LENGTH(business_id), business_id, LENGTH(last_error), last_error, LENGTH(claim_id), claim_id,
                 LENGTH(retry_policy), retry_policy, LENGTH(traceparent), traceparent, LENGTH(content_type), content_type,
                 payload_kind, LENGTH(payload), IF(LENGTH(payload) <= CAST(sqlc.arg(inline_bytes) AS SIGNED), payload, NULL)) AS packed
FROM alarm FORCE INDEX (PRIMARY)
WHERE id IN (sqlc.slice(ids)) AND state IN (1, 2) AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED)
ORDER BY id
FOR UPDATE SKIP LOCKED;

-- name: ListPayloads :many
-- The payloads that LockDue left out; their rows are locked.
-- Index: primary key. Rows: few.
SELECT id, payload FROM alarm FORCE INDEX (PRIMARY) WHERE id IN (sqlc.slice(ids)) ORDER BY id;

-- name: TakeAlarms :execrows
-- The confirmed outcome, ahead of the ring.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm FORCE INDEX (PRIMARY)
SET state = IF(ack_timeout > 0, 2, 3), next_try_time = IF(ack_timeout > 0, CAST(sqlc.arg(now) AS SIGNED) + ack_timeout, NULL),
    ring_no = ring_no + 1, in_doubt = 0, claim_id = sqlc.arg(claim_id), rung_at = CAST(sqlc.arg(now) AS SIGNED), update_time = CAST(sqlc.arg(now) AS SIGNED),
    finished_at = IF(ack_timeout > 0, NULL, CAST(sqlc.arg(now) AS SIGNED))
WHERE id IN (sqlc.slice(ids)) AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED)
  AND (latest_ring_at IS NULL OR latest_ring_at >= CAST(sqlc.arg(now) AS SIGNED))
  AND (state = 1 OR state = 2 AND (rung_at IS NULL OR ring_no < max_rings));

-- name: TakeOnce :execrows
-- Rung at most once: said before it is handed over, in doubt until its outcome is known.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm FORCE INDEX (PRIMARY)
SET state = 3, next_try_time = NULL, in_doubt = 1, claim_id = sqlc.arg(claim_id), rung_at = CAST(sqlc.arg(now) AS SIGNED),
    update_time = CAST(sqlc.arg(now) AS SIGNED), finished_at = CAST(sqlc.arg(now) AS SIGNED)
WHERE id IN (sqlc.slice(ids)) AND state IN (1, 2) AND delivery = 1 AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED)
  AND (latest_ring_at IS NULL OR latest_ring_at >= CAST(sqlc.arg(now) AS SIGNED));

-- name: LeaseAlarms :execrows
-- A two-phase claim. A row that such a claim held before, and lost by time, may have been delivered: it is in doubt.
-- in_doubt comes first: it looks at what the later assignments change.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm FORCE INDEX (PRIMARY)
SET in_doubt = IF(state = 2 AND rung_at IS NULL, 1, in_doubt), state = 2, next_try_time = CAST(sqlc.arg(claim_end) AS SIGNED), rung_at = NULL,
    update_time = CAST(sqlc.arg(now) AS SIGNED)
WHERE id IN (sqlc.slice(ids)) AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED)
  AND (latest_ring_at IS NULL OR latest_ring_at >= CAST(sqlc.arg(now) AS SIGNED))
  AND (state = 1 OR state = 2 AND (rung_at IS NULL OR ring_no < max_rings));

-- name: FinishAlarms :execrows
-- The confirmed outcome of a two-phase claim, of the rows that are still as LeaseAlarms left them.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm FORCE INDEX (PRIMARY)
SET state = IF(ack_timeout > 0, 2, 3), next_try_time = IF(ack_timeout > 0, CAST(sqlc.arg(rung_at) AS SIGNED) + ack_timeout, NULL),
    ring_no = ring_no + 1, in_doubt = 0, claim_id = sqlc.arg(claim_id), rung_at = CAST(sqlc.arg(rung_at) AS SIGNED),
    update_time = CAST(sqlc.arg(now) AS SIGNED), finished_at = IF(ack_timeout > 0, NULL, CAST(sqlc.arg(rung_at) AS SIGNED))
WHERE id IN (sqlc.slice(ids)) AND generation = sqlc.arg(generation) AND next_try_time = CAST(sqlc.arg(claim_end) AS SIGNED)
  AND state = 2 AND rung_at IS NULL;

-- name: LockOnce :many
-- The rows that are still as TakeOnce left them, locked in the order of id.
-- Index: primary key. Rows: a batch of rings.
SELECT id FROM alarm FORCE INDEX (PRIMARY)
WHERE id IN (sqlc.slice(ids)) AND state = 3 AND in_doubt = 1 AND claim_id = sqlc.arg(claim_id)
ORDER BY id
FOR UPDATE;

-- name: LockLeased :many
-- The rows that are still as LeaseAlarms left them, locked in the order of id.
-- Index: primary key. Rows: a batch of rings.
SELECT id FROM alarm FORCE INDEX (PRIMARY)
WHERE id IN (sqlc.slice(ids)) AND state = 2 AND rung_at IS NULL AND next_try_time = CAST(sqlc.arg(claim_end) AS SIGNED)
ORDER BY id
FOR UPDATE;

-- name: ExpireAlarms :execrows
-- Due rows past their latest_ring_at; the reason of an earlier failure stays.
-- Index: primary key. Rows: few.
UPDATE alarm FORCE INDEX (PRIMARY)
SET state = 4, next_try_time = NULL, last_error = IF(last_error = '', sqlc.arg(reason), last_error), update_time = CAST(sqlc.arg(now) AS SIGNED),
    finished_at = CAST(sqlc.arg(now) AS SIGNED)
WHERE id IN (sqlc.slice(ids)) AND state IN (1, 2) AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED) AND latest_ring_at < CAST(sqlc.arg(now) AS SIGNED);

-- name: KillAlarms :execrows
-- Due rows that have rung max_rings times without an acknowledgement.
-- Index: primary key. Rows: few.
UPDATE alarm FORCE INDEX (PRIMARY)
SET state = 5, next_try_time = NULL, last_error = CONCAT('not acknowledged after ', ring_no, ' rings'), update_time = CAST(sqlc.arg(now) AS SIGNED),
    finished_at = CAST(sqlc.arg(now) AS SIGNED)
WHERE id IN (sqlc.slice(ids)) AND state = 2 AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED) AND rung_at IS NOT NULL AND ring_no >= max_rings
  AND (latest_ring_at IS NULL OR latest_ring_at >= CAST(sqlc.arg(now) AS SIGNED));

-- name: SettleAlarms :execrows
-- What became of the rings, or with Release the rows as they were; all are locked. The inner SELECT is repeated a row; -1
-- stands for NULL.
-- Index: primary key. Rows: a batch of rings at most; with a transactional claim only those not confirmed.
UPDATE (
    SELECT ? AS id, ? AS generation, ? AS state, ? AS next_try_time, ? AS ring_no, ? AS retry_times, ? AS last_error,
           ? AS in_doubt, ? AS claim_id, ? AS rung_at, ? AS update_time, ? AS finished_at
) s
STRAIGHT_JOIN alarm a FORCE INDEX (PRIMARY) ON s.id = a.id AND s.generation = a.generation
SET a.state = s.state, a.next_try_time = NULLIF(s.next_try_time, -1), a.ring_no = s.ring_no, a.retry_times = s.retry_times,
    a.last_error = IF(s.last_error = '', a.last_error, s.last_error), a.in_doubt = s.in_doubt, a.claim_id = s.claim_id,
    a.rung_at = NULLIF(s.rung_at, -1), a.update_time = s.update_time, a.finished_at = NULLIF(s.finished_at, -1);
