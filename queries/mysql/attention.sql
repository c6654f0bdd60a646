-- name: NoteAttention :exec
-- Notes alarms that the transaction has made expired, dead or paused.
-- Index: primary key of alarm. Rows: up to a group.
INSERT INTO attention_alarm (alarm_id, application, business_id)
SELECT a.id, a.application, a.business_id FROM alarm a FORCE INDEX (PRIMARY) WHERE a.id IN (sqlc.slice(ids))
ON DUPLICATE KEY UPDATE alarm_id = VALUES(alarm_id);

-- name: DeleteAttentionOf :exec
-- Index: primary key. Rows: alarms that no longer wait for a person, or are purged.
DELETE n FROM attention_alarm n FORCE INDEX (PRIMARY) WHERE n.alarm_id IN (sqlc.slice(alarm_ids));

-- name: ListAttention :many
-- Like ListAlarms, only for expired, dead and paused alarms.
-- Index: attention_alarm_key, as a range that ends at the limit, and the primary key of alarm. Rows: up to 1,000.
SELECT a.* FROM attention_alarm n FORCE INDEX (attention_alarm_key) STRAIGHT_JOIN alarm a FORCE INDEX (PRIMARY) ON a.id = n.alarm_id
WHERE n.application = sqlc.arg(application)
  AND n.business_id > sqlc.arg(after) AND n.business_id >= sqlc.arg(prefix) AND n.business_id < sqlc.arg(range_end)
  AND LENGTH(n.business_id) >= LENGTH(sqlc.arg(prefix))
  AND a.state IN (sqlc.slice(states))
ORDER BY n.business_id
LIMIT ?;

-- name: ListAttentionBound :many
-- Like ListBound, for ListAttention.
-- Index: attention_alarm_key alone, as a range that ends at the second id. Rows: two, or fewer at the end of the list.
SELECT business_id FROM attention_alarm FORCE INDEX (attention_alarm_key)
WHERE application = sqlc.arg(application)
  AND business_id > sqlc.arg(after) AND business_id >= sqlc.arg(prefix) AND business_id < sqlc.arg(range_end)
ORDER BY business_id
LIMIT 2 OFFSET ?;

-- name: NextAttentionApplication :one
-- Reads the name of the first application after the given name that has, or had, expired, dead or paused alarms.
-- Index: attention_alarm_key alone. Rows: one, or none.
SELECT application FROM attention_alarm FORCE INDEX (attention_alarm_key)
WHERE application > sqlc.arg(after) ORDER BY application LIMIT 1;

-- name: CountAttention :many
-- Counts the expired, dead and paused alarms of one application by state, up to the limit.
-- Index: attention_alarm_key, as a range that ends at the limit, and the primary key of alarm. Rows: up to three.
SELECT s.state, COUNT(*) AS count
FROM (SELECT a.state FROM attention_alarm n FORCE INDEX (attention_alarm_key) STRAIGHT_JOIN alarm a FORCE INDEX (PRIMARY) ON a.id = n.alarm_id
      WHERE n.application = sqlc.arg(application) AND a.state IN (4, 5, 7) LIMIT ?) s
GROUP BY s.state ORDER BY s.state LIMIT 100;
