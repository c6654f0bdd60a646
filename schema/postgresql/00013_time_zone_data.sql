-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the tables: its alarms are not recomputed.
-- The alarms whose times depend on the data of a time zone other than UTC, so that they are found when it changes. A row may outlive its reason:
-- the alarm may have been set without time zone since. It is deleted with its alarm.
CREATE TABLE zoned_alarm (
    alarm_id  BIGINT      NOT NULL,
    time_zone VARCHAR(64) COLLATE "C" NOT NULL, -- IANA name
    PRIMARY KEY (alarm_id)
);
CREATE INDEX zoned_alarm_zone ON zoned_alarm (time_zone, alarm_id);

-- One row: the newest time-zone data that a node has had, and the zones whose alarms are to be recomputed (package clock/recompute), as JSON.
CREATE TABLE time_zone_data (
    only_row SMALLINT NOT NULL, -- 1
    revision BIGINT   NOT NULL, -- one more with each change
    document TEXT     COLLATE "C" NOT NULL,
    PRIMARY KEY (only_row)
);
INSERT INTO time_zone_data (only_row, revision, document) VALUES (1, 0, '');

-- +goose Down
DROP TABLE time_zone_data;
DROP TABLE zoned_alarm;
