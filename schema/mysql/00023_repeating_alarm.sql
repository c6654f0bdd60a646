-- +goose Up
-- side by side: yes, because old builds do not use the new table. An alarm that an old build lets repeat meanwhile is
-- missing in lists of repeating alarms and in forecasts until a set changes it. Alarms that an old build purges leave
-- their rows in the new table.

-- The repeating alarms, so that lists find them. (PostgreSQL and SQLite have an index of such rows alone instead.) A
-- row may outlive its reason: the alarm may have been set without a rule since. It is deleted with its alarm.
CREATE TABLE repeating_alarm (
    alarm_id    BIGINT       NOT NULL,
    application VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    business_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (alarm_id),
    KEY repeating_alarm_key (application, business_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

INSERT IGNORE INTO repeating_alarm (alarm_id, application, business_id)
SELECT id, application, business_id FROM alarm WHERE repeat_state <> '';
