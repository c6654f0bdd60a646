-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the tables: it goes on as if no application had settings.
-- The settings of applications, as JSON (clock.Settings). An application without a row has the defaults. A test compares the columns of
-- the three engines. Instants are epoch milliseconds, UTC.
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

-- Every version of the settings, for people. is_current is 1 for the version that applies.
CREATE VIEW application_setting_report AS
SELECT h.application, h.version, CASE WHEN s.application IS NULL THEN 0 ELSE 1 END AS is_current, h.document,
       datetime(h.changed_at / 1000, 'unixepoch') || printf('.%03d', h.changed_at % 1000) AS changed_at, h.changed_by
FROM application_setting_history h
LEFT JOIN application_setting s ON s.application = h.application AND s.version = h.version;

-- +goose Down
DROP VIEW application_setting_report;
DROP TABLE application_setting_counter;
DROP TABLE application_setting_history;
DROP TABLE application_setting;
