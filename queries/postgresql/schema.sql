-- name: ReadTime :one
-- The server's time in microseconds since the epoch; not now(), which is when the transaction began.
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS micros;

-- name: ReadVersion :one
SELECT current_setting('server_version')::varchar AS version;

-- name: LockShards :exec
-- Two processes that fix the shard count at once do it one after the other.
LOCK TABLE shard IN EXCLUSIVE MODE;

-- name: InsertShards :exec
-- The rows 0 to shards-1 where there are none.
INSERT INTO shard (shard)
SELECT n FROM generate_series(0, sqlc.arg(shards)::integer - 1) n WHERE NOT EXISTS (SELECT 1 FROM shard);

-- name: CountShards :one
SELECT count(*) FROM shard;
