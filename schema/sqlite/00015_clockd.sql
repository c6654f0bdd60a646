-- +goose Up
-- side by side: yes, because only a new database gets it.

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
    finished_at    INTEGER,
    answer         INTEGER NOT NULL DEFAULT 0, -- clock.AnswerKind
    answered_by    TEXT    NOT NULL DEFAULT '',
    answered_at    INTEGER,
    delivery       INTEGER NOT NULL DEFAULT 0, -- clock.DeliveryMode
    due_rank       INTEGER NOT NULL DEFAULT 9, -- store.Rank: 16 * clock.TargetKind + 9 - priority
    doubt_target   INTEGER NOT NULL DEFAULT 0, -- clock.TargetKind of the try in doubt or in flight
    repeat_rule    TEXT    NOT NULL DEFAULT '', -- JSON, repeat.Rule.Encode; '': rings once
    repeat_state   TEXT    NOT NULL DEFAULT '' -- JSON, clock.Progress; latest_ring_at is NULL then
) STRICT;
-- Serves lookups by key, and lists in the order of keys.
CREATE UNIQUE INDEX alarm_key ON alarm (application, business_id);
-- Only alarms with a next_try_time: a rung alarm leaves the index.
CREATE INDEX alarm_due ON alarm (shard, next_try_time, due_rank, id, application) WHERE next_try_time IS NOT NULL;
-- Expired, dead and paused alarms, which wait for a person. Lists of them read only these. A set, a ring or a cancel
-- that succeeds does not touch the index.
CREATE INDEX alarm_attention ON alarm (application, business_id) WHERE state IN (4, 5, 7);
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
    error        TEXT    NOT NULL,
    answered_by  TEXT    NOT NULL DEFAULT ''
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

-- The nodes that share the work: one row for each process. A process writes its row every second.
CREATE TABLE node (
    incarnation  TEXT    NOT NULL PRIMARY KEY, -- identifies one start of the process
    name         TEXT    NOT NULL, -- two processes may have the same name
    address      TEXT    NOT NULL,
    version      TEXT    NOT NULL,
    started      INTEGER NOT NULL,
    expires      INTEGER NOT NULL, -- from then on other nodes treat the node as dead
    applications TEXT    NOT NULL, -- applications with a subscriber on this node, one a line
    lacks        TEXT    NOT NULL DEFAULT '', -- abilities that the node lacks, one a line, sorted
    settings     INTEGER NOT NULL DEFAULT -1 -- number of changes of settings that it applies; -1: the build does not report it
) STRICT, WITHOUT ROWID;

-- One row with the oldest build level that may work on this database. store.BuildLevel says when a migration raises it.
CREATE TABLE build_level (
    only_row INTEGER NOT NULL PRIMARY KEY, -- 1
    oldest   INTEGER NOT NULL
) STRICT;
INSERT INTO build_level (only_row, oldest) VALUES (1, 2);

-- The settings of applications, as JSON (clock/settings). An application without a row has the defaults.
CREATE TABLE application_setting (
    application TEXT    NOT NULL PRIMARY KEY,
    version     INTEGER NOT NULL, -- 1 at first, one more with each change
    document    TEXT    NOT NULL,
    changed_at  INTEGER NOT NULL,
    changed_by  TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Every version that was ever current, the current one included.
CREATE TABLE application_setting_history (
    application TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    document    TEXT    NOT NULL,
    changed_at  INTEGER NOT NULL,
    changed_by  TEXT    NOT NULL,
    PRIMARY KEY (application, version)
) STRICT, WITHOUT ROWID;

-- One row with the number of changes of all settings. Nodes poll it.
CREATE TABLE application_setting_counter (
    only_row INTEGER NOT NULL PRIMARY KEY, -- 1
    changes  INTEGER NOT NULL
) STRICT;
INSERT INTO application_setting_counter (only_row, changes) VALUES (1, 0);

-- Access tokens (clock/access.Token). A secret is stored as its SHA-256 in hexadecimal digits.
CREATE TABLE access_token (
    id               TEXT    NOT NULL PRIMARY KEY,
    name             TEXT    NOT NULL,
    role             TEXT    NOT NULL, -- name of the role
    applications     TEXT    NOT NULL, -- separated by commas
    secret           TEXT    NOT NULL,
    old_secret       TEXT    NOT NULL, -- secret before the last rotation; '': none
    old_secret_until INTEGER, -- end of the old secret
    created_at       INTEGER NOT NULL,
    created_by       TEXT    NOT NULL,
    expires_at       INTEGER, -- NULL: never
    revoked_at       INTEGER, -- NULL: not revoked
    last_used_at     INTEGER -- to the minute; NULL: never used
) STRICT, WITHOUT ROWID;

-- One row with the number of changes of all tokens. A use of a token is no change.
CREATE TABLE access_token_counter (
    only_row INTEGER NOT NULL PRIMARY KEY, -- 1
    changes  INTEGER NOT NULL
) STRICT;
INSERT INTO access_token_counter (only_row, changes) VALUES (1, 0);

-- The alarms whose times depend on the data of a time zone other than UTC, so that they are found when it changes. A
-- row may outlive its reason: the alarm may have been set without time zone since. It is deleted with its alarm.
CREATE TABLE zoned_alarm (
    alarm_id  INTEGER NOT NULL PRIMARY KEY,
    time_zone TEXT    NOT NULL -- IANA name
) STRICT;
CREATE INDEX zoned_alarm_zone ON zoned_alarm (time_zone, alarm_id);

-- One row: the newest time-zone data that a node has had, and the zones whose alarms are to be recomputed (package
-- clock/recompute), as JSON.
CREATE TABLE time_zone_data (
    only_row INTEGER NOT NULL PRIMARY KEY, -- 1
    revision INTEGER NOT NULL, -- one more with each change
    document TEXT    NOT NULL
) STRICT;
INSERT INTO time_zone_data (only_row, revision, document) VALUES (1, 0, '');

-- What people did (clock.Act).
CREATE TABLE audit (
    id           INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    done_at      INTEGER NOT NULL,
    actor        TEXT    NOT NULL, -- name of the token or of the person; '': anyone
    token        TEXT    NOT NULL, -- id of the token; '': none
    origin       TEXT    NOT NULL, -- address of the client; '': a command on the database
    action       TEXT    NOT NULL,
    application  TEXT    NOT NULL, -- '': none
    subject      TEXT    NOT NULL, -- business id, or id of a token
    state_before TEXT    NOT NULL, -- JSON; '': there was nothing
    state_after  TEXT    NOT NULL -- JSON
) STRICT;
CREATE INDEX audit_application ON audit (application, id);
CREATE INDEX audit_done ON audit (done_at);

-- Changes of many alarms by a filter (clock/bulk.Job). A node works on a job as long as it renews its lease.
CREATE TABLE bulk_job (
    id          TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER, -- NULL: not ended
    owner       TEXT NOT NULL, -- incarnation of the node that works on the job; '': none
    lease_until INTEGER NOT NULL,
    revision    INTEGER NOT NULL, -- one more with each change
    document    TEXT NOT NULL, -- filter, action and progress, as JSON
    PRIMARY KEY (id)
) STRICT;
CREATE INDEX bulk_job_ended ON bulk_job (ended_at, created_at);

-- Every alarm, for people. States, answers and modes have names; times are UTC, in a form that compares with
-- datetime(). answer is NULL until an
-- application has answered, target if the alarm names none. Of a repeating alarm, lateness_ms is the lateness of its
-- last rung occurrence, and lateness_max_ms and lateness_sum_ms cover all its rung occurrences. The columns of
-- occurrences are NULL for an alarm that rings once.
CREATE VIEW alarm_report AS
SELECT a.id, a.application, a.business_id, a.shard,
       CASE a.state WHEN 1 THEN 'scheduled' WHEN 2 THEN 'ringing' WHEN 3 THEN 'rung' WHEN 4 THEN 'expired' WHEN 5 THEN 'dead'
                    WHEN 6 THEN 'cancelled' WHEN 7 THEN 'paused' END AS state,
       a.generation,
       datetime(a.target_ring_at / 1000, 'unixepoch') || printf('.%03d', a.target_ring_at % 1000) AS target_ring_at,
       datetime(a.latest_ring_at / 1000, 'unixepoch') || printf('.%03d', a.latest_ring_at % 1000) AS latest_ring_at,
       datetime(a.next_try_time / 1000, 'unixepoch') || printf('.%03d', a.next_try_time % 1000) AS next_try_time,
       CASE WHEN a.repeat_state = '' THEN a.rung_at - a.target_ring_at
            ELSE json_extract(NULLIF(a.repeat_state, ''), '$.late') END AS lateness_ms,
       a.ring_no, a.retry_times, a.last_error, a.in_doubt, a.priority,
       CASE a.delivery WHEN 1 THEN 'at_most_once' ELSE 'at_least_once' END AS delivery,
       length(a.payload) AS payload_bytes,
       datetime(a.rung_at / 1000, 'unixepoch') || printf('.%03d', a.rung_at % 1000) AS rung_at,
       CASE a.answer WHEN 1 THEN 'ack' WHEN 2 THEN 'release' WHEN 3 THEN 'bury' WHEN 4 THEN 'touch' END AS answer,
       NULLIF(a.answered_by, '') AS answered_by,
       datetime(a.answered_at / 1000, 'unixepoch') || printf('.%03d', a.answered_at % 1000) AS answered_at,
       datetime(a.create_time / 1000, 'unixepoch') || printf('.%03d', a.create_time % 1000) AS create_time,
       datetime(a.update_time / 1000, 'unixepoch') || printf('.%03d', a.update_time % 1000) AS update_time,
       datetime(a.finished_at / 1000, 'unixepoch') || printf('.%03d', a.finished_at % 1000) AS finished_at,
       CASE a.due_rank / 16 WHEN 1 THEN 'amqp' WHEN 2 THEN 'stream' WHEN 3 THEN 'webhook' WHEN 4 THEN 'kafka' WHEN 5 THEN 'grpc'
                  WHEN 6 THEN 'pull' END AS target,
       NULLIF(a.repeat_rule, '') AS repeat_rule,
       json_extract(NULLIF(a.repeat_state, ''), '$.n') AS occurrence,
       datetime(json_extract(NULLIF(a.repeat_state, ''), '$.at') / 1000, 'unixepoch') || printf('.%03d', json_extract(NULLIF(a.repeat_state, ''), '$.at') % 1000) AS occurrence_at,
       datetime(json_extract(NULLIF(a.repeat_state, ''), '$.next_at') / 1000, 'unixepoch') || printf('.%03d', json_extract(NULLIF(a.repeat_state, ''), '$.next_at') % 1000) AS next_occurrence_at,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.rung'), 0) END AS occurrences_rung,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.missed'), 0) END AS occurrences_missed,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.skipped'), 0) END AS occurrences_skipped,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.failed'), 0) END AS occurrences_failed,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.late_max'), 0) END AS lateness_max_ms,
       CASE WHEN a.repeat_state <> '' THEN COALESCE(json_extract(NULLIF(a.repeat_state, ''), '$.late_sum'), 0) END AS lateness_sum_ms
FROM alarm a;

-- Alarms with retries, alarms whose last try is in doubt, and alarms with a ring that was not acknowledged. Each has
-- the number of tries, the outcome of the last try, and the last answer.
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
                      WHEN 5 THEN 'refused' WHEN 6 THEN 'unsent' WHEN 7 THEN 'untaken' WHEN 8 THEN 'released'
                      WHEN 9 THEN 'buried' WHEN 10 THEN 'unacknowledged' END AS last_outcome,
       datetime(l.attempt_time / 1000, 'unixepoch') || printf('.%03d', l.attempt_time % 1000) AS last_attempt_time,
       a.ring_no,
       CASE a.answer WHEN 1 THEN 'ack' WHEN 2 THEN 'release' WHEN 3 THEN 'bury' WHEN 4 THEN 'touch' END AS answer,
       NULLIF(a.answered_by, '') AS answered_by,
       datetime(a.answered_at / 1000, 'unixepoch') || printf('.%03d', a.answered_at % 1000) AS answered_at
FROM alarm a
LEFT JOIN ring_attempt l ON l.id = (SELECT MAX(r.id) FROM ring_attempt r WHERE r.alarm_id = a.id)
WHERE a.retry_times > 0 OR a.in_doubt <> 0
   OR EXISTS (SELECT 1 FROM ring_attempt r WHERE r.alarm_id = a.id AND r.generation = a.generation AND r.outcome >= 8);

-- Every lease, for people. owner, incarnation and expires are NULL for a free shard. node_known is 0 if the owner has
-- no row in node.
CREATE VIEW shard_report AS
SELECT s.shard, NULLIF(s.owner, '') AS owner, NULLIF(s.incarnation, '') AS incarnation, s.epoch,
       datetime(NULLIF(s.expires, 0) / 1000, 'unixepoch') || printf('.%03d', s.expires % 1000) AS expires,
       n.incarnation IS NOT NULL AS node_known
FROM shard s
LEFT JOIN node n ON n.incarnation = s.incarnation;

-- Every node, for people, with the number of its shards, the abilities that it lacks, and the number of changes of
-- settings that it applies.
CREATE VIEW node_report AS
SELECT n.incarnation, n.name, n.address, n.version,
       datetime(n.started / 1000, 'unixepoch') || printf('.%03d', n.started % 1000) AS started,
       datetime(n.expires / 1000, 'unixepoch') || printf('.%03d', n.expires % 1000) AS expires,
       (SELECT COUNT(*) FROM shard s WHERE s.incarnation = n.incarnation) AS shards,
       n.applications, n.lacks, n.settings
FROM node n;

-- Every version of the settings, for people. is_current is 1 for the version that applies.
CREATE VIEW application_setting_report AS
SELECT h.application, h.version, CASE WHEN s.application IS NULL THEN 0 ELSE 1 END AS is_current, h.document,
       datetime(h.changed_at / 1000, 'unixepoch') || printf('.%03d', h.changed_at % 1000) AS changed_at, h.changed_by
FROM application_setting_history h
LEFT JOIN application_setting s ON s.application = h.application AND s.version = h.version;

-- Every token without its secrets, for people.
CREATE VIEW access_token_report AS
SELECT id, name, role, applications,
       datetime(created_at / 1000, 'unixepoch') || printf('.%03d', created_at % 1000) AS created_at, created_by,
       datetime(expires_at / 1000, 'unixepoch') || printf('.%03d', expires_at % 1000) AS expires_at,
       datetime(revoked_at / 1000, 'unixepoch') || printf('.%03d', revoked_at % 1000) AS revoked_at,
       datetime(last_used_at / 1000, 'unixepoch') || printf('.%03d', last_used_at % 1000) AS last_used_at,
       datetime(old_secret_until / 1000, 'unixepoch') || printf('.%03d', old_secret_until % 1000) AS old_secret_until
FROM access_token;

-- What people did, for people.
CREATE VIEW audit_report AS
SELECT id, datetime(done_at / 1000, 'unixepoch') || printf('.%03d', done_at % 1000) AS done_at,
       actor, token, origin, action, application, subject, state_before, state_after
FROM audit;
