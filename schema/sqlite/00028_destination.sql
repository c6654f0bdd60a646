-- +goose Up
-- side by side: no, because an older build takes the due_rank of an alarm with a destination for unreadable, and ends
-- the alarm.

UPDATE build_level SET oldest = 4;

-- Name of the destination that the alarm names. Its number is in due_rank: store.Rank.
ALTER TABLE alarm ADD COLUMN destination TEXT NOT NULL DEFAULT '';

-- The target in alarm_report has the name of the destination.
DROP VIEW alarm_report;
CREATE VIEW alarm_report AS
SELECT a.id, a.application, a.business_id, a.shard,
       CASE a.state WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ringing' WHEN 3 THEN 'rung' WHEN 4 THEN 'expired' WHEN 5 THEN 'dead'
                    WHEN 6 THEN 'cancelled' WHEN 7 THEN 'paused' END AS state,
       a.generation,
       datetime(a.target_ring_at / 1000, 'unixepoch') || printf('.%03d', a.target_ring_at % 1000) AS target_ring_at,
       datetime(a.latest_ring_at / 1000, 'unixepoch') || printf('.%03d', a.latest_ring_at % 1000) AS latest_ring_at,
       datetime(a.next_try_time / 1000, 'unixepoch') || printf('.%03d', a.next_try_time % 1000) AS next_try_time,
       CASE WHEN a.repeat_state = '' THEN a.rung_at - a.target_ring_at
            ELSE json_extract(NULLIF(a.repeat_state, ''), '$.late') END AS lateness_ms,
       a.ring_no, a.retry_times, a.last_error, a.in_doubt, a.priority,
       CASE a.delivery WHEN 1 THEN 'at_most_once' ELSE 'at_least_once' END AS delivery,
       length(a.payload) AS payload_bytes,
       datetime(a.rung_at / 1000, 'unixepoch') || printf('.%03d', a.rung_at % 1000) AS rung_at,
       CASE a.answer WHEN 1 THEN 'ack' WHEN 2 THEN 'release' WHEN 3 THEN 'bury' WHEN 4 THEN 'touch' END AS answer,
       NULLIF(a.answered_by, '') AS answered_by,
       datetime(a.answered_at / 1000, 'unixepoch') || printf('.%03d', a.answered_at % 1000) AS answered_at,
       datetime(a.create_time / 1000, 'unixepoch') || printf('.%03d', a.create_time % 1000) AS create_time,
       datetime(a.update_time / 1000, 'unixepoch') || printf('.%03d', a.update_time % 1000) AS update_time,
       datetime(a.finished_at / 1000, 'unixepoch') || printf('.%03d', a.finished_at % 1000) AS finished_at,
       CASE a.due_rank / 16 % 8 WHEN 1 THEN 'amqp' WHEN 2 THEN 'stream' WHEN 3 THEN 'webhook' WHEN 4 THEN 'kafka' WHEN 5 THEN 'grpc'
                  WHEN 6 THEN 'pull'
                  ELSE NULLIF('target ' || (a.due_rank / 16 % 8), 'target 0') END
           || CASE WHEN a.destination <> '' THEN '/' || a.destination ELSE '' END AS target,
       NULLIF(a.repeat_rule, '') AS repeat_rule,
       json_extract(NULLIF(a.repeat_state, ''), '$.n') AS occurrence,
       datetime(json_extract(NULLIF(a.repeat_state, ''), '$.at') / 1000, 'unixepoch') || printf('.%03d', json_extract(NULLIF(a.repeat_state, ''), '$.at') % 1000) AS occurrence_at,
       datetime(json_extract(NULLIF(a.repeat_state, ''), '$.next_at') / 1000, 'unixepoch') || printf('.%03d', json_extract(NULLIF(a.repeat_state, ''), '$.next_at') % 1000) AS next_occurrence_at,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.rung'), 0) END AS occurrences_rung,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.missed'), 0) END AS occurrences_missed,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.skipped'), 0) END AS occurrences_skipped,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.failed'), 0) END AS occurrences_failed,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.late_max'), 0) END AS lateness_max_ms,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.late_sum'), 0) END AS lateness_sum_ms,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.outside'), 0) END AS occurrences_outside_window,
       datetime(json_extract(NULLIF(a.repeat_state, ''), '$.prev_at') / 1000, 'unixepoch') || printf('.%03d', json_extract(NULLIF(a.repeat_state, ''), '$.prev_at') % 1000) AS previous_occurrence_at
FROM alarm a;
