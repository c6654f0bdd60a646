-- name: InsertAttempts :exec
-- Inserts the failed tries of a claim, rings without an acknowledgement, and answers. The tuple is repeated for each of them.
-- Rows: up to a batch of rings; none when every ring is confirmed.
INSERT INTO ring_attempt (alarm_id, generation, ring_no, claim_id, attempt_time, outcome, error, answered_by)
VALUES /*FIRST*/(?, ?, ?, ?, ?, ?, ?, ?)/*NEXT, FIRST*/;

-- name: ListExcessAttempts :many
-- Finds the oldest attempt of each alarm that has more attempts than are kept. A claim adds at most two attempts to an alarm, so the
-- caller repeats the query.
-- Index: ring_attempt_alarm alone. Rows: none until an alarm has failed that often, then one for each such alarm.
SELECT CAST(MIN(id) AS SIGNED) AS id FROM ring_attempt FORCE INDEX (ring_attempt_alarm)
WHERE alarm_id IN (sqlc.slice(alarm_ids))
GROUP BY alarm_id
HAVING COUNT(*) > sqlc.arg(kept)
ORDER BY alarm_id;

-- name: DeleteAttempts :exec
-- Index: primary key. Rows: at most one for each alarm.
DELETE r FROM ring_attempt r FORCE INDEX (PRIMARY) WHERE r.id IN (sqlc.slice(ids));

-- name: DeleteAttemptsOf :exec
-- Index: ring_attempt_alarm. Rows: the attempts of purged alarms, up to 20 for each alarm.
DELETE r FROM ring_attempt r FORCE INDEX (ring_attempt_alarm) WHERE r.alarm_id IN (sqlc.slice(alarm_ids));

-- name: ListAttempts :many
-- Index: ring_attempt_alarm. Rows: up to 20.
SELECT * FROM ring_attempt WHERE alarm_id = sqlc.arg(alarm_id) ORDER BY id DESC LIMIT ?;
