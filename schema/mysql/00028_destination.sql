-- +goose Up
-- side by side: no, because an older build takes the due_rank of an alarm with a destination for unreadable, and ends
-- the alarm. The server copies the table, and writes of alarms wait meanwhile.

UPDATE build_level SET oldest = 4;

-- Name of the destination that the alarm names. Its number is in due_rank: store.Rank.
ALTER TABLE alarm ADD COLUMN destination VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '';

-- sqlc would take a column that ALTER TABLE modifies for the last one.
PREPARE widen FROM 'ALTER TABLE alarm MODIFY COLUMN due_rank SMALLINT NOT NULL DEFAULT 9';
EXECUTE widen;
DEALLOCATE PREPARE widen;

-- The target in alarm_report has the name of the destination.
DROP VIEW alarm_report;
CREATE VIEW alarm_report AS
SELECT a.id, a.application, a.business_id, a.shard,
       ELT(a.state, 'scheduled', 'ringing', 'rung', 'expired', 'dead', 'cancelled', 'paused') AS state,
       a.generation,
       CAST(TIMESTAMPADD(MICROSECOND, a.target_ring_at * 1000, '1970-01-01') AS DATETIME(3)) AS target_ring_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.latest_ring_at * 1000, '1970-01-01') AS DATETIME(3)) AS latest_ring_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.next_try_time * 1000, '1970-01-01') AS DATETIME(3)) AS next_try_time,
       CASE WHEN a.repeat_state = '' THEN a.rung_at - a.target_ring_at
            ELSE CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.late') AS SIGNED) END AS lateness_ms,
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
       CONCAT(CASE a.due_rank DIV 16 % 8 WHEN 1 THEN 'amqp' WHEN 2 THEN 'stream' WHEN 3 THEN 'webhook' WHEN 4 THEN 'kafka' WHEN 5 THEN 'grpc'
                  WHEN 6 THEN 'pull'
                  ELSE NULLIF(CONCAT('target ', a.due_rank DIV 16 % 8), 'target 0') END,
              IF(a.destination = '', '', CONCAT('/', a.destination))) AS target,
       NULLIF(a.repeat_rule, '') AS repeat_rule,
       CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.n') AS SIGNED) AS occurrence,
       CAST(TIMESTAMPADD(MICROSECOND, CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.at') AS SIGNED) * 1000, '1970-01-01') AS DATETIME(3)) AS occurrence_at,
       CAST(TIMESTAMPADD(MICROSECOND, CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.next_at') AS SIGNED) * 1000, '1970-01-01') AS DATETIME(3)) AS next_occurrence_at,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.rung') AS SIGNED), 0) END AS occurrences_rung,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.missed') AS SIGNED), 0) END AS occurrences_missed,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.skipped') AS SIGNED), 0) END AS occurrences_skipped,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.failed') AS SIGNED), 0) END AS occurrences_failed,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.late_max') AS SIGNED), 0) END AS lateness_max_ms,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.late_sum') AS SIGNED), 0) END AS lateness_sum_ms,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.outside') AS SIGNED), 0) END AS occurrences_outside_window,
       CAST(TIMESTAMPADD(MICROSECOND, CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.prev_at') AS SIGNED) * 1000, '1970-01-01') AS DATETIME(3)) AS previous_occurrence_at
FROM alarm a;
