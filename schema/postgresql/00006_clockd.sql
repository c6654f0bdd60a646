-- +goose Up
-- side by side: yes, because only a new database gets it.

-- One row for each alarm. A test compares the columns of the three engines. Instants are epoch milliseconds, UTC.
-- Strings compare byte for byte (COLLATE "C"). So an index serves ranges and prefixes, and an update of the operating
-- system's locales cannot break it.
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
    answer         SMALLINT     NOT NULL DEFAULT 0, -- clock.AnswerKind
    answered_by    VARCHAR(128) COLLATE "C" NOT NULL DEFAULT '',
    answered_at    BIGINT       NULL,
    delivery       SMALLINT     NOT NULL DEFAULT 0, -- clock.DeliveryMode
    due_rank       SMALLINT     NOT NULL DEFAULT 9, -- store.Rank: 16 * clock.TargetKind + 9 - priority
    doubt_target   SMALLINT     NOT NULL DEFAULT 0, -- clock.TargetKind of the try in doubt or in flight
    repeat_rule    VARCHAR(1000) COLLATE "C" NOT NULL DEFAULT '', -- JSON, repeat.Rule.Encode; '': rings once
    repeat_state   VARCHAR(500) COLLATE "C" NOT NULL DEFAULT '', -- JSON, clock.Progress; latest_ring_at is NULL then
    PRIMARY KEY (id)
) WITH (
    -- Nearly every alarm is updated once, when it rings or is cancelled. The update is never HOT, because next_try_time
    -- is indexed. So free space for the new version saves nothing. Measured with 100,000 alarms that rang in random
    -- order: fillfactor 100, 85 and 70 wrote 1,216, 1,203 and 1,206 bytes of WAL for each alarm, and left a table of
    -- 44, 44 and 53 MB. When they rang in the order of their ids, it was 1,258, 1,243 and 1,225 bytes, and 80, 86 and
    -- 94 MB.
    fillfactor = 100,
    -- Dead versions of rung alarms lie at the head of the due index, where every scan begins. So vacuum runs for every
    -- hundred thousand of them. The default, a fifth of the table, would be too late: the table keeps the finished
    -- alarms of a day.
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
CREATE INDEX alarm_due ON alarm (shard, next_try_time, due_rank, id) INCLUDE (application) WHERE next_try_time IS NOT NULL;
-- Expired, dead and paused alarms, which wait for a person. Lists of them read only these. A set, a ring or a cancel
-- that succeeds does not touch the index.
CREATE INDEX alarm_attention ON alarm (application, business_id) WHERE state IN (4, 5, 7);
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
    answered_by  VARCHAR(128) COLLATE "C" NOT NULL DEFAULT '',
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
    -- Few rows, each renewed every few seconds. With half of each page free all renewals are HOT, and they remove dead
    -- versions themselves.
    fillfactor = 50
);

-- The nodes that share the work: one row for each process. A process writes its row every second.
CREATE TABLE node (
    incarnation  VARCHAR(26)  COLLATE "C" NOT NULL, -- identifies one start of the process
    name         VARCHAR(128) COLLATE "C" NOT NULL, -- two processes may have the same name
    address      VARCHAR(255) COLLATE "C" NOT NULL,
    version      VARCHAR(64)  COLLATE "C" NOT NULL,
    started      BIGINT       NOT NULL,
    expires      BIGINT       NOT NULL, -- from then on other nodes treat the node as dead
    applications TEXT         COLLATE "C" NOT NULL, -- applications with a subscriber on this node, one a line
    lacks        VARCHAR(255) COLLATE "C" NOT NULL DEFAULT '', -- abilities that the node lacks, one a line, sorted
    settings     BIGINT       NOT NULL DEFAULT -1, -- number of changes of settings that it applies; -1: the build does not report it
    PRIMARY KEY (incarnation)
) WITH (
    -- Few rows, each written every second, like the table shard.
    fillfactor = 50
);

-- One row with the oldest build level that may work on this database. store.BuildLevel says when a migration raises it.
CREATE TABLE build_level (
    only_row SMALLINT NOT NULL, -- 1
    oldest   BIGINT   NOT NULL,
    PRIMARY KEY (only_row)
);
INSERT INTO build_level (only_row, oldest) VALUES (1, 2);

-- The settings of applications, as JSON (clock/settings). An application without a row has the defaults.
CREATE TABLE application_setting (
    application VARCHAR(64)  COLLATE "C" NOT NULL,
    version     BIGINT       NOT NULL, -- 1 at first, one more with each change
    document    TEXT         COLLATE "C" NOT NULL,
    changed_at  BIGINT       NOT NULL,
    changed_by  VARCHAR(128) COLLATE "C" NOT NULL,
    PRIMARY KEY (application)
);

-- Every version that was ever current, the current one included.
CREATE TABLE application_setting_history (
    application VARCHAR(64)  COLLATE "C" NOT NULL,
    version     BIGINT       NOT NULL,
    document    TEXT         COLLATE "C" NOT NULL,
    changed_at  BIGINT       NOT NULL,
    changed_by  VARCHAR(128) COLLATE "C" NOT NULL,
    PRIMARY KEY (application, version)
);

-- One row with the number of changes of all settings. Nodes poll it.
CREATE TABLE application_setting_counter (
    only_row SMALLINT NOT NULL, -- 1
    changes  BIGINT   NOT NULL,
    PRIMARY KEY (only_row)
);
INSERT INTO application_setting_counter (only_row, changes) VALUES (1, 0);

-- Access tokens (clock/access.Token). A secret is stored as its SHA-256 in hexadecimal digits.
CREATE TABLE access_token (
    id               VARCHAR(12)  COLLATE "C" NOT NULL,
    name             VARCHAR(128) COLLATE "C" NOT NULL,
    role             VARCHAR(32)  COLLATE "C" NOT NULL, -- name of the role
    applications     TEXT         COLLATE "C" NOT NULL, -- separated by commas
    secret           VARCHAR(64)  COLLATE "C" NOT NULL,
    old_secret       VARCHAR(64)  COLLATE "C" NOT NULL, -- secret before the last rotation; '': none
    old_secret_until BIGINT       NULL, -- end of the old secret
    created_at       BIGINT       NOT NULL,
    created_by       VARCHAR(128) COLLATE "C" NOT NULL,
    expires_at       BIGINT       NULL, -- NULL: never
    revoked_at       BIGINT       NULL, -- NULL: not revoked
    last_used_at     BIGINT       NULL, -- to the minute; NULL: never used
    PRIMARY KEY (id)
);

-- One row with the number of changes of all tokens. A use of a token is no change.
CREATE TABLE access_token_counter (
    only_row SMALLINT NOT NULL, -- 1
    changes  BIGINT   NOT NULL,
    PRIMARY KEY (only_row)
);
INSERT INTO access_token_counter (only_row, changes) VALUES (1, 0);

-- The alarms whose times depend on the data of a time zone other than UTC, so that they are found when it changes. A
-- row may outlive its reason: the alarm may have been set without time zone since. It is deleted with its alarm.
CREATE TABLE zoned_alarm (
    alarm_id  BIGINT      NOT NULL,
    time_zone VARCHAR(64) COLLATE "C" NOT NULL, -- IANA name
    PRIMARY KEY (alarm_id)
);
CREATE INDEX zoned_alarm_zone ON zoned_alarm (time_zone, alarm_id);

-- One row: the newest time-zone data that a node has had, and the zones whose alarms are to be recomputed (package
-- clock/recompute), as JSON.
CREATE TABLE time_zone_data (
    only_row SMALLINT NOT NULL, -- 1
    revision BIGINT   NOT NULL, -- one more with each change
    document TEXT     COLLATE "C" NOT NULL,
    PRIMARY KEY (only_row)
);
INSERT INTO time_zone_data (only_row, revision, document) VALUES (1, 0, '');

-- What people did (clock.Act).
CREATE TABLE audit (
    id           BIGINT       GENERATED ALWAYS AS IDENTITY,
    done_at      BIGINT       NOT NULL,
    actor        VARCHAR(128) COLLATE "C" NOT NULL, -- name of the token or of the person; '': anyone
    token        VARCHAR(12)  COLLATE "C" NOT NULL, -- id of the token; '': none
    origin       VARCHAR(64)  COLLATE "C" NOT NULL, -- address of the client; '': a command on the database
    action       VARCHAR(32)  COLLATE "C" NOT NULL,
    application  VARCHAR(64)  COLLATE "C" NOT NULL, -- '': none
    subject      VARCHAR(128) COLLATE "C" NOT NULL, -- business id, or id of a token
    state_before TEXT         COLLATE "C" NOT NULL, -- JSON; '': there was nothing
    state_after  TEXT         COLLATE "C" NOT NULL, -- JSON
    PRIMARY KEY (id)
);
CREATE INDEX audit_application ON audit (application, id);
CREATE INDEX audit_done ON audit (done_at);

-- Every alarm, for people. States, answers and modes have names; times are UTC. answer is NULL until an
-- application has answered, target if the alarm names none. Of a repeating alarm, lateness_ms is the lateness of its
-- last rung occurrence, and lateness_max_ms and lateness_sum_ms cover all its rung occurrences. The columns of
-- occurrences are NULL for an alarm that rings once.
CREATE VIEW alarm_report AS
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
       CASE a.due_rank / 16 WHEN 1 THEN 'amqp' WHEN 2 THEN 'stream' WHEN 3 THEN 'webhook' WHEN 4 THEN 'kafka' WHEN 5 THEN 'grpc'
                  WHEN 6 THEN 'pull' END AS target,
       NULLIF(a.repeat_rule, '') AS repeat_rule,
       (NULLIF(a.repeat_state, '')::json ->> 'n')::BIGINT AS occurrence,
       (TIMESTAMP '1970-01-01' + (NULLIF(a.repeat_state, '')::json ->> 'at')::BIGINT * INTERVAL '1 millisecond')::TIMESTAMP(3) AS occurrence_at,
       (TIMESTAMP '1970-01-01' + (NULLIF(a.repeat_state, '')::json ->> 'next_at')::BIGINT * INTERVAL '1 millisecond')::TIMESTAMP(3) AS next_occurrence_at,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'rung')::BIGINT, 0) END AS occurrences_rung,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'missed')::BIGINT, 0) END AS occurrences_missed,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'skipped')::BIGINT, 0) END AS occurrences_skipped,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'failed')::BIGINT, 0) END AS occurrences_failed,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'late_max')::BIGINT, 0) END AS lateness_max_ms,
       CASE WHEN a.repeat_state <> '' THEN COALESCE((NULLIF(a.repeat_state, '')::json ->> 'late_sum')::BIGINT, 0) END AS lateness_sum_ms
FROM alarm a;

-- Alarms with retries, alarms whose last try is in doubt, and alarms with a ring that was not acknowledged. Each has
-- the number of tries, the outcome of the last try, and the last answer.
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

-- Every lease, for people. owner, incarnation and expires are NULL for a free shard. node_known is 0 if the owner has
-- no row in node.
CREATE VIEW shard_report AS
SELECT s.shard, NULLIF(s.owner, '') AS owner, NULLIF(s.incarnation, '') AS incarnation, s.epoch,
       (TIMESTAMP '1970-01-01' + NULLIF(s.expires, 0) * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires,
       CASE WHEN n.incarnation IS NULL THEN 0 ELSE 1 END AS node_known
FROM shard s
LEFT JOIN node n ON n.incarnation = s.incarnation;

-- Every node, for people, with the number of its shards, the abilities that it lacks, and the number of changes of
-- settings that it applies.
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       (TIMESTAMP '1970-01-01' + n.started * INTERVAL '1 millisecond')::TIMESTAMP(3) AS started,
       (TIMESTAMP '1970-01-01' + n.expires * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires,
       (SELECT count(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications, n.lacks, n.settings
FROM node n;

-- Every version of the settings, for people. is_current is 1 for the version that applies.
CREATE VIEW application_setting_report AS
SELECT h.application, h.version, CASE WHEN s.application IS NULL THEN 0 ELSE 1 END AS is_current, h.document,
       (TIMESTAMP '1970-01-01' + h.changed_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS changed_at, h.changed_by
FROM application_setting_history h
LEFT JOIN application_setting s ON s.application = h.application AND s.version = h.version;

-- Every token without its secrets, for people.
CREATE VIEW access_token_report AS
SELECT id, name, role, applications,
       (TIMESTAMP '1970-01-01' + created_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS created_at, created_by,
       (TIMESTAMP '1970-01-01' + expires_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires_at,
       (TIMESTAMP '1970-01-01' + revoked_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS revoked_at,
       (TIMESTAMP '1970-01-01' + last_used_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS last_used_at,
       (TIMESTAMP '1970-01-01' + old_secret_until * INTERVAL '1 millisecond')::TIMESTAMP(3) AS old_secret_until
FROM access_token;

-- What people did, for people.
CREATE VIEW audit_report AS
SELECT id, (TIMESTAMP '1970-01-01' + done_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS done_at,
       actor, token, origin, action, application, subject, state_before, state_after
FROM audit;
