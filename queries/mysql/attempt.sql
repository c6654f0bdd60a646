-- name: InsertAttempts :exec
-- The failed tries of a claim, what was not acknowledged, and answers: the tuple is repeated a try.
-- Rows: up to a batch of rings, none when all goes well.
INSERT INTO ring_attempt (alarm_id, generation, ring_no, claim_id, attempt_time, outcome, error, answered_by)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: ListExcessAttempts :many
-- The oldest attempt of each alarm that has more than are kept. A claim adds at most two an alarm, so it is asked again.
-- Index: ring_attempt_alarm alone. Rows: none until an alarm has failed that often, then one an alarm.
SELECT CAST(MIN(id) AS SIGNED) AS id FROM ring_attempt FORCE INDEX (ring_attempt_alarm)
WHERE alarm_id IN (sqlc.slice(alarm_ids))
GROUP BY alarm_id
HAVING COUNT(*) > sqlc.arg(kept)
ORDER BY alarm_id;

-- name: DeleteAttempts :exec
-- Index: primary key. Rows: at most one an alarm.
DELETE r FROM ring_attempt r FORCE INDEX (PRIMARY) WHERE r.id IN (sqlc.slice(ids));

-- name: DeleteAttemptsOf :exec
-- Index: ring_attempt_alarm. Rows: those of a purge, up to 20 an alarm.
DELETE r FROM ring_attempt r FORCE INDEX (ring_attempt_alarm) WHERE r.alarm_id IN (sqlc.slice(alarm_ids));

-- name: ListAttempts :many
-- Index: ring_attempt_alarm. Rows: up to 20.
SELECT * FROM ring_attempt WHERE alarm_id = sqlc.arg(alarm_id) ORDER BY id DESC LIMIT ?;
