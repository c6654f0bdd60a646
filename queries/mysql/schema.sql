-- name: ReadTime :one
-- Reads the server's time in microseconds since the epoch, as of the start of the statement. UNIX_TIMESTAMP would be an hour off while the
-- server's time zone leaves daylight saving time. TiDB rounds UTC_TIMESTAMP() to the nearest second: with a fraction added, half of the
-- results would be a second too late.
SELECT CAST(FLOOR(@@timestamp * 1000000) AS SIGNED) AS micros;

-- name: ReadServer :one
-- Reads the server's version, the longest statement that it takes, in bytes, and the step between the ids of one INSERT.
SELECT VERSION() AS version, CAST(@@max_allowed_packet AS SIGNED) AS max_packet,
       CAST(@@auto_increment_increment AS SIGNED) AS id_step;

-- name: InsertShards :exec
-- Inserts the rows 0 to shards-1, all or none, so that only one of two processes can fix the shard count. The tuple is repeated for each
-- row.
INSERT INTO shard (shard) VALUES /*FIRST*/(?)/*NEXT, FIRST*/;

-- name: CountShards :one
SELECT COUNT(*) FROM shard;

-- name: ReadOldestBuild :one
-- Reads the oldest build level that may work on the database.
-- Index: primary key. Rows: one.
SELECT oldest FROM build_level WHERE only_row = 1;
