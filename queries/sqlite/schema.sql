-- name: ReadTime :one
-- Reads the time in microseconds since the epoch, to the millisecond. SQLite has no clock of its own: it is the machine's.
SELECT CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000 AS micros;

-- name: ReadVersion :one
SELECT CAST(sqlite_version() AS TEXT) AS version;

-- name: InsertShards :exec
-- Inserts the rows of the shards if the table is empty.
INSERT INTO shard (shard)
SELECT value FROM json_each(CAST(sqlc.arg(shards) AS TEXT)) WHERE NOT EXISTS (SELECT 1 FROM shard);

-- name: CountShards :one
SELECT COUNT(*) FROM shard;

-- name: ReadOldestBuild :one
-- Reads the oldest build level that may work on the database.
-- Index: primary key. Rows: one.
SELECT oldest FROM build_level WHERE only_row = 1;
