-- name: InsertAttempts :exec
-- Inserts attempts of alarms that this transaction has changed. age(xmin) is 0 for a row that the transaction itself has written.
-- Index: primary key of alarm. Rows: up to a group, or up to a batch of rings.
INSERT INTO ring_attempt (shard, id, alarm_id, generation, ring_no, claim_id, attempt_time, outcome, error, answered_by)
SELECT a.shard, t.id, t.alarm_id, t.generation, t.ring_no, t.claim_id, t.attempt_time, t.outcome, t.error, t.answered_by
FROM (SELECT unnest(sqlc.arg(ids)::bigint[]) AS id,
             unnest(sqlc.arg(alarm_ids)::bigint[]) AS alarm_id,
             unnest(sqlc.arg(attempt_generations)::bigint[]) AS generation,
             unnest(sqlc.arg(attempt_ring_nos)::integer[]) AS ring_no,
             unnest(sqlc.arg(attempt_claim_ids)::varchar[]) AS claim_id,
             unnest(sqlc.arg(attempt_times)::bigint[]) AS attempt_time,
             unnest(sqlc.arg(outcomes)::smallint[]) AS outcome,
             unnest(sqlc.arg(errors)::varchar[]) AS error,
             unnest(sqlc.arg(answered_bys)::varchar[]) AS answered_by) t
JOIN alarm a ON a.id = t.alarm_id /* in a.shard */ AND age(a.xmin) = 0;

-- name: PruneAttempts :exec
-- Deletes all attempts of each alarm except the newest.
-- Index: primary key, backwards past the attempts that are kept. Rows: at most two for each alarm.
DELETE FROM ring_attempt
WHERE (alarm_id, id) IN (
    SELECT old.alarm_id, old.id
    FROM (SELECT unnest(sqlc.arg(alarm_ids)::bigint[]) AS alarm_id) a
    CROSS JOIN LATERAL (
        SELECT r.alarm_id, r.id FROM ring_attempt r WHERE r.alarm_id = a.alarm_id /* in r.shard */ ORDER BY r.id DESC OFFSET sqlc.arg(kept)::bigint
    ) old) /* in shard */;
