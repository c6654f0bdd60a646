-- name: PutRepeating :exec
-- Notes alarms that the transaction has inserted or rewritten with a rule. The values are repeated for each alarm. The key of an alarm never
-- changes.
-- Index: primary key. Rows: up to a group.
INSERT INTO repeating_alarm (alarm_id, application, business_id) VALUES /*FIRST*/(?, ?, ?)/*NEXT, FIRST*/
ON DUPLICATE KEY UPDATE alarm_id = alarm_id;

-- name: ListRepeating :many
-- Lists alarms of one application that have a rule, or had one, in the order of business_id. ListAlarms explains the comparison of lengths.
-- Index: repeating_alarm_key, as a range that ends at the limit, and the primary key of alarm. Rows: up to 1,000.
SELECT a.* FROM repeating_alarm r FORCE INDEX (repeating_alarm_key) STRAIGHT_JOIN alarm a FORCE INDEX (PRIMARY) ON a.id = r.alarm_id
WHERE r.application = sqlc.arg(application)
  AND r.business_id > sqlc.arg(after) AND r.business_id >= sqlc.arg(prefix) AND r.business_id < sqlc.arg(range_end)
  AND LENGTH(r.business_id) >= LENGTH(sqlc.arg(prefix))
ORDER BY r.business_id
LIMIT ?;

-- name: NextRepeatingApplication :one
-- Reads the name of the first application after the given name that has, or had, repeating alarms.
-- Index: repeating_alarm_key alone. Rows: one, or none.
SELECT application FROM repeating_alarm FORCE INDEX (repeating_alarm_key)
WHERE application > sqlc.arg(after) ORDER BY application LIMIT 1;

-- name: ListRules :many
-- Reads the rules of alarms of one application that have one, or had one, without payloads, in the order of business_id.
-- Index: repeating_alarm_key, as a range that ends at the limit, and the primary key of alarm. Rows: up to 20,000.
SELECT a.business_id, a.generation, a.next_try_time, a.repeat_rule, a.repeat_state
FROM repeating_alarm r FORCE INDEX (repeating_alarm_key) STRAIGHT_JOIN alarm a FORCE INDEX (PRIMARY) ON a.id = r.alarm_id
WHERE r.application = sqlc.arg(application)
ORDER BY r.business_id
LIMIT ?;

-- name: CountRepeating :one
-- Counts alarms of one application that have a rule, or had one, up to row_limit.
-- Index: repeating_alarm_key alone, as a range that ends at the limit. Rows: one.
SELECT COUNT(*) FROM (
  SELECT r.alarm_id FROM repeating_alarm r FORCE INDEX (repeating_alarm_key) WHERE r.application = sqlc.arg(application) LIMIT ?
) counted;

-- name: DeleteRepeatingOf :exec
-- Index: primary key. Rows: the purged alarms that repeated.
DELETE r FROM repeating_alarm r FORCE INDEX (PRIMARY) WHERE r.alarm_id IN (sqlc.slice(alarm_ids));
