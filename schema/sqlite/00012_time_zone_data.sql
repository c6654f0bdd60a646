-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the tables: its alarms are not recomputed.
-- The alarms whose times depend on the data of a time zone other than UTC, so that they are found when it changes. A row may outlive its reason:
-- the alarm may have been set without time zone since. It is deleted with its alarm.
CREATE TABLE zoned_alarm (
    alarm_id  INTEGER NOT NULL PRIMARY KEY,
    time_zone TEXT    NOT NULL -- IANA name
) STRICT;
CREATE INDEX zoned_alarm_zone ON zoned_alarm (time_zone, alarm_id);

-- One row: the newest time-zone data that a node has had, and the zones whose alarms are to be recomputed (package clock/recompute), as JSON.
CREATE TABLE time_zone_data (
    only_row INTEGER NOT NULL PRIMARY KEY, -- 1
    revision INTEGER NOT NULL, -- one more with each change
    document TEXT    NOT NULL
) STRICT;
INSERT INTO time_zone_data (only_row, revision, document) VALUES (1, 0, '');

-- +goose Down
DROP TABLE time_zone_data;
DROP TABLE zoned_alarm;
