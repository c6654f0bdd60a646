-- +goose Up
-- side by side: no, because an older build takes the due_rank of an alarm with a destination for unreadable, and ends the alarm.

UPDATE build_level SET oldest = 4;

-- Name of the destination that the alarm names. Its number is in due_rank: store.Rank.
ALTER TABLE alarm ADD COLUMN destination VARCHAR(64) COLLATE "C" NOT NULL DEFAULT '';

-- The target in alarm_report has the name of the destination.
CREATE OR REPLACE VIEW alarm_report AS
SELECT a.id, a.application, a.business_id, a.shard,
       CASE a.state WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ringing' WHEN 3 THEN 'rung' WHEN 4 THEN 'expired' WHEN 5 THEN 'dead'
                    WHEN 6 THEN 'cancelled' WHEN 7 THEN 'paused' END AS state,
       a.generation,
       (TIMESTAMP '1970-01-01' + a.target_ring_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS target_ring_at,
       (TIMESTAMP '1970-01-01' + a.latest_ring_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS latest_ring_at,
       (TIMESTAMP '1970-01-01' + a.next_try_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS next_try_time,
       CASE WHEN a.repeat_state = '' THEN a.rung_at - a.target_ring_at
            ELSE (NULLIF(a.repeat_state, '')::json ->> 'late')::BIGINT END AS lateness_ms,
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
       (CASE a.due_rank / 16 % 8 WHEN 1 THEN 'amqp' WHEN 2 THEN 'stream' WHEN 3 THEN 'webhook' WHEN 4 THEN 'kafka' WHEN 5 THEN 'grpc'
                  WHEN 6 THEN 'pull'
                  ELSE NULLIF('target ' || (a.due_rank / 16 % 8), 'target 0') END
           || CASE WHEN a.destination <> '' THEN '/' || a.destination ELSE '' END) COLLATE "default" AS target,
       NULLIF(a.repeat_rule, '') AS repeat_rule,
       (NULLIF(a.repeat_state, '')::json ->> 'n')::BIGINT AS occurrence,
       (TIMESTAMP '1970-01-01' + (NULLIF(a.repeat_state, '')::json ->> 'at')::BIGINT * INTERVAL '1 millisecond')::TIMESTAMP(3) AS occurrence_at,
       (TIMESTAMP '1970-01-01' + (NULLIF(a.repeat_state, '')::json ->> 'next_at')::BIGINT * INTERVAL '1 millisecond')::TIMESTAMP(3) AS next_occurrence_at,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'rung')::BIGINT, 0) END AS occurrences_rung,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'missed')::BIGINT, 0) END AS occurrences_missed,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'skipped')::BIGINT, 0) END AS occurrences_skipped,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'failed')::BIGINT, 0) END AS occurrences_failed,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'late_max')::BIGINT, 0) END AS lateness_max_ms,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'late_sum')::BIGINT, 0) END AS lateness_sum_ms,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'outside')::BIGINT, 0) END AS occurrences_outside_window,
       (TIMESTAMP '1970-01-01' + (NULLIF(a.repeat_state, '')::json ->> 'prev_at')::BIGINT * INTERVAL '1 millisecond')::TIMESTAMP(3) AS previous_occurrence_at
FROM alarm a;
