-- +goose Up
-- A ring, or the end of an alarm, writes columns that were NULL or empty. In this row format and type these columns take their space from
-- the beginning. So the row keeps its size, and the server changes it in place. Otherwise every second such change reorganizes the page,
-- which writes ten times as much redo log. The rows take a quarter more space.
ALTER TABLE alarm
    MODIFY COLUMN claim_id CHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    ROW_FORMAT = REDUNDANT;

-- +goose Down
ALTER TABLE alarm
    MODIFY COLUMN claim_id VARCHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '',
    ROW_FORMAT = DYNAMIC;
