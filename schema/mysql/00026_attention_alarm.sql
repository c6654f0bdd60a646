-- +goose Up
-- side by side: yes, because the file before stops the builds that do not know the table.

-- The expired, dead and paused alarms, which wait for a person. (PostgreSQL and SQLite have an index of such rows alone
-- instead.) A transaction that changes the state of an alarm to or from one of these writes here, too.
CREATE TABLE attention_alarm (
    alarm_id    BIGINT       NOT NULL,
    application VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    state       TINYINT      NOT NULL, -- clock.State
    business_id VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (alarm_id),
    KEY attention_alarm_key (application, state, business_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

INSERT IGNORE INTO attention_alarm (alarm_id, application, state, business_id)
SELECT id, application, state, business_id FROM alarm WHERE state IN (4, 5, 7);
