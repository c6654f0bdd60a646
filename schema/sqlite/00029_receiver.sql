-- +goose Up
-- side by side: no, because an older build leaves the receiver in a row that it sets again without one.

UPDATE build_level SET oldest = 5;

-- Fields of the receiver that the alarm brings itself, a JSON object: clock.Content.Receiver. Its number is in due_rank.
ALTER TABLE alarm ADD COLUMN receiver TEXT NOT NULL DEFAULT '';
