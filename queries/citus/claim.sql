-- name: EndAlarms :exec
-- Ends due rows that cannot ring any more, as clock.FateOf says. It changes exactly the row versions that LockDue read. InsertAttempts inserts
-- their attempts.
-- Index: primary key. Rows: few.
UPDATE alarm a
SET state = e.state, in_doubt = e.in_doubt, next_try_time = NULL, last_error = e.last_error, update_time = sqlc.arg(now)::bigint,
    finished_at = sqlc.arg(now)::bigint
FROM (SELECT unnest(sqlc.arg(ids)::bigint[]) AS id,
             unnest(sqlc.arg(generations)::bigint[]) AS generation,
             unnest(sqlc.arg(next_try_times)::bigint[]) AS next_try_time,
             unnest(sqlc.arg(update_times)::bigint[]) AS update_time,
             unnest(sqlc.arg(states)::smallint[]) AS state,
             unnest(sqlc.arg(last_errors)::varchar[]) AS last_error,
             unnest(sqlc.arg(in_doubts)::smallint[]) AS in_doubt) e
WHERE a.id = e.id /* in a.shard */ AND a.generation = e.generation AND a.update_time = e.update_time
  AND coalesce(a.next_try_time = e.next_try_time, FALSE) AND a.state NOT IN (3, 4, 5, 6, 7);

-- name: SettleAlarms :exec
-- Writes rows after their rings, or restores rows as they were before the claim (store.Settlement). It changes only rows that have not
-- changed since the claim. InsertAttempts inserts their attempts.
-- Index: primary key. Rows: at most a batch of rings.
UPDATE alarm a
SET state = s.state, next_try_time = NULLIF(s.next_try_time, -1), ring_no = s.ring_no, retry_times = s.retry_times,
    last_error = s.last_error, in_doubt = s.in_doubt, doubt_target = s.doubt_target, repeat_state = s.repeat_state,
    claim_id = s.claim_id, rung_at = NULLIF(s.rung_at, -1), update_time = s.update_time,
    finished_at = NULLIF(s.finished_at, -1)
FROM (SELECT unnest(sqlc.arg(ids)::bigint[]) AS id,
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
             unnest(sqlc.arg(repeat_states)::varchar[]) AS repeat_state) s
WHERE a.id = s.id /* in a.shard */ AND a.generation = s.generation AND a.state = s.claimed_state
  AND a.next_try_time IS NOT DISTINCT FROM NULLIF(s.claimed_next_try_time, -1)
  AND a.rung_at IS NOT DISTINCT FROM NULLIF(s.claimed_rung_at, -1) AND a.claim_id = s.claimed_claim_id
  AND coalesce(a.update_time = sqlc.arg(claimed_at)::bigint, FALSE);
