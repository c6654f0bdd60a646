-- +goose Up
-- Adds the answers to rings, the delivery mode, and due_rank: of alarms due at one instant the highest priority rings first.
DROP VIEW retry_report;
DROP VIEW alarm_report;
ALTER TABLE alarm
    ADD COLUMN answer      SMALLINT     NOT NULL DEFAULT 0, -- clock.AnswerKind
    ADD COLUMN answered_by VARCHAR(128) COLLATE "C" NOT NULL DEFAULT '',
    ADD COLUMN answered_at BIGINT       NULL,
    ADD COLUMN delivery    SMALLINT     NOT NULL DEFAULT 0, -- clock.DeliveryMode
    ADD COLUMN due_rank    SMALLINT     NOT NULL DEFAULT 9; -- 9 - priority
UPDATE alarm SET due_rank = 9 - priority WHERE priority <> 0;
DROP INDEX alarm_due;
-- Only alarms with a next_try_time: a rung alarm leaves the index.
CREATE INDEX alarm_due ON alarm (shard, next_try_time, due_rank, id) INCLUDE (application) WHERE next_try_time IS NOT NULL;
ALTER TABLE ring_attempt ADD COLUMN answered_by VARCHAR(128) COLLATE "C" NOT NULL DEFAULT '';

-- Every alarm, for people. States, answers and modes have names; times are UTC. answer is NULL until an application has answered.
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

-- Alarms with retries, alarms whose last try is in doubt, and alarms with a ring that was not acknowledged. Each has the number of tries,
-- the outcome of the last try, and the last answer.
CREATE VIEW retry_report AS
SELECT a.id, a.application, a.business_id,
       CASE a.state WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ringing' WHEN 3 THEN 'rung' WHEN 4 THEN 'expired' WHEN 5 THEN 'dead'
                    WHEN 6 THEN 'cancelled' WHEN 7 THEN 'paused' END AS state,
       a.generation,
       (TIMESTAMP '1970-01-01' + a.target_ring_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS target_ring_at,
       (TIMESTAMP '1970-01-01' + a.next_try_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS next_try_time,
       a.retry_times, a.in_doubt, a.last_error,
       (SELECT count(*) FROM ring_attempt r WHERE r.alarm_id = a.id) AS attempts,
       CASE l.outcome WHEN 1 THEN 'confirmed' WHEN 2 THEN 'returned' WHEN 3 THEN 'nacked' WHEN 4 THEN 'in_doubt'
                      WHEN 5 THEN 'refused' WHEN 6 THEN 'unsent' WHEN 7 THEN 'untaken' WHEN 8 THEN 'released'
                      WHEN 9 THEN 'buried' WHEN 10 THEN 'unacknowledged' END AS last_outcome,
       (TIMESTAMP '1970-01-01' + l.attempt_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS last_attempt_time,
       a.ring_no,
       CASE a.answer WHEN 1 THEN 'ack' WHEN 2 THEN 'release' WHEN 3 THEN 'bury' WHEN 4 THEN 'touch' END AS answer,
       NULLIF(a.answered_by, '') AS answered_by,
       (TIMESTAMP '1970-01-01' + a.answered_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS answered_at
FROM alarm a
LEFT JOIN ring_attempt l ON l.id = (SELECT max(r.id) FROM ring_attempt r WHERE r.alarm_id = a.id)
WHERE a.retry_times > 0 OR a.in_doubt <> 0
   OR EXISTS (SELECT 1 FROM ring_attempt r WHERE r.alarm_id = a.id AND r.generation = a.generation AND r.outcome >= 8);

-- +goose Down
DROP VIEW retry_report;
DROP VIEW alarm_report;
ALTER TABLE ring_attempt DROP COLUMN answered_by;
DROP INDEX alarm_due;
CREATE INDEX alarm_due ON alarm (shard, next_try_time, id) INCLUDE (application) WHERE next_try_time IS NOT NULL;
ALTER TABLE alarm
    DROP COLUMN due_rank, DROP COLUMN delivery, DROP COLUMN answered_at, DROP COLUMN answered_by, DROP COLUMN answer;

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
       octet_length(a.payload) AS payload_bytes,
       (TIMESTAMP '1970-01-01' + a.rung_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS rung_at,
       (TIMESTAMP '1970-01-01' + a.create_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS create_time,
       (TIMESTAMP '1970-01-01' + a.update_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS update_time,
       (TIMESTAMP '1970-01-01' + a.finished_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS finished_at
FROM alarm a;

CREATE VIEW retry_report AS
SELECT a.id, a.application, a.business_id,
       CASE a.state WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ringing' WHEN 3 THEN 'rung' WHEN 4 THEN 'expired' WHEN 5 THEN 'dead'
                    WHEN 6 THEN 'cancelled' WHEN 7 THEN 'paused' END AS state,
       a.generation,
       (TIMESTAMP '1970-01-01' + a.target_ring_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS target_ring_at,
       (TIMESTAMP '1970-01-01' + a.next_try_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS next_try_time,
       a.retry_times, a.in_doubt, a.last_error,
       (SELECT count(*) FROM ring_attempt r WHERE r.alarm_id = a.id) AS attempts,
       CASE l.outcome WHEN 1 THEN 'confirmed' WHEN 2 THEN 'returned' WHEN 3 THEN 'nacked' WHEN 4 THEN 'in_doubt'
                      WHEN 5 THEN 'refused' WHEN 6 THEN 'unsent' END AS last_outcome,
       (TIMESTAMP '1970-01-01' + l.attempt_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS last_attempt_time
FROM alarm a
LEFT JOIN ring_attempt l ON l.id = (SELECT max(r.id) FROM ring_attempt r WHERE r.alarm_id = a.id)
WHERE a.retry_times > 0 OR a.in_doubt <> 0;
