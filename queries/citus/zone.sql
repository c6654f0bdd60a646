-- name: PutZones :exec
-- Notes the time zones of alarms that this transaction has written. age(xmin) is 0 for a row that the transaction itself has written.
-- Index: primary key of alarm. Rows: up to a group.
INSERT INTO zoned_alarm (shard, alarm_id, time_zone)
SELECT a.shard, t.alarm_id, t.time_zone
FROM (SELECT unnest(sqlc.arg(alarm_ids)::bigint[]) AS alarm_id,
             unnest(sqlc.arg(time_zones)::varchar[]) AS time_zone) t
JOIN alarm a ON a.id = t.alarm_id /* in a.shard */ AND age(a.xmin) = 0
ON CONFLICT (alarm_id, shard) DO UPDATE SET time_zone = excluded.time_zone;
