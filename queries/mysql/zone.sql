-- name: PutZones :exec
-- Notes the time zones of alarms that the transaction has inserted or rewritten. The pair is repeated for each alarm.
-- Index: primary key. Rows: up to a group.
INSERT INTO zoned_alarm (alarm_id, time_zone) VALUES /*FIRST*/(?, ?)/*NEXT, FIRST*/
ON DUPLICATE KEY UPDATE time_zone = VALUES(time_zone);

-- name: ListZoned :many
-- Lists alarms of a time zone, by id.
-- Index: zoned_alarm_zone. Rows: up to the limit.
SELECT alarm_id FROM zoned_alarm FORCE INDEX (zoned_alarm_zone)
WHERE time_zone = sqlc.arg(time_zone) AND alarm_id > sqlc.arg(after) ORDER BY alarm_id LIMIT ?;

-- name: DeleteZonesOf :exec
-- Index: primary key. Rows: the purged alarms with a time zone.
DELETE z FROM zoned_alarm z FORCE INDEX (PRIMARY) WHERE z.alarm_id IN (sqlc.slice(alarm_ids));

-- name: ReadZoneState :one
-- Index: primary key. Rows: one.
SELECT revision, document FROM time_zone_data WHERE only_row = 1;

-- name: WriteZoneState :execrows
-- Writes the next document, unless another node has written one since the document was read.
-- Index: primary key. Rows: one, or none.
UPDATE time_zone_data SET revision = revision + 1, document = sqlc.arg(document)
WHERE only_row = 1 AND revision = sqlc.arg(revision);
