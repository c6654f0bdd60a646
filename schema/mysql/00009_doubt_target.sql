-- +goose Up
-- side by side: yes, because an older build ignores the column, and has only one target.
-- Where the try in doubt or in flight went (clock.TargetKind), so that it is repeated there. It has no meaning in other rows.
ALTER TABLE alarm ADD COLUMN doubt_target TINYINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE alarm DROP COLUMN doubt_target;
