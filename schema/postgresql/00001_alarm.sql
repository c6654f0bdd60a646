-- +goose Up
-- One row for each alarm. A test compares the columns of the three engines. Instants are epoch milliseconds, UTC.
-- Strings compare byte for byte (COLLATE "C"). So an index serves ranges and prefixes, and an update of the operating system's locales
-- cannot break it.
CREATE TABLE alarm (
    id             BIGINT       NOT NULL GENERATED ALWAYS AS IDENTITY,
    application    VARCHAR(64)  COLLATE "C" NOT NULL,
    business_id    VARCHAR(128) COLLATE "C" NOT NULL,
    shard          SMALLINT     NOT NULL,
    state          SMALLINT     NOT NULL, -- clock.State
    generation     BIGINT       NOT NULL,
    payload        BYTEA        NOT NULL,
    payload_kind   SMALLINT     NOT NULL, -- clock.PayloadKind
    content_type   VARCHAR(128) COLLATE "C" NOT NULL,
    target_ring_at BIGINT       NOT NULL,
    latest_ring_at BIGINT       NULL,     -- NULL: no limit
    next_try_time  BIGINT       NULL,     -- NULL: finished or paused
    ring_no        INTEGER      NOT NULL DEFAULT 0,
    retry_times    INTEGER      NOT NULL DEFAULT 0,
    last_error     VARCHAR(500) COLLATE "C" NOT NULL DEFAULT '',
    in_doubt       SMALLINT     NOT NULL DEFAULT 0,
    retry_policy   VARCHAR(128) COLLATE "C" NOT NULL DEFAULT '', -- '': the default policy
    ack_timeout    BIGINT       NOT NULL DEFAULT 0, -- milliseconds; 0: no acknowledgement is needed
    max_rings      INTEGER      NOT NULL,
    priority       SMALLINT     NOT NULL,
    traceparent    VARCHAR(55)  COLLATE "C" NOT NULL DEFAULT '',
    claim_id       VARCHAR(26)  COLLATE "C" NOT NULL DEFAULT '',
    rung_at        BIGINT       NULL,
    create_time    BIGINT       NOT NULL,
    update_time    BIGINT       NOT NULL,
    finished_at    BIGINT       NULL,
    PRIMARY KEY (id)
) WITH (
    -- Nearly every alarm is updated once, when it rings or is cancelled. The update is never HOT, because next_try_time is indexed. So
    -- free space for the new version saves nothing. Measured with 100,000 alarms that rang in random order: fillfactor 100, 85 and 70
    -- wrote 1,216, 1,203 and 1,206 bytes of WAL for each alarm, and left a table of 44, 44 and 53 MB. When they rang in the order of
    -- their ids, it was 1,258, 1,243 and 1,225 bytes, and 80, 86 and 94 MB.
    fillfactor = 100,
    -- Dead versions of rung alarms lie at the head of the due index, where every scan begins. So vacuum runs for every hundred thousand of
    -- them. The default, a fifth of the table, would be too late: the table keeps the finished alarms of a day.
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_threshold = 10000,
    -- The scan of due alarms needs the index alone only for pages that vacuum has marked all-visible.
    autovacuum_vacuum_insert_scale_factor = 0.02,
    autovacuum_vacuum_insert_threshold = 10000,
    autovacuum_analyze_scale_factor = 0.02,
    -- The default cost limit is too slow for 30,000 dead versions a second.
    autovacuum_vacuum_cost_limit = 2000,
    -- Truncation takes an exclusive lock of the table, and the table needs the space again at once.
    vacuum_truncate = false
);
-- Serves lookups by key, and lists in the order of keys.
CREATE UNIQUE INDEX alarm_key ON alarm (application, business_id);
-- Only alarms with a next_try_time: a rung alarm leaves the index.
CREATE INDEX alarm_due ON alarm (shard, next_try_time, id) INCLUDE (application) WHERE next_try_time IS NOT NULL;
-- Serves the purger: finished alarms, oldest first.
CREATE INDEX alarm_finished ON alarm (finished_at, id) WHERE finished_at IS NOT NULL;

-- Tries without a confirm. A confirmed ring writes nothing here. Rows are never updated, so pages are filled.
CREATE TABLE ring_attempt (
    id           BIGINT       NOT NULL GENERATED ALWAYS AS IDENTITY,
    alarm_id     BIGINT       NOT NULL,
    generation   BIGINT       NOT NULL,
    ring_no      INTEGER      NOT NULL,
    claim_id     VARCHAR(26)  COLLATE "C" NOT NULL,
    attempt_time BIGINT       NOT NULL,
    outcome      SMALLINT     NOT NULL, -- clock.OutcomeKind
    error        VARCHAR(500) COLLATE "C" NOT NULL,
    PRIMARY KEY (id)
) WITH (
    -- Rows are pruned and purged as fast as they are written.
    autovacuum_vacuum_scale_factor = 0.05,
    autovacuum_vacuum_threshold = 10000,
    vacuum_truncate = false
);
CREATE INDEX ring_attempt_alarm ON ring_attempt (alarm_id, id);

-- The lease of each shard: its owner loads and rings the shard. The rows are inserted when the shard count is fixed.
CREATE TABLE shard (
    shard       SMALLINT     NOT NULL,
    owner       VARCHAR(128) COLLATE "C" NOT NULL DEFAULT '',
    incarnation VARCHAR(26)  COLLATE "C" NOT NULL DEFAULT '',
    epoch       BIGINT       NOT NULL DEFAULT 0,
    expires     BIGINT       NOT NULL DEFAULT 0,
    PRIMARY KEY (shard)
) WITH (
    -- Few rows, each renewed every few seconds. With half of each page free all renewals are HOT, and they remove dead versions themselves.
    fillfactor = 50
);

-- Every alarm, for people. States have names; times are UTC.
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

-- Alarms with retries, and alarms whose last try is in doubt, with the number of tries and the outcome of the last try.
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

-- +goose Down
DROP VIEW retry_report;
DROP VIEW alarm_report;
DROP TABLE shard;
DROP TABLE ring_attempt;
DROP TABLE alarm;
