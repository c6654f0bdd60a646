-- +goose Up
-- side by side: yes, because a build that does not know the column leaves it as it is. The server notes the default and rewrites no row.

-- What a set, a shift or a trigger has overwritten in the row.
ALTER TABLE alarm ADD COLUMN past_generations VARCHAR(1000) COLLATE "C" NOT NULL DEFAULT ''; -- JSON, one a line: clock.PastGenerations
