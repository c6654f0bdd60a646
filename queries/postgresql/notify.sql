-- name: ReadChannel :one
-- Reads the name of the channel that Notify and Listen use. It contains the number of the table shard. So two clockd clusters in two
-- schemas of one database use different channels, whatever the search path.
SELECT ('clockd_' || 'shard'::regclass::oid)::varchar AS channel;

-- name: Notify :exec
-- Sends one notification for each body to every session that listens on the channel.
-- Rows: one for each body.
SELECT pg_notify('clockd_' || 'shard'::regclass::oid, b.body) FROM (SELECT unnest(sqlc.arg(bodies)::text[]) AS body) b;
