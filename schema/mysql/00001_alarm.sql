-- +goose Up
-- One row for each alarm. A test compares the columns of the three engines. Instants are epoch milliseconds, UTC.
CREATE TABLE alarm (
    id             BIGINT       NOT NULL AUTO_INCREMENT,
    application    VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    business_id    VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    shard          SMALLINT     NOT NULL,
    state          TINYINT      NOT NULL, -- clock.State
    generation     BIGINT       NOT NULL,
    payload        MEDIUMBLOB   NOT NULL,
    payload_kind   TINYINT      NOT NULL, -- clock.PayloadKind
    content_type   VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    target_ring_at BIGINT       NOT NULL,
    latest_ring_at BIGINT       NULL,     -- NULL: no limit
    next_try_time  BIGINT       NULL,     -- NULL: finished or paused
    ring_no        INT          NOT NULL DEFAULT 0,
    retry_times    INT          NOT NULL DEFAULT 0,
    last_error     VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    in_doubt       TINYINT      NOT NULL DEFAULT 0,
    retry_policy   VARCHAR(128) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- '': the default policy
    ack_timeout    BIGINT       NOT NULL DEFAULT 0, -- milliseconds; 0: no acknowledgement is needed
    max_rings      INT          NOT NULL,
    priority       TINYINT      NOT NULL,
    traceparent    VARCHAR(55)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    claim_id       VARCHAR(26)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    rung_at        BIGINT       NULL,
    create_time    BIGINT       NOT NULL,
    update_time    BIGINT       NOT NULL,
    finished_at    BIGINT       NULL,
    PRIMARY KEY (id),
    UNIQUE KEY alarm_key (application, business_id),
    KEY alarm_due (shard, next_try_time, id, application),
    KEY alarm_finished (finished_at, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Tries without a confirm. A confirmed ring writes nothing here. The newest attempt has the highest id: AUTO_ID_CACHE 1 makes it so on
-- TiDB, whose servers would otherwise give out ids of ranges of their own.
CREATE TABLE ring_attempt (
    id           BIGINT       NOT NULL AUTO_INCREMENT,
    alarm_id     BIGINT       NOT NULL,
    generation   BIGINT       NOT NULL,
    ring_no      INT          NOT NULL,
    claim_id     VARCHAR(26)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    attempt_time BIGINT       NOT NULL,
    outcome      TINYINT      NOT NULL, -- clock.OutcomeKind
    error        VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (id),
    KEY ring_attempt_alarm (alarm_id, id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 /*T![auto_id_cache] AUTO_ID_CACHE 1 */;

-- The lease of each shard: its owner loads and rings the shard. The rows are inserted when the shard count is fixed.
CREATE TABLE shard (
    shard       SMALLINT     NOT NULL,
    owner       VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    incarnation VARCHAR(26)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    epoch       BIGINT       NOT NULL DEFAULT 0,
    expires     BIGINT       NOT NULL DEFAULT 0,
    PRIMARY KEY (shard)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Every alarm, for people. States have names; times are UTC in every session time zone.
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

-- Alarms with retries, and alarms whose last try is in doubt, with the number of tries and the outcome of the last try.
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

-- +goose Down
DROP VIEW retry_report;
DROP VIEW alarm_report;
DROP TABLE shard;
DROP TABLE ring_attempt;
DROP TABLE alarm;
