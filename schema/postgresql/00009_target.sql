-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the targets that alarms name, and rings no alarm of an application
-- whose settings allow them: it cannot read these settings.
-- due_rank holds the target that the alarm names, too: 16 times clock.TargetKind, plus 9 - priority (store.Rank). So no row and no index
-- changes. alarm_report shows the target; it is NULL if the alarm names none.
CREATE OR REPLACE VIEW alarm_report AS
SELECT a.id, a.application, a.business_id, a.shard,
       CASE a.state WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ringing' WHEN 3 THEN 'rung' WHEN 4 THEN 'expired' WHEN 5 THEN 'dead'
                    WHEN 6 THEN 'cancelled' WHEN 7 THEN 'paused' END AS state,
       a.generation,
       (TIMESTAMP '1970-01-01' + a.target_ring_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS target_ring_at,
       (TIMESTAMP '1970-01-01' + a.latest_ring_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS latest_ring_at,
       (TIMESTAMP '1970-01-01' + a.next_try_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS next_try_time,
       a.rung_at - a.target_ring_at AS lateness_ms,
       a.ring_no, a.retry_times, a.last_error, a.in_doubt, a.priority,
       CASE a.delivery WHEN 1 THEN 'at_most_once' ELSE 'at_least_once' END AS delivery,
       octet_length(a.payload) AS payload_bytes,
       (TIMESTAMP '1970-01-01' + a.rung_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS rung_at,
       CASE a.answer WHEN 1 THEN 'ack' WHEN 2 THEN 'release' WHEN 3 THEN 'bury' WHEN 4 THEN 'touch' END AS answer,
       NULLIF(a.answered_by, '') AS answered_by,
       (TIMESTAMP '1970-01-01' + a.answered_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS answered_at,
       (TIMESTAMP '1970-01-01' + a.create_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS create_time,
       (TIMESTAMP '1970-01-01' + a.update_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS update_time,
       (TIMESTAMP '1970-01-01' + a.finished_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS finished_at,
       CASE a.due_rank / 16 WHEN 1 THEN 'amqp' WHEN 2 THEN 'stream' WHEN 3 THEN 'webhook' WHEN 4 THEN 'kafka' WHEN 5 THEN 'grpc'
                  WHEN 6 THEN 'pull' END AS target
FROM alarm a;

-- +goose Down
DROP VIEW alarm_report;
CREATE VIEW alarm_report AS
SELECT a.id, a.application, a.business_id, a.shard,
       CASE a.state WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ringing' WHEN 3 THEN 'rung' WHEN 4 THEN 'expired' WHEN 5 THEN 'dead'
                    WHEN 6 THEN 'cancelled' WHEN 7 THEN 'paused' END AS state,
       a.generation,
       (TIMESTAMP '1970-01-01' + a.target_ring_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS target_ring_at,
       (TIMESTAMP '1970-01-01' + a.latest_ring_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS latest_ring_at,
       (TIMESTAMP '1970-01-01' + a.next_try_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS next_try_time,
       a.rung_at - a.target_ring_at AS lateness_ms,
       a.ring_no, a.retry_times, a.last_error, a.in_doubt, a.priority,
       CASE a.delivery WHEN 1 THEN 'at_most_once' ELSE 'at_least_once' END AS delivery,
       octet_length(a.payload) AS payload_bytes,
       (TIMESTAMP '1970-01-01' + a.rung_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS rung_at,
       CASE a.answer WHEN 1 THEN 'ack' WHEN 2 THEN 'release' WHEN 3 THEN 'bury' WHEN 4 THEN 'touch' END AS answer,
       NULLIF(a.answered_by, '') AS answered_by,
       (TIMESTAMP '1970-01-01' + a.answered_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS answered_at,
       (TIMESTAMP '1970-01-01' + a.create_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS create_time,
       (TIMESTAMP '1970-01-01' + a.update_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS update_time,
       (TIMESTAMP '1970-01-01' + a.finished_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS finished_at
FROM alarm a;
