-- name: NextIDBlock :one
-- Reserves the next block of ids. Its number is never given again, also after a rollback or a crash.
SELECT nextval('id_block')::bigint AS block;

-- name: InsertGates :exec
-- Inserts the gates that are missing, one for each shard.
-- Index: primary key. Rows: as many as shards, once.
INSERT INTO gate (shard) SELECT generate_series(0, sqlc.arg(shards)::integer - 1)::smallint ON CONFLICT (shard) DO NOTHING;

-- name: SkipIDBlocks :exec
-- Skips blocks of ids.
SELECT setval('id_block', nextval('id_block') + sqlc.arg(blocks)::bigint);
