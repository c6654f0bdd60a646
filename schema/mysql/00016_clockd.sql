-- +goose Up
-- side by side: yes, because only a new database gets it.

-- One row for each alarm. A test compares the columns of the three engines. Instants are epoch milliseconds, UTC. A
-- ring, or the end of an alarm, writes columns that were NULL or empty. In this row format, and with CHAR, these
-- columns take their space from the beginning. So the row keeps its size, and the server changes it in place. Otherwise
-- every second such change reorganizes the page, which writes ten times as much redo log. The rows take a quarter more
-- space.
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
    claim_id       CHAR(26)     CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    rung_at        BIGINT       NULL,
    create_time    BIGINT       NOT NULL,
    update_time    BIGINT       NOT NULL,
    finished_at    BIGINT       NULL,
    answer         TINYINT      NOT NULL DEFAULT 0, -- clock.AnswerKind
    answered_by    VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
    answered_at    BIGINT       NULL,
    delivery       TINYINT      NOT NULL DEFAULT 0, -- clock.DeliveryMode
    due_rank       TINYINT      NOT NULL DEFAULT 9, -- store.Rank: 16 * clock.TargetKind + 9 - priority
    doubt_target   TINYINT      NOT NULL DEFAULT 0, -- clock.TargetKind of the try in doubt or in flight
    repeat_rule    VARCHAR(1000) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- JSON, repeat.Rule.Encode; '': rings once
    repeat_state   VARCHAR(500) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- JSON, clock.Progress; latest_ring_at is NULL then
    PRIMARY KEY (id),
    UNIQUE KEY alarm_key (application, business_id),
    -- Finished alarms have no next_try_time. They lie in the same index, apart from the due entries of their shard, in
    -- the order in which they finished. The purger finds them there, and the end of an alarm moves one index entry and
    -- not two. Every due alarm has a NULL finished_at.
    KEY alarm_due (shard, next_try_time, finished_at, due_rank, id, application)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 ROW_FORMAT = REDUNDANT;

-- Tries without a confirm. A confirmed ring writes nothing here. The newest attempt has the highest id: AUTO_ID_CACHE 1
-- makes it so on TiDB, whose servers would otherwise give out ids of ranges of their own.
CREATE TABLE ring_attempt (
    id           BIGINT       NOT NULL AUTO_INCREMENT,
    alarm_id     BIGINT       NOT NULL,
    generation   BIGINT       NOT NULL,
    ring_no      INT          NOT NULL,
    claim_id     VARCHAR(26)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    attempt_time BIGINT       NOT NULL,
    outcome      TINYINT      NOT NULL, -- clock.OutcomeKind
    error        VARCHAR(500) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    answered_by  VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT '',
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

-- The nodes that share the work: one row for each process. A process writes its row every second.
CREATE TABLE node (
    incarnation  VARCHAR(26)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- identifies one start of the process
    name         VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- two processes may have the same name
    address      VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    version      VARCHAR(64)  CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    started      BIGINT       NOT NULL,
    expires      BIGINT       NOT NULL, -- from then on other nodes treat the node as dead
    applications MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- applications with a subscriber on this node, one a line
    lacks        VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- abilities that the node lacks, one a line, sorted
    settings     BIGINT       NOT NULL DEFAULT -1, -- number of changes of settings that it applies; -1: the build does not report it
    PRIMARY KEY (incarnation)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- One row with the oldest build level that may work on this database. store.BuildLevel says when a migration raises it.
CREATE TABLE build_level (
    only_row TINYINT NOT NULL, -- 1
    oldest   BIGINT  NOT NULL,
    PRIMARY KEY (only_row)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
INSERT IGNORE INTO build_level (only_row, oldest) VALUES (1, 2);

-- The settings of applications, as JSON (clock/settings). An application without a row has the defaults.
CREATE TABLE application_setting (
    application VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version     BIGINT       NOT NULL, -- 1 at first, one more with each change
    document    TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    changed_at  BIGINT       NOT NULL,
    changed_by  VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (application)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Every version that was ever current, the current one included.
CREATE TABLE application_setting_history (
    application VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version     BIGINT       NOT NULL,
    document    TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    changed_at  BIGINT       NOT NULL,
    changed_by  VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (application, version)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- One row with the number of changes of all settings. Nodes poll it.
CREATE TABLE application_setting_counter (
    only_row TINYINT NOT NULL, -- 1
    changes  BIGINT  NOT NULL,
    PRIMARY KEY (only_row)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
INSERT IGNORE INTO application_setting_counter (only_row, changes) VALUES (1, 0);

-- Access tokens (clock/access.Token). A secret is stored as its SHA-256 in hexadecimal digits.
CREATE TABLE access_token (
    id               VARCHAR(12)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name             VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    role             VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- name of the role
    applications     TEXT         CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- separated by commas
    secret           VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    old_secret       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- secret before the last rotation; '': none
    old_secret_until BIGINT       NULL, -- end of the old secret
    created_at       BIGINT       NOT NULL,
    created_by       VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    expires_at       BIGINT       NULL, -- NULL: never
    revoked_at       BIGINT       NULL, -- NULL: not revoked
    last_used_at     BIGINT       NULL, -- to the minute; NULL: never used
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- One row with the number of changes of all tokens. A use of a token is no change.
CREATE TABLE access_token_counter (
    only_row TINYINT NOT NULL, -- 1
    changes  BIGINT  NOT NULL,
    PRIMARY KEY (only_row)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
INSERT IGNORE INTO access_token_counter (only_row, changes) VALUES (1, 0);

-- The alarms whose times depend on the data of a time zone other than UTC, so that they are found when it changes. A
-- row may outlive its reason: the alarm may have been set without time zone since. It is deleted with its alarm.
CREATE TABLE zoned_alarm (
    alarm_id  BIGINT      NOT NULL,
    time_zone VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- IANA name
    PRIMARY KEY (alarm_id),
    KEY zoned_alarm_zone (time_zone, alarm_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- One row: the newest time-zone data that a node has had, and the zones whose alarms are to be recomputed (package
-- clock/recompute), as JSON.
CREATE TABLE time_zone_data (
    only_row TINYINT    NOT NULL, -- 1
    revision BIGINT     NOT NULL, -- one more with each change
    document MEDIUMTEXT CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    PRIMARY KEY (only_row)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
INSERT IGNORE INTO time_zone_data (only_row, revision, document) VALUES (1, 0, '');

-- What people did (clock.Act).
CREATE TABLE audit (
    id           BIGINT       NOT NULL AUTO_INCREMENT,
    done_at      BIGINT       NOT NULL,
    actor        VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- name of the token or of the person; '': anyone
    token        VARCHAR(12)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- id of the token; '': none
    origin       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- address of the client; '': a command on the database
    action       VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    application  VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- '': none
    subject      VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- business id, or id of a token
    state_before TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- JSON; '': there was nothing
    state_after  TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- JSON
    PRIMARY KEY (id),
    KEY audit_application (application, id),
    KEY audit_done (done_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Changes of many alarms by a filter (clock/bulk.Job). A node works on a job as long as it renews its lease.
CREATE TABLE bulk_job (
    id          VARCHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    created_at  BIGINT NOT NULL,
    ended_at    BIGINT NULL, -- NULL: not ended
    owner       VARCHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- incarnation of the node that works on the job; '': none
    lease_until BIGINT NOT NULL,
    revision    BIGINT NOT NULL, -- one more with each change
    document    MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- filter, action and progress, as JSON
    PRIMARY KEY (id),
    KEY bulk_job_ended (ended_at, created_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- Every alarm, for people. States, answers and modes have names; times are UTC in every session time zone. answer is
-- NULL until an application has answered, target if the alarm names none. Of a repeating alarm, lateness_ms is the
-- lateness of its last rung occurrence, and lateness_max_ms and lateness_sum_ms cover all its rung occurrences. The
-- columns of occurrences are NULL for an alarm that rings once.
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
       CASE a.due_rank DIV 16 WHEN 1 THEN 'amqp' WHEN 2 THEN 'stream' WHEN 3 THEN 'webhook' WHEN 4 THEN 'kafka' WHEN 5 THEN 'grpc'
                  WHEN 6 THEN 'pull' END AS target,
       NULLIF(a.repeat_rule, '') AS repeat_rule,
       CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.n') AS SIGNED) AS occurrence,
       CAST(TIMESTAMPADD(MICROSECOND, CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.at') AS SIGNED) * 1000, '1970-01-01') AS DATETIME(3)) AS occurrence_at,
       CAST(TIMESTAMPADD(MICROSECOND, CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.next_at') AS SIGNED) * 1000, '1970-01-01') AS DATETIME(3)) AS next_occurrence_at,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.rung') AS SIGNED), 0) END AS occurrences_rung,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.missed') AS SIGNED), 0) END AS occurrences_missed,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.skipped') AS SIGNED), 0) END AS occurrences_skipped,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.failed') AS SIGNED), 0) END AS occurrences_failed,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.late_max') AS SIGNED), 0) END AS lateness_max_ms,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(CAST(JSON_EXTRACT(NULLIF(a.repeat_state, ''), '$.late_sum') AS SIGNED), 0) END AS lateness_sum_ms
FROM alarm a;

-- Alarms with retries, alarms whose last try is in doubt, and alarms with a ring that was not acknowledged. Each has
-- the number of tries, the outcome of the last try, and the last answer.
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

-- Every lease, for people. owner, incarnation and expires are NULL for a free shard. node_known is 0 if the owner has
-- no row in node.
CREATE VIEW shard_report AS
SELECT s.shard, NULLIF(s.owner, '') AS owner, NULLIF(s.incarnation, '') AS incarnation, s.epoch,
       CAST(TIMESTAMPADD(MICROSECOND, NULLIF(s.expires, 0) * 1000, '1970-01-01') AS DATETIME(3)) AS expires,
       n.incarnation IS NOT NULL AS node_known
FROM shard s
LEFT JOIN node n ON n.incarnation = s.incarnation;

-- Every node, for people, with the number of its shards, the abilities that it lacks, and the number of changes of
-- settings that it applies.
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       CAST(TIMESTAMPADD(MICROSECOND, n.started * 1000, '1970-01-01') AS DATETIME(3)) AS started,
       CAST(TIMESTAMPADD(MICROSECOND, n.expires * 1000, '1970-01-01') AS DATETIME(3)) AS expires,
       (SELECT COUNT(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications, n.lacks, n.settings
FROM node n;

-- Every version of the settings, for people. is_current is 1 for the version that applies.
CREATE VIEW application_setting_report AS
SELECT h.application, h.version, CASE WHEN s.application IS NULL THEN 0 ELSE 1 END AS is_current, h.document,
       CAST(TIMESTAMPADD(MICROSECOND, h.changed_at * 1000, '1970-01-01') AS DATETIME(3)) AS changed_at, h.changed_by
FROM application_setting_history h
LEFT JOIN application_setting s ON s.application = h.application AND s.version = h.version;

-- Every token without its secrets, for people.
CREATE VIEW access_token_report AS
SELECT id, name, role, applications,
       CAST(TIMESTAMPADD(MICROSECOND, created_at * 1000, '1970-01-01') AS DATETIME(3)) AS created_at, created_by,
       CAST(TIMESTAMPADD(MICROSECOND, expires_at * 1000, '1970-01-01') AS DATETIME(3)) AS expires_at,
       CAST(TIMESTAMPADD(MICROSECOND, revoked_at * 1000, '1970-01-01') AS DATETIME(3)) AS revoked_at,
       CAST(TIMESTAMPADD(MICROSECOND, last_used_at * 1000, '1970-01-01') AS DATETIME(3)) AS last_used_at,
       CAST(TIMESTAMPADD(MICROSECOND, old_secret_until * 1000, '1970-01-01') AS DATETIME(3)) AS old_secret_until
FROM access_token;

-- What people did, for people.
CREATE VIEW audit_report AS
SELECT id, CAST(TIMESTAMPADD(MICROSECOND, done_at * 1000, '1970-01-01') AS DATETIME(3)) AS done_at,
       actor, token, origin, action, application, subject, state_before, state_after
FROM audit;
