-- name: LockDue :many
-- Locks the free, due rows of a claim in the order of id. It reads everything that the rings need, so the caller knows what TakeHeld,
-- TakeTwoPhase or TakeOnce will write. A row is one value in the format of packed.go: each text after its length in bytes, -1 for NULL.
-- The server's clock comes first, in milliseconds, as of the statement's start. The numbers from id to update_time are the version of the
-- row: TakeHeld, TakeTwoPhase and TakeOnce compare it.
-- A payload longer than inline_bytes is left out; ListPayloads reads it. A row with an unknown state is read too, so that the caller can
-- end it.
-- Index: primary key. Rows: a batch of rings.
SELECT CONCAT_WS(' ', FLOOR(@@timestamp * 1000), id, generation, state, ring_no, retry_times, in_doubt, COALESCE(rung_at, -1), next_try_time,
                 update_time, shard, max_rings, ack_timeout, delivery, priority, due_rank, doubt_target, target_ring_at, COALESCE(latest_ring_at, -1), LENGTH(application), application,
                 LENGTH(business_id), business_id, LENGTH(last_error), last_error, LENGTH(claim_id), claim_id,
                 LENGTH(retry_policy), retry_policy, LENGTH(traceparent), traceparent, LENGTH(content_type), content_type,
                 LENGTH(repeat_rule), repeat_rule, LENGTH(repeat_state), repeat_state,
                 LENGTH(destination), destination, LENGTH(receiver), receiver,
                 payload_kind, LENGTH(payload), IF(LENGTH(payload) <= CAST(sqlc.arg(inline_bytes) AS SIGNED), payload, NULL)) AS packed
FROM alarm FORCE INDEX (PRIMARY)
WHERE id IN (sqlc.slice(ids)) AND state NOT IN (3, 4, 5, 6, 7) AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED)
  AND (SELECT b.oldest FROM build_level b WHERE b.only_row = 1) <= CAST(sqlc.arg(build) AS SIGNED)
ORDER BY id
FOR UPDATE SKIP LOCKED;

-- name: ListPayloads :many
-- Reads the payloads that LockDue left out. Their rows are locked.
-- Index: primary key. Rows: few.
SELECT id, payload FROM alarm FORCE INDEX (PRIMARY) WHERE id IN (sqlc.slice(ids)) ORDER BY id;

-- name: TakeHeld :execrows
-- Writes clock.ConfirmedRow before the ring, to exactly the row versions that LockDue read. Most rows of a batch share generation,
-- state and counters: comparing these columns costs nothing. For the other rows the whole version is compared in the format of LockDue,
-- which costs some microseconds a row.
-- The last parameter is repeated for each of these versions; sqlc silently drops it (versions.go).
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm FORCE INDEX (PRIMARY)
SET state = IF(ack_timeout > 0, 2, 3), next_try_time = IF(ack_timeout > 0, CAST(sqlc.arg(now) AS SIGNED) + ack_timeout, NULL),
    ring_no = ring_no + 1, in_doubt = 0, claim_id = sqlc.arg(claim_id), rung_at = CAST(sqlc.arg(now) AS SIGNED), update_time = CAST(sqlc.arg(now) AS SIGNED),
    finished_at = IF(ack_timeout > 0, NULL, CAST(sqlc.arg(now) AS SIGNED))
WHERE id IN (sqlc.slice(ids)) AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED)
  AND (latest_ring_at IS NULL OR latest_ring_at >= CAST(sqlc.arg(now) AS SIGNED))
  AND (SELECT b.oldest FROM build_level b WHERE b.only_row = 1) <= CAST(sqlc.arg(build) AS SIGNED)
  AND (state = 1 OR state = 2 AND (rung_at IS NULL OR ring_no < max_rings OR repeat_state <> ''))
  AND (generation = sqlc.arg(generation) AND state = sqlc.arg(old_state) AND ring_no = sqlc.arg(ring_no) AND retry_times = sqlc.arg(retry_times)
       AND in_doubt = sqlc.arg(old_in_doubt) AND IF(rung_at IS NULL, 1, 0) = CAST(sqlc.arg(unrung) AS SIGNED) AND id NOT IN (sqlc.slice(others))
       OR CONCAT_WS(' ', id, generation, state, ring_no, retry_times, in_doubt, COALESCE(rung_at, -1), next_try_time, update_time)
          IN (sqlc.arg(versions)));

-- name: TakeOnce :execrows
-- Claims alarms that ring at most once. It writes the row of a ring in doubt (clock.FateOf) before the message is handed over.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm FORCE INDEX (PRIMARY)
SET state = 3, next_try_time = NULL, in_doubt = 1, claim_id = sqlc.arg(claim_id), rung_at = CAST(sqlc.arg(now) AS SIGNED),
    update_time = CAST(sqlc.arg(now) AS SIGNED), finished_at = CAST(sqlc.arg(now) AS SIGNED)
WHERE id IN (sqlc.slice(ids)) AND state IN (1, 2) AND delivery = 1 AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED)
  AND (latest_ring_at IS NULL OR latest_ring_at >= CAST(sqlc.arg(now) AS SIGNED))
  AND (SELECT b.oldest FROM build_level b WHERE b.only_row = 1) <= CAST(sqlc.arg(build) AS SIGNED)
  AND (generation = sqlc.arg(generation) AND state = sqlc.arg(old_state) AND ring_no = sqlc.arg(ring_no) AND retry_times = sqlc.arg(retry_times)
       AND in_doubt = sqlc.arg(old_in_doubt) AND IF(rung_at IS NULL, 1, 0) = CAST(sqlc.arg(unrung) AS SIGNED) AND id NOT IN (sqlc.slice(others))
       OR CONCAT_WS(' ', id, generation, state, ring_no, retry_times, in_doubt, COALESCE(rung_at, -1), next_try_time, update_time)
          IN (sqlc.arg(versions)));

-- name: TakeTwoPhase :execrows
-- Begins a two-phase claim. A row that an earlier two-phase claim held until its time ran out may have been delivered: it becomes in
-- doubt.
-- The assignment of in_doubt comes first, because it reads columns that the later assignments change.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm FORCE INDEX (PRIMARY)
SET in_doubt = IF(state = 2 AND rung_at IS NULL, 1, in_doubt), doubt_target = sqlc.arg(doubt_target), state = 2, next_try_time = CAST(sqlc.arg(claim_end) AS SIGNED), rung_at = NULL,
    update_time = CAST(sqlc.arg(now) AS SIGNED)
WHERE id IN (sqlc.slice(ids)) AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED)
  AND (latest_ring_at IS NULL OR latest_ring_at >= CAST(sqlc.arg(now) AS SIGNED))
  AND (SELECT b.oldest FROM build_level b WHERE b.only_row = 1) <= CAST(sqlc.arg(build) AS SIGNED)
  AND (state = 1 OR state = 2 AND (rung_at IS NULL OR ring_no < max_rings OR repeat_state <> ''))
  AND (generation = sqlc.arg(generation) AND state = sqlc.arg(old_state) AND ring_no = sqlc.arg(ring_no) AND retry_times = sqlc.arg(retry_times)
       AND in_doubt = sqlc.arg(old_in_doubt) AND IF(rung_at IS NULL, 1, 0) = CAST(sqlc.arg(unrung) AS SIGNED) AND id NOT IN (sqlc.slice(others))
       OR CONCAT_WS(' ', id, generation, state, ring_no, retry_times, in_doubt, COALESCE(rung_at, -1), next_try_time, update_time)
          IN (sqlc.arg(versions)));

-- name: ListLost :many
-- Lists the rows that have changed since TakeTwoPhase. It reads without a lock. ConfirmAlarms would wait for such a row if another
-- transaction locks it.
-- Index: primary key. Rows: usually none.
SELECT id FROM alarm FORCE INDEX (PRIMARY)
WHERE id IN (sqlc.slice(ids)) AND (state <> 2 OR rung_at IS NOT NULL OR next_try_time <> CAST(sqlc.arg(claim_end) AS SIGNED))
ORDER BY id;

-- name: ConfirmAlarms :execrows
-- Writes clock.ConfirmedRow to the rows of a two-phase claim that have not changed since TakeTwoPhase.
-- Index: primary key. Rows: a batch of rings.
UPDATE alarm FORCE INDEX (PRIMARY)
SET state = IF(ack_timeout > 0, 2, 3), next_try_time = IF(ack_timeout > 0, CAST(sqlc.arg(rung_at) AS SIGNED) + ack_timeout, NULL),
    ring_no = ring_no + 1, in_doubt = 0, claim_id = sqlc.arg(claim_id), rung_at = CAST(sqlc.arg(rung_at) AS SIGNED),
    update_time = CAST(sqlc.arg(rung_at) AS SIGNED), finished_at = IF(ack_timeout > 0, NULL, CAST(sqlc.arg(rung_at) AS SIGNED))
WHERE id IN (sqlc.slice(ids)) AND generation = sqlc.arg(generation) AND next_try_time = CAST(sqlc.arg(claim_end) AS SIGNED)
  AND state = 2 AND rung_at IS NULL;

-- name: LockOnce :many
-- Locks the rows that have not changed since TakeOnce, in the order of id. A settlement may leave a row rung and in doubt, and then only
-- its update_time shows that the row is settled. The settlement first reads these rows without the lock (settle.go).
-- Index: primary key. Rows: a batch of rings.
SELECT id FROM alarm FORCE INDEX (PRIMARY)
WHERE id IN (sqlc.slice(ids)) AND state = 3 AND in_doubt = 1 AND claim_id = sqlc.arg(claim_id) AND update_time = sqlc.arg(update_time)
ORDER BY id
FOR UPDATE;

-- name: LockAwaited :many
-- Locks the rows of awaited rings that have not changed since their settlement, in the order of id. No other write leaves a row scheduled and
-- in doubt with this update_time. The settlement first reads these rows without the lock.
-- Index: primary key. Rows: a batch of rings.
SELECT id FROM alarm FORCE INDEX (PRIMARY)
WHERE id IN (sqlc.slice(ids)) AND state = 1 AND in_doubt = 1 AND update_time = sqlc.arg(update_time)
ORDER BY id
FOR UPDATE;

-- name: LockTwoPhase :many
-- Locks the rows that have not changed since TakeTwoPhase, in the order of id. The settlement first reads these rows without the lock.
-- Index: primary key. Rows: a batch of rings.
SELECT id FROM alarm FORCE INDEX (PRIMARY)
WHERE id IN (sqlc.slice(ids)) AND state = 2 AND rung_at IS NULL AND next_try_time = CAST(sqlc.arg(claim_end) AS SIGNED)
ORDER BY id
FOR UPDATE;

-- name: ExpireAlarms :execrows
-- Ends due rows whose latest_ring_at has passed. It writes the row of clock.FateOf for TooLate, only in the generations that were judged.
-- The last parameter is repeated for each row (versions.go): its id, a blank and its generation.
-- The assignments of last_error and in_doubt come first, because they read columns that the later assignments change.
-- Index: primary key. Rows: few.
UPDATE alarm FORCE INDEX (PRIMARY)
SET last_error = CASE
        WHEN in_doubt = 1 OR state = 2 AND rung_at IS NULL
        THEN LEFT(CONCAT(sqlc.arg(doubt), IF(last_error = '', '', '; last error: '), last_error), 500)
        WHEN state = 2 THEN sqlc.arg(unacknowledged)
        WHEN last_error = '' THEN sqlc.arg(reason)
        ELSE last_error END,
    in_doubt = IF(state = 2 AND rung_at IS NULL, 1, in_doubt), state = 4, next_try_time = NULL, update_time = CAST(sqlc.arg(now) AS SIGNED),
    finished_at = CAST(sqlc.arg(now) AS SIGNED)
WHERE id IN (sqlc.slice(ids)) AND state IN (1, 2) AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED) AND latest_ring_at < CAST(sqlc.arg(now) AS SIGNED)
  AND CONCAT_WS(' ', id, generation) IN (sqlc.arg(generations));

-- name: KillAlarms :execrows
-- Ends due rows that have rung max_rings times without an acknowledgement. It writes the row of clock.FateOf for Unacknowledged. The last
-- parameter is as in ExpireAlarms.
-- Index: primary key. Rows: few.
UPDATE alarm FORCE INDEX (PRIMARY)
SET state = 5, next_try_time = NULL, last_error = CONCAT('not acknowledged after ', ring_no, ' rings'), update_time = CAST(sqlc.arg(now) AS SIGNED),
    finished_at = CAST(sqlc.arg(now) AS SIGNED)
WHERE id IN (sqlc.slice(ids)) AND state = 2 AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED) AND rung_at IS NOT NULL AND ring_no >= max_rings
  AND (latest_ring_at IS NULL OR latest_ring_at >= CAST(sqlc.arg(now) AS SIGNED))
  AND CONCAT_WS(' ', id, generation) IN (sqlc.arg(generations));

-- name: KillUnreadable :execrows
-- Ends a due row with an unreadable column. It writes the row of clock.FateOf for Unreadable. generation is -1 if that column is
-- unreadable too.
-- Index: primary key. Rows: one.
UPDATE alarm FORCE INDEX (PRIMARY)
SET in_doubt = IF(in_doubt <> 0 OR state = 2 AND rung_at IS NULL, 1, 0), state = 5, next_try_time = NULL, last_error = sqlc.arg(reason),
    update_time = CAST(sqlc.arg(now) AS SIGNED), finished_at = CAST(sqlc.arg(now) AS SIGNED)
WHERE id = sqlc.arg(id) AND (CAST(sqlc.arg(generation) AS SIGNED) = -1 OR generation = CAST(sqlc.arg(generation) AS SIGNED)) AND state NOT IN (3, 4, 5, 6, 7) AND next_try_time <= CAST(sqlc.arg(now) AS SIGNED);

-- name: SettleAlarms :execrows
-- Writes rows after their rings, or restores rows as they were before the claim (store.Settlement). The claim has locked all these rows.
-- The inner SELECT is repeated for each row; -1 stands for NULL.
-- Index: primary key. Rows: at most a batch of rings; with a held claim only the rows that differ from the confirmed row.
UPDATE (
    /*FIRST*/SELECT ? AS id, ? AS generation, ? AS state, ? AS next_try_time, ? AS ring_no, ? AS retry_times, ? AS last_error,
           ? AS in_doubt, ? AS claim_id, ? AS rung_at, ? AS update_time, ? AS finished_at, ? AS doubt_target, ? AS repeat_state
    /*NEXT UNION ALL SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?*/
) s
STRAIGHT_JOIN alarm a FORCE INDEX (PRIMARY) ON s.id = a.id AND s.generation = a.generation
SET a.state = s.state, a.next_try_time = NULLIF(s.next_try_time, -1), a.ring_no = s.ring_no, a.retry_times = s.retry_times,
    a.last_error = s.last_error, a.in_doubt = s.in_doubt, a.doubt_target = s.doubt_target, a.claim_id = s.claim_id,
    a.rung_at = NULLIF(s.rung_at, -1), a.update_time = s.update_time, a.finished_at = NULLIF(s.finished_at, -1), a.repeat_state = s.repeat_state;
