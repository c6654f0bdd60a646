-- +goose Up
-- side by side: yes, because old builds do not use the new table.

-- When each application last set or cancelled an alarm, to about a minute.
CREATE TABLE application_sighting (
    application VARCHAR(64) COLLATE "C" NOT NULL,
    seen_at     BIGINT NOT NULL, -- epoch milliseconds, UTC
    PRIMARY KEY (application)
);
CREATE INDEX application_sighting_seen ON application_sighting (seen_at);
