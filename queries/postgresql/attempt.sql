-- name: PruneAttempts :exec
-- All but the newest of each alarm.
-- Index: ring_attempt_alarm, backwards past those that are kept. Rows: at most one an alarm.
DELETE FROM ring_attempt
WHERE id IN (
    SELECT old.id
    FROM (SELECT unnest(sqlc.arg(alarm_ids)::bigint[]) AS alarm_id) a
    CROSS JOIN LATERAL (
        SELECT r.id FROM ring_attempt r WHERE r.alarm_id = a.alarm_id ORDER BY r.id DESC OFFSET sqlc.arg(kept)::bigint
    ) old);

-- name: ListAttempts :many
-- Index: ring_attempt_alarm. Rows: up to 20.
SELECT * FROM ring_attempt WHERE alarm_id = sqlc.arg(alarm_id) ORDER BY id DESC LIMIT sqlc.arg(row_limit);
