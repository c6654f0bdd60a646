-- +goose Up
-- Adds the answers to rings, the delivery mode, and due_rank: of alarms due at one instant the highest priority rings first.
DROP VIEW retry_report;
DROP VIEW alarm_report;
ALTER TABLE alarm
    ADD COLUMN answer      TINYINT      NOT NULL DEFAULT 0, -- clock.AnswerKind
    ADD COLUMN answered_by VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    ADD COLUMN answered_at BIGINT       NULL,
    ADD COLUMN delivery    TINYINT      NOT NULL DEFAULT 0, -- clock.DeliveryMode
    ADD COLUMN due_rank    TINYINT      NOT NULL DEFAULT 9; -- 9 - priority
UPDATE alarm SET due_rank = 9 - priority WHERE priority <> 0;
ALTER TABLE alarm DROP KEY alarm_due;
ALTER TABLE alarm ADD KEY alarm_due (shard, next_try_time, due_rank, id, application);
ALTER TABLE ring_attempt
    ADD COLUMN answered_by VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '';

-- Every alarm, for people. States, answers and modes have names; times are UTC in every session time zone. answer is NULL until an
-- application has answered.
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

-- Alarms with retries, alarms whose last try is in doubt, and alarms with a ring that was not acknowledged. Each has the number of tries,
-- the outcome of the last try, and the last answer.
CREATE VIEW retry_report AS
SELECT a.id, a.application, a.business_id,
       ELT(a.state, 'scheduled', 'ringing', 'rung', 'expired', 'dead', 'cancelled', 'paused') AS state,
       a.generation,
       CAST(TIMESTAMPADD(MICROSECOND, a.target_ring_at * 1000, '1970-01-01') AS DATETIME(3)) AS target_ring_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.next_try_time * 1000, '1970-01-01') AS DATETIME(3)) AS next_try_time,
       a.retry_times, a.in_doubt, a.last_error,
       (SELECT COUNT(*) FROM ring_attempt r WHERE r.alarm_id = a.id) AS attempts,
       ELT(l.outcome, 'confirmed', 'returned', 'nacked', 'in_doubt', 'refused', 'unsent', 'untaken', 'released', 'buried', 'unacknowledged') AS last_outcome,
       CAST(TIMESTAMPADD(MICROSECOND, l.attempt_time * 1000, '1970-01-01') AS DATETIME(3)) AS last_attempt_time,
       a.ring_no,
       ELT(a.answer, 'ack', 'release', 'bury', 'touch') AS answer,
       NULLIF(a.answered_by, '') AS answered_by,
       CAST(TIMESTAMPADD(MICROSECOND, a.answered_at * 1000, '1970-01-01') AS DATETIME(3)) AS answered_at
FROM alarm a
LEFT JOIN ring_attempt l ON l.alarm_id = a.id
WHERE (l.id IS NULL OR l.id = (SELECT MAX(r.id) FROM ring_attempt r WHERE r.alarm_id = a.id))
  AND (a.retry_times > 0 OR a.in_doubt <> 0
       OR EXISTS (SELECT 1 FROM ring_attempt r WHERE r.alarm_id = a.id AND r.generation = a.generation AND r.outcome >= 8));

-- +goose Down
DROP VIEW retry_report;
DROP VIEW alarm_report;
ALTER TABLE ring_attempt DROP COLUMN answered_by;
ALTER TABLE alarm DROP KEY alarm_due;
ALTER TABLE alarm ADD KEY alarm_due (shard, next_try_time, id, application);
ALTER TABLE alarm
    DROP COLUMN due_rank, DROP COLUMN delivery, DROP COLUMN answered_at, DROP COLUMN answered_by, DROP COLUMN answer;

CREATE VIEW alarm_report AS
SELECT a.id, a.application, a.business_id, a.shard,
       ELT(a.state, 'scheduled', 'ringing', 'rung', 'expired', 'dead', 'cancelled', 'paused') AS state,
       a.generation,
       CAST(TIMESTAMPADD(MICROSECOND, a.target_ring_at * 1000, '1970-01-01') AS DATETIME(3)) AS target_ring_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.latest_ring_at * 1000, '1970-01-01') AS DATETIME(3)) AS latest_ring_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.next_try_time * 1000, '1970-01-01') AS DATETIME(3)) AS next_try_time,
       a.rung_at - a.target_ring_at AS lateness_ms,
       a.ring_no, a.retry_times, a.last_error, a.in_doubt, a.priority,
       LENGTH(a.payload) AS payload_bytes,
       CAST(TIMESTAMPADD(MICROSECOND, a.rung_at * 1000, '1970-01-01') AS DATETIME(3)) AS rung_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.create_time * 1000, '1970-01-01') AS DATETIME(3)) AS create_time,
       CAST(TIMESTAMPADD(MICROSECOND, a.update_time * 1000, '1970-01-01') AS DATETIME(3)) AS update_time,
       CAST(TIMESTAMPADD(MICROSECOND, a.finished_at * 1000, '1970-01-01') AS DATETIME(3)) AS finished_at
FROM alarm a;

CREATE VIEW retry_report AS
SELECT a.id, a.application, a.business_id,
       ELT(a.state, 'scheduled', 'ringing', 'rung', 'expired', 'dead', 'cancelled', 'paused') AS state,
       a.generation,
       CAST(TIMESTAMPADD(MICROSECOND, a.target_ring_at * 1000, '1970-01-01') AS DATETIME(3)) AS target_ring_at,
       CAST(TIMESTAMPADD(MICROSECOND, a.next_try_time * 1000, '1970-01-01') AS DATETIME(3)) AS next_try_time,
       a.retry_times, a.in_doubt, a.last_error,
       (SELECT COUNT(*) FROM ring_attempt r WHERE r.alarm_id = a.id) AS attempts,
       ELT(l.outcome, 'confirmed', 'returned', 'nacked', 'in_doubt', 'refused', 'unsent') AS last_outcome,
       CAST(TIMESTAMPADD(MICROSECOND, l.attempt_time * 1000, '1970-01-01') AS DATETIME(3)) AS last_attempt_time
FROM alarm a
LEFT JOIN ring_attempt l ON l.alarm_id = a.id
WHERE (l.id IS NULL OR l.id = (SELECT MAX(r.id) FROM ring_attempt r WHERE r.alarm_id = a.id))
  AND (a.retry_times > 0 OR a.in_doubt <> 0);
