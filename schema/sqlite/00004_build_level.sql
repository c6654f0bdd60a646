-- +goose Up
-- side by side: yes, because builds before this one neither read nor write the table.
-- One row with the oldest build level that may work on this database. store.BuildLevel says when a migration raises it.
CREATE TABLE build_level (
    only_row INTEGER NOT NULL PRIMARY KEY, -- 1
    oldest   INTEGER NOT NULL
) STRICT;
INSERT INTO build_level (only_row, oldest) VALUES (1, 1);

-- +goose Down
DROP TABLE build_level;
