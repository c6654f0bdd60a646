-- name: InsertAttempts :exec
-- Inserts a failed try, a ring without an acknowledgement, or an answer. The statement is run for each of them.
-- Rows: one.
INSERT INTO ring_attempt (alarm_id, generation, ring_no, claim_id, attempt_time, outcome, error, answered_by)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: PruneAttempts :exec
-- Deletes all attempts of an alarm except the newest.
-- Index: ring_attempt_alarm, backwards past the attempts that are kept. Rows: at most one.
DELETE FROM ring_attempt
WHERE id IN (
    SELECT r.id FROM ring_attempt r WHERE r.alarm_id = sqlc.arg(alarm_id) ORDER BY r.id DESC LIMIT -1 OFFSET sqlc.arg(kept));

-- name: DeleteAttemptsOf :exec
-- Index: ring_attempt_alarm. Rows: the attempts of purged alarms, up to 20 for each alarm.
DELETE FROM ring_attempt WHERE alarm_id IN (SELECT value FROM json_each(CAST(sqlc.arg(alarm_ids) AS TEXT)));

-- name: ListAttempts :many
-- Index: ring_attempt_alarm. Rows: up to 20.
SELECT * FROM ring_attempt WHERE alarm_id = sqlc.arg(alarm_id) ORDER BY id DESC LIMIT sqlc.arg(row_limit);
