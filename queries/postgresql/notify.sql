-- name: ReadChannel :one
-- What Notify and Listen meet on. It is made of the table's own number, so that two clockds in two schemas of one database do
-- not mix, whatever the search path.
SELECT ('clockd_' || 'shard'::regclass::oid)::varchar AS channel;

-- name: Notify :exec
-- One notification a body, to everybody who listens on the channel.
-- Rows: one a body.
SELECT pg_notify('clockd_' || 'shard'::regclass::oid, b.body) FROM (SELECT unnest(sqlc.arg(bodies)::text[]) AS body) b;
