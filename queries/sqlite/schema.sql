-- name: ReadTime :one
-- The time in microseconds since the epoch, to the millisecond: SQLite has no clock but the machine's.
SELECT CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000 AS micros;

-- name: ReadVersion :one
SELECT CAST(sqlite_version() AS TEXT) AS version;

-- name: InsertShards :exec
-- The rows of the shards where there are none.
INSERT INTO shard (shard)
SELECT value FROM json_each(CAST(sqlc.arg(shards) AS TEXT)) WHERE NOT EXISTS (SELECT 1 FROM shard);

-- name: CountShards :one
SELECT COUNT(*) FROM shard;
