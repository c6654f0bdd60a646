-- +goose Up
-- side by side: no, because a build that does not know the table attention_alarm of the next file would write nothing
-- into it. An alarm that ended there would be missing in lists and counts of dead alarms.

UPDATE build_level SET oldest = 3;

-- What a set, a shift or a trigger has overwritten in the row.
ALTER TABLE alarm ADD COLUMN past_generations VARCHAR(1000) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL DEFAULT ''; -- JSON, one a line: clock.PastGenerations
