-- +goose Up
-- side by side: yes, because old builds do not use the new table.

-- When each application last set or cancelled an alarm, to about a minute.
CREATE TABLE application_sighting (
    application TEXT NOT NULL,
    seen_at     INTEGER NOT NULL, -- epoch milliseconds, UTC
    PRIMARY KEY (application)
) STRICT, WITHOUT ROWID;
CREATE INDEX application_sighting_seen ON application_sighting (seen_at);
