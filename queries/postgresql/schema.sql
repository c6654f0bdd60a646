-- name: ReadTime :one
-- Reads the server's time in microseconds since the epoch. now() would be the start of the transaction.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros;

-- name: ReadVersion :one
SELECT current_setting('server_version')::varchar AS version;

-- name: LockShards :exec
-- Makes two processes that fix the shard count do it one after the other.
LOCK TABLE shard IN EXCLUSIVE MODE;

-- name: InsertShards :exec
-- Inserts the rows 0 to shards-1 if the table is empty.
INSERT INTO shard (shard)
SELECT n FROM generate_series(0, sqlc.arg(shards)::integer - 1) n WHERE NOT EXISTS (SELECT 1 FROM shard);

-- name: CountShards :one
SELECT count(*) FROM shard;

-- name: ReadOldestBuild :one
-- Reads the oldest build level that may work on the database.
-- Index: primary key. Rows: one.
SELECT oldest FROM build_level WHERE only_row = 1;

-- name: AllowBuild :one
-- Reads the server's time in microseconds since the epoch. It returns no row if the build is below the oldest level that may work on the
-- database.
-- Index: primary key. Rows: one.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros FROM build_level WHERE only_row = 1 AND oldest <= sqlc.arg(build)::bigint;
