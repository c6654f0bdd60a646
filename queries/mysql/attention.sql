-- name: NoteAttention :exec
-- Notes alarms that the transaction has made expired, dead or paused.
-- Index: primary key of alarm. Rows: up to a group.
INSERT INTO attention_alarm (alarm_id, application, state, business_id)
SELECT a.id, a.application, a.state, a.business_id FROM alarm a FORCE INDEX (PRIMARY)
WHERE a.id IN (sqlc.slice(ids)) AND a.state IN (4, 5, 7)
ON DUPLICATE KEY UPDATE state = VALUES(state);

-- name: DeleteAttentionOf :exec
-- Index: primary key. Rows: alarms that no longer wait for a person, or are purged.
DELETE n FROM attention_alarm n FORCE INDEX (PRIMARY) WHERE n.alarm_id IN (sqlc.slice(alarm_ids));

-- name: ListAttention :many
-- Lists the business ids of expired, dead or paused alarms of one application in order. ListAlarms explains the comparison of lengths.
-- Index: attention_alarm_key alone, as a range that ends at the limit. Rows: up to 1,000.
SELECT business_id FROM attention_alarm FORCE INDEX (attention_alarm_key)
WHERE application = sqlc.arg(application) AND state = sqlc.arg(state)
  AND business_id > sqlc.arg(after) AND business_id >= sqlc.arg(prefix) AND business_id < sqlc.arg(range_end)
  AND LENGTH(business_id) >= LENGTH(sqlc.arg(prefix))
ORDER BY business_id
LIMIT ?;

-- name: CountAttention :one
-- Counts expired, dead or paused alarms of one application, up to the limit.
-- Index: attention_alarm_key alone, as a range that ends at the limit. Rows: one.
SELECT COUNT(*) FROM (
  SELECT n.alarm_id FROM attention_alarm n FORCE INDEX (attention_alarm_key)
  WHERE n.application = sqlc.arg(application) AND n.state = sqlc.arg(state) LIMIT ?
) counted;

-- name: NextAttentionApplication :one
-- Reads the name of the first application after the given name that has expired, dead or paused alarms.
-- Index: attention_alarm_key alone. Rows: one, or none.
SELECT application FROM attention_alarm FORCE INDEX (attention_alarm_key)
WHERE application > sqlc.arg(after) ORDER BY application LIMIT 1;
