-- +goose Up
-- side by side: yes, because old builds do not use the new table. An alarm that ends or is paused at an old build
-- meanwhile is missing in lists and counts of expired, dead and paused alarms, until it is changed. Alarms that an old
-- build purges leave their rows in the new table.

-- The expired, dead and paused alarms, which wait for a person. (PostgreSQL and SQLite have an index of such rows alone
-- instead.) A row may outlive its reason. It is deleted with its alarm.
CREATE TABLE attention_alarm (
    alarm_id    BIGINT       NOT NULL,
    application VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    business_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (alarm_id),
    KEY attention_alarm_key (application, business_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

INSERT IGNORE INTO attention_alarm (alarm_id, application, business_id)
SELECT id, application, business_id FROM alarm WHERE state IN (4, 5, 7);
