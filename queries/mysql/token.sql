-- name: ReadTokenCounter :one
-- Reads the number of changes of all tokens.
-- Index: primary key. Rows: one.
SELECT changes FROM access_token_counter WHERE only_row = 1;

-- name: ListTokens :many
-- Reads all tokens. LIMIT is a safety net.
-- Index: primary key. Rows: one for each token.
SELECT id, name, role, applications, secret, old_secret, old_secret_until, created_at, created_by, expires_at, revoked_at, last_used_at,
    parent_id, parent_secret, session_secret
FROM access_token ORDER BY id LIMIT 100000;

-- name: GetToken :one
-- Index: primary key. Rows: one, or none.
SELECT id, name, role, applications, secret, old_secret, old_secret_until, created_at, created_by, expires_at, revoked_at, last_used_at,
    parent_id, parent_secret, session_secret
FROM access_token WHERE id = sqlc.arg(id);

-- name: CountTokenChange :execrows
-- Counts a change. The lock on the row makes concurrent changes of tokens wait for each other.
-- Index: primary key. Rows: one.
UPDATE access_token_counter SET changes = changes + 1 WHERE only_row = 1;

-- name: AddToken :exec
-- Index: primary key. Rows: one.
INSERT INTO access_token (id, name, role, applications, secret, old_secret, old_secret_until, created_at, created_by, expires_at, revoked_at, last_used_at,
    parent_id, parent_secret, session_secret)
VALUES (sqlc.arg(id), sqlc.arg(name), sqlc.arg(role), sqlc.arg(applications), sqlc.arg(secret), sqlc.arg(old_secret), sqlc.narg(old_secret_until),
    sqlc.arg(created_at), sqlc.arg(created_by), sqlc.narg(expires_at), sqlc.narg(revoked_at), sqlc.narg(last_used_at),
    sqlc.arg(parent_id), sqlc.arg(parent_secret), sqlc.arg(session_secret));

-- name: UpdateToken :exec
-- Writes the columns of a token that a rotation or a revocation changes.
-- Index: primary key. Rows: one.
UPDATE access_token
SET secret = sqlc.arg(secret), old_secret = sqlc.arg(old_secret), old_secret_until = sqlc.narg(old_secret_until), revoked_at = sqlc.narg(revoked_at)
WHERE id = sqlc.arg(id);

-- name: UseToken :exec
-- Writes the last use of a token, unless a later one is stored.
-- Index: primary key. Rows: one, or none.
UPDATE access_token SET last_used_at = GREATEST(COALESCE(last_used_at, 0), CAST(sqlc.arg(at) AS SIGNED)) WHERE id = sqlc.arg(id);

-- name: ListSessions :many
-- Reads the ids of the sessions of a token, or of a person, that are open, the oldest first. LIMIT is a safety net.
-- Index: none, because the table is small, and a person begins a session a few times a day. Rows: one for each session.
SELECT id FROM access_token
WHERE parent_id = sqlc.arg(parent_id) AND created_by = sqlc.arg(created_by) AND revoked_at IS NULL ORDER BY created_at, id LIMIT 100000;

-- name: DeleteSessions :exec
-- Deletes the sessions that have ended or expired at an instant. The audit has their beginnings and ends.
-- Index: none, as ListSessions. Rows: one for each of them.
DELETE FROM access_token WHERE parent_id <> '' AND (expires_at <= sqlc.arg(at) OR revoked_at IS NOT NULL);
