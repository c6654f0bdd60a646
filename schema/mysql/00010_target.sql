-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the targets that alarms name, and rings no alarm of an application
-- whose settings allow them: it cannot read these settings.
-- due_rank holds the target that the alarm names, too: 16 times clock.TargetKind, plus 9 - priority (store.Rank). So no row and no index
-- changes. alarm_report shows the target; it is NULL if the alarm names none.
CREATE OR REPLACE VIEW alarm_report AS
SELECT a.id, a.application, a.business_id, a.shard,
       ELT(a.state, 'scheduled', 'ringing', 'rung', 'expired', 'dead', 'cancelled', 'paused') AS state,
       a.generation,
       CAST(TIMESTAMPADD(MICROSECOND, a.target_ring_at * 1000, '1970-01-01') AS DATETIME(3)) AS target_ring_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.latest_ring_at * 1000, '1970-01-01') AS DATETIME(3)) AS latest_ring_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.next_try_time * 1000, '1970-01-01') AS DATETIME(3)) AS next_try_time,
       a.rung_at - a.target_ring_at AS lateness_ms,
       a.ring_no, a.retry_times, a.last_error, a.in_doubt, a.priority,
       CASE a.delivery WHEN 1 THEN 'at_most_once' ELSE 'at_least_once' END AS delivery,
       LENGTH(a.payload) AS payload_bytes,
       CAST(TIMESTAMPADD(MICROSECOND, a.rung_at * 1000, '1970-01-01') AS DATETIME(3)) AS rung_at,
       ELT(a.answer, 'ack', 'release', 'bury', 'touch') AS answer,
       NULLIF(a.answered_by, '') AS answered_by,
       CAST(TIMESTAMPADD(MICROSECOND, a.answered_at * 1000, '1970-01-01') AS DATETIME(3)) AS answered_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.create_time * 1000, '1970-01-01') AS DATETIME(3)) AS create_time,
       CAST(TIMESTAMPADD(MICROSECOND, a.update_time * 1000, '1970-01-01') AS DATETIME(3)) AS update_time,
       CAST(TIMESTAMPADD(MICROSECOND, a.finished_at * 1000, '1970-01-01') AS DATETIME(3)) AS finished_at,
       CASE a.due_rank DIV 16 WHEN 1 THEN 'amqp' WHEN 2 THEN 'stream' WHEN 3 THEN 'webhook' WHEN 4 THEN 'kafka' WHEN 5 THEN 'grpc'
                  WHEN 6 THEN 'pull' END AS target
FROM alarm a;

-- +goose Down
DROP VIEW alarm_report;
CREATE VIEW alarm_report AS
SELECT a.id, a.application, a.business_id, a.shard,
       ELT(a.state, 'scheduled', 'ringing', 'rung', 'expired', 'dead', 'cancelled', 'paused') AS state,
       a.generation,
       CAST(TIMESTAMPADD(MICROSECOND, a.target_ring_at * 1000, '1970-01-01') AS DATETIME(3)) AS target_ring_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.latest_ring_at * 1000, '1970-01-01') AS DATETIME(3)) AS latest_ring_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.next_try_time * 1000, '1970-01-01') AS DATETIME(3)) AS next_try_time,
       a.rung_at - a.target_ring_at AS lateness_ms,
       a.ring_no, a.retry_times, a.last_error, a.in_doubt, a.priority,
       CASE a.delivery WHEN 1 THEN 'at_most_once' ELSE 'at_least_once' END AS delivery,
       LENGTH(a.payload) AS payload_bytes,
       CAST(TIMESTAMPADD(MICROSECOND, a.rung_at * 1000, '1970-01-01') AS DATETIME(3)) AS rung_at,
       ELT(a.answer, 'ack', 'release', 'bury', 'touch') AS answer,
       NULLIF(a.answered_by, '') AS answered_by,
       CAST(TIMESTAMPADD(MICROSECOND, a.answered_at * 1000, '1970-01-01') AS DATETIME(3)) AS answered_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.create_time * 1000, '1970-01-01') AS DATETIME(3)) AS create_time,
       CAST(TIMESTAMPADD(MICROSECOND, a.update_time * 1000, '1970-01-01') AS DATETIME(3)) AS update_time,
       CAST(TIMESTAMPADD(MICROSECOND, a.finished_at * 1000, '1970-01-01') AS DATETIME(3)) AS finished_at
FROM alarm a;
