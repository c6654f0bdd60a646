-- name: ReadTime :one
-- The server's time in microseconds since the epoch, seconds and their fraction of the same instant: the statement's.
-- UNIX_TIMESTAMP would be an hour off while the server's zone leaves daylight saving.
SELECT CAST(TIMESTAMPDIFF(SECOND, '1970-01-01', UTC_TIMESTAMP()) * 1000000 + MICROSECOND(NOW(6)) AS SIGNED) AS micros;

-- name: ReadServer :one
-- What the server is, how long a statement may be in bytes, and the step between the ids of one INSERT.
SELECT VERSION() AS version, CAST(@@max_allowed_packet AS SIGNED) AS max_packet,
       CAST(@@auto_increment_increment AS SIGNED) AS id_step;

-- name: InsertShards :exec
-- The rows 0 to shards-1: the tuple is repeated. All or nothing, so that of two processes that fix the count one does.
INSERT INTO shard (shard) VALUES (?);

-- name: CountShards :one
SELECT COUNT(*) FROM shard;
