-- name: PutZone :exec
-- Notes the time zone of an alarm that the transaction has inserted or rewritten.
-- Index: primary key. Rows: one.
INSERT INTO zoned_alarm (alarm_id, time_zone) VALUES (sqlc.arg(alarm_id), sqlc.arg(time_zone))
ON CONFLICT (alarm_id) DO UPDATE SET time_zone = excluded.time_zone;

-- name: ListZoned :many
-- Lists alarms of a time zone, by id.
-- Index: zoned_alarm_zone. Rows: up to the limit.
SELECT alarm_id FROM zoned_alarm
WHERE time_zone = sqlc.arg(time_zone) AND alarm_id > sqlc.arg(after) ORDER BY alarm_id LIMIT sqlc.arg(row_limit);

-- name: DeleteZonesOf :exec
-- Index: primary key. Rows: the purged alarms with a time zone.
DELETE FROM zoned_alarm WHERE alarm_id IN (SELECT value FROM json_each(CAST(sqlc.arg(alarm_ids) AS TEXT)));

-- name: ReadZoneState :one
-- Index: primary key. Rows: one.
SELECT revision, document FROM time_zone_data WHERE only_row = 1;

-- name: WriteZoneState :execrows
-- Writes the next document, unless another node has written one since the document was read.
-- Index: primary key. Rows: one, or none.
UPDATE time_zone_data SET revision = revision + 1, document = sqlc.arg(document)
WHERE only_row = 1 AND revision = sqlc.arg(revision);
