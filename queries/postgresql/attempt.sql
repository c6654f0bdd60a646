-- name: InsertAttempts :exec
-- Inserts rings without an acknowledgement, and answers. SettleAlarms inserts the attempts of a claim.
-- Rows: up to a group.
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
ORDER BY t.position;

-- name: PruneAttempts :exec
-- Deletes all attempts of each alarm except the newest.
-- Index: ring_attempt_alarm, backwards past the attempts that are kept. Rows: at most two for each alarm.
DELETE FROM ring_attempt
WHERE id IN (
    SELECT old.id
    FROM (SELECT unnest(sqlc.arg(alarm_ids)::bigint[]) AS alarm_id) a
    CROSS JOIN LATERAL (
        SELECT r.id FROM ring_attempt r WHERE r.alarm_id = a.alarm_id ORDER BY r.id DESC OFFSET sqlc.arg(kept)::bigint
    ) old);

-- name: ListAttempts :many
-- Index: ring_attempt_alarm. Rows: up to 20.
SELECT * FROM ring_attempt WHERE alarm_id = sqlc.arg(alarm_id) /* in shard */ ORDER BY id DESC LIMIT sqlc.arg(row_limit);
