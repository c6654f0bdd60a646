-- +goose Up
-- side by side: yes, because old builds do not use the new table.

-- When each application last set or cancelled an alarm, to about a minute.
CREATE TABLE application_sighting (
    application VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    seen_at     BIGINT NOT NULL, -- epoch milliseconds, UTC
    PRIMARY KEY (application),
    KEY application_sighting_seen (seen_at)
) ENGINE = InnoDB;
