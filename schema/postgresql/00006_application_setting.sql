-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the tables: it goes on as if no application had settings.
-- The settings of applications, as JSON (clock.Settings). An application without a row has the defaults. A test compares the columns of
-- the three engines. Instants are epoch milliseconds, UTC.
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

-- Every version of the settings, for people. is_current is 1 for the version that applies.
CREATE VIEW application_setting_report AS
SELECT h.application, h.version, CASE WHEN s.application IS NULL THEN 0 ELSE 1 END AS is_current, h.document,
       (TIMESTAMP '1970-01-01' + h.changed_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS changed_at, h.changed_by
FROM application_setting_history h
LEFT JOIN application_setting s ON s.application = h.application AND s.version = h.version;

-- +goose Down
DROP VIEW application_setting_report;
DROP TABLE application_setting_counter;
DROP TABLE application_setting_history;
DROP TABLE application_setting;
