-- +goose Up
-- side by side: yes, because only a new database gets it.
-- Makes a distributed database for Citus. alarm and ring_attempt become distributed tables, split by shard. A shard's rows of both are on one
-- server. A unique key of a distributed table must contain the column that the table is split by. It stands last in each key, so that
-- statements find rows by key or by id as on one server.
-- clockd gives the ids: with an identity column, an INSERT ... SELECT would not run on the worker.
ALTER TABLE alarm ALTER COLUMN id DROP IDENTITY;
ALTER TABLE alarm DROP CONSTRAINT alarm_pkey;
ALTER TABLE alarm ADD PRIMARY KEY (id, shard);
DROP INDEX alarm_key;
CREATE UNIQUE INDEX alarm_key ON alarm (application, business_id, shard);
-- The number of the newest block of ids.
CREATE SEQUENCE id_block AS BIGINT;

DROP VIEW retry_report;
ALTER TABLE ring_attempt ALTER COLUMN id DROP IDENTITY;
ALTER TABLE ring_attempt ADD COLUMN shard SMALLINT NOT NULL; -- shard of the alarm
ALTER TABLE ring_attempt DROP CONSTRAINT ring_attempt_pkey;
DROP INDEX ring_attempt_alarm;
-- Ids of one alarm's attempts are in the order of time. Two alarms may have attempts with the same id.
ALTER TABLE ring_attempt ADD PRIMARY KEY (alarm_id, id, shard);

-- One row for each shard. An INSERT ... SELECT runs on the worker if it takes the column shard from a distributed table.
CREATE TABLE gate (
    shard SMALLINT NOT NULL,
    PRIMARY KEY (shard)
);

SELECT create_distributed_table('alarm', 'shard');
SELECT create_distributed_table('ring_attempt', 'shard', colocate_with => 'alarm');
SELECT create_distributed_table('gate', 'shard', colocate_with => 'alarm');
-- A copy on each server, because statements on alarms read it.
SELECT create_reference_table('build_level');

-- zoned_alarm is split by shard, like the alarms. The shard stands last in its primary key.
ALTER TABLE zoned_alarm ADD COLUMN shard SMALLINT NOT NULL; -- shard of the alarm
ALTER TABLE zoned_alarm DROP CONSTRAINT zoned_alarm_pkey;
ALTER TABLE zoned_alarm ADD PRIMARY KEY (alarm_id, shard);
SELECT create_distributed_table('zoned_alarm', 'shard', colocate_with => 'alarm');

-- The view of schema/postgresql, with joins by shard.
CREATE VIEW retry_report AS
SELECT a.id, a.application, a.business_id,
       CASE a.state WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ringing' WHEN 3 THEN 'rung' WHEN 4 THEN 'expired' WHEN 5 THEN 'dead'
                    WHEN 6 THEN 'cancelled' WHEN 7 THEN 'paused' END AS state,
       a.generation,
       (TIMESTAMP '1970-01-01' + a.target_ring_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS target_ring_at,
       (TIMESTAMP '1970-01-01' + a.next_try_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS next_try_time,
       a.retry_times, a.in_doubt, a.last_error,
       (SELECT count(*) FROM ring_attempt r WHERE r.shard = a.shard AND r.alarm_id = a.id) AS attempts,
       CASE l.outcome WHEN 1 THEN 'confirmed' WHEN 2 THEN 'returned' WHEN 3 THEN 'nacked' WHEN 4 THEN 'in_doubt'
                      WHEN 5 THEN 'refused' WHEN 6 THEN 'unsent' WHEN 7 THEN 'untaken' WHEN 8 THEN 'released'
                      WHEN 9 THEN 'buried' WHEN 10 THEN 'unacknowledged' END AS last_outcome,
       (TIMESTAMP '1970-01-01' + l.attempt_time * INTERVAL '1 millisecond')::TIMESTAMP(3) AS last_attempt_time,
       a.ring_no,
       CASE a.answer WHEN 1 THEN 'ack' WHEN 2 THEN 'release' WHEN 3 THEN 'bury' WHEN 4 THEN 'touch' END AS answer,
       NULLIF(a.answered_by, '') AS answered_by,
       (TIMESTAMP '1970-01-01' + a.answered_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS answered_at
FROM alarm a
LEFT JOIN ring_attempt l ON l.shard = a.shard AND l.alarm_id = a.id
     AND l.id = (SELECT max(r.id) FROM ring_attempt r WHERE r.shard = a.shard AND r.alarm_id = a.id)
WHERE a.retry_times > 0 OR a.in_doubt <> 0
   OR EXISTS (SELECT 1 FROM ring_attempt r
              WHERE r.shard = a.shard AND r.alarm_id = a.id AND r.generation = a.generation AND r.outcome >= 8);
