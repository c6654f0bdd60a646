-- +goose Up
-- One row for each alarm. A test compares the columns of the three engines. Instants are epoch milliseconds, UTC.
-- Text compares byte for byte. AUTOINCREMENT never reuses an id, because message ids contain it.
CREATE TABLE alarm (
    id             INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    application    TEXT    NOT NULL,
    business_id    TEXT    NOT NULL,
    shard          INTEGER NOT NULL,
    state          INTEGER NOT NULL, -- clock.State
    generation     INTEGER NOT NULL,
    payload        BLOB    NOT NULL,
    payload_kind   INTEGER NOT NULL, -- clock.PayloadKind
    content_type   TEXT    NOT NULL,
    target_ring_at INTEGER NOT NULL,
    latest_ring_at INTEGER,          -- NULL: no limit
    next_try_time  INTEGER,          -- NULL: finished or paused
    ring_no        INTEGER NOT NULL DEFAULT 0,
    retry_times    INTEGER NOT NULL DEFAULT 0,
    last_error     TEXT    NOT NULL DEFAULT '',
    in_doubt       INTEGER NOT NULL DEFAULT 0,
    retry_policy   TEXT    NOT NULL DEFAULT '', -- '': the default policy
    ack_timeout    INTEGER NOT NULL DEFAULT 0, -- milliseconds; 0: no acknowledgement is needed
    max_rings      INTEGER NOT NULL,
    priority       INTEGER NOT NULL,
    traceparent    TEXT    NOT NULL DEFAULT '',
    claim_id       TEXT    NOT NULL DEFAULT '',
    rung_at        INTEGER,
    create_time    INTEGER NOT NULL,
    update_time    INTEGER NOT NULL,
    finished_at    INTEGER
) STRICT;
-- Serves lookups by key, and lists in the order of keys.
CREATE UNIQUE INDEX alarm_key ON alarm (application, business_id);
-- Only alarms with a next_try_time: a rung alarm leaves the index.
CREATE INDEX alarm_due ON alarm (shard, next_try_time, id, application) WHERE next_try_time IS NOT NULL;
-- Serves the purger: finished alarms, oldest first.
CREATE INDEX alarm_finished ON alarm (finished_at, id) WHERE finished_at IS NOT NULL;

-- Tries without a confirm. A confirmed ring writes nothing here.
CREATE TABLE ring_attempt (
    id           INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    alarm_id     INTEGER NOT NULL,
    generation   INTEGER NOT NULL,
    ring_no      INTEGER NOT NULL,
    claim_id     TEXT    NOT NULL,
    attempt_time INTEGER NOT NULL,
    outcome      INTEGER NOT NULL, -- clock.OutcomeKind
    error        TEXT    NOT NULL
) STRICT;
CREATE INDEX ring_attempt_alarm ON ring_attempt (alarm_id, id);

-- The lease of each shard: its owner loads and rings the shard. The rows are inserted when the shard count is fixed.
CREATE TABLE shard (
    shard       INTEGER NOT NULL PRIMARY KEY,
    owner       TEXT    NOT NULL DEFAULT '',
    incarnation TEXT    NOT NULL DEFAULT '',
    epoch       INTEGER NOT NULL DEFAULT 0,
    expires     INTEGER NOT NULL DEFAULT 0
) STRICT;

-- Every alarm, for people. States have names; times are UTC, in a form that compares with datetime().
CREATE VIEW alarm_report AS
SELECT a.id, a.application, a.business_id, a.shard,
       CASE a.state WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ringing' WHEN 3 THEN 'rung' WHEN 4 THEN 'expired' WHEN 5 THEN 'dead'
                    WHEN 6 THEN 'cancelled' WHEN 7 THEN 'paused' END AS state,
       a.generation,
       datetime(a.target_ring_at / 1000, 'unixepoch') || printf('.%03d', a.target_ring_at % 1000) AS target_ring_at,
       datetime(a.latest_ring_at / 1000, 'unixepoch') || printf('.%03d', a.latest_ring_at % 1000) AS latest_ring_at,
       datetime(a.next_try_time / 1000, 'unixepoch') || printf('.%03d', a.next_try_time % 1000) AS next_try_time,
       a.rung_at - a.target_ring_at AS lateness_ms,
       a.ring_no, a.retry_times, a.last_error, a.in_doubt, a.priority,
       length(a.payload) AS payload_bytes,
       datetime(a.rung_at / 1000, 'unixepoch') || printf('.%03d', a.rung_at % 1000) AS rung_at,
       datetime(a.create_time / 1000, 'unixepoch') || printf('.%03d', a.create_time % 1000) AS create_time,
       datetime(a.update_time / 1000, 'unixepoch') || printf('.%03d', a.update_time % 1000) AS update_time,
       datetime(a.finished_at / 1000, 'unixepoch') || printf('.%03d', a.finished_at % 1000) AS finished_at
FROM alarm a;

-- Alarms with retries, and alarms whose last try is in doubt, with the number of tries and the outcome of the last try.
CREATE VIEW retry_report AS
SELECT a.id, a.application, a.business_id,
       CASE a.state WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ringing' WHEN 3 THEN 'rung' WHEN 4 THEN 'expired' WHEN 5 THEN 'dead'
                    WHEN 6 THEN 'cancelled' WHEN 7 THEN 'paused' END AS state,
       a.generation,
       datetime(a.target_ring_at / 1000, 'unixepoch') || printf('.%03d', a.target_ring_at % 1000) AS target_ring_at,
       datetime(a.next_try_time / 1000, 'unixepoch') || printf('.%03d', a.next_try_time % 1000) AS next_try_time,
       a.retry_times, a.in_doubt, a.last_error,
       (SELECT COUNT(*) FROM ring_attempt r WHERE r.alarm_id = a.id) AS attempts,
       CASE l.outcome WHEN 1 THEN 'confirmed' WHEN 2 THEN 'returned' WHEN 3 THEN 'nacked' WHEN 4 THEN 'in_doubt'
                      WHEN 5 THEN 'refused' WHEN 6 THEN 'unsent' END AS last_outcome,
       datetime(l.attempt_time / 1000, 'unixepoch') || printf('.%03d', l.attempt_time % 1000) AS last_attempt_time
FROM alarm a
LEFT JOIN ring_attempt l ON l.id = (SELECT MAX(r.id) FROM ring_attempt r WHERE r.alarm_id = a.id)
WHERE a.retry_times > 0 OR a.in_doubt <> 0;

-- +goose Down
DROP VIEW retry_report;
DROP VIEW alarm_report;
DROP TABLE shard;
DROP TABLE ring_attempt;
DROP TABLE alarm;
