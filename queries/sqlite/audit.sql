-- name: AddAct :exec
-- Index: primary key. Rows: one.
INSERT INTO audit (done_at, actor, token, origin, action, application, subject, state_before, state_after, request_id)
VALUES (sqlc.arg(done_at), sqlc.arg(actor), sqlc.arg(token), sqlc.arg(origin), sqlc.arg(action), sqlc.arg(application), sqlc.arg(subject),
    sqlc.arg(state_before), sqlc.arg(state_after), sqlc.arg(request_id));

-- name: ListActs :many
-- Reads acts, the newest first.
-- Index: primary key. Rows: up to the limit.
SELECT id, done_at, actor, token, origin, action, application, subject, state_before, state_after, request_id
FROM audit WHERE id < sqlc.arg(before_id) ORDER BY id DESC LIMIT sqlc.arg(row_limit);

-- name: ListActsOf :many
-- Reads acts on an application, the newest first.
-- Index: audit_application. Rows: up to the limit.
SELECT id, done_at, actor, token, origin, action, application, subject, state_before, state_after, request_id
FROM audit WHERE application = sqlc.arg(application) AND id < sqlc.arg(before_id) ORDER BY id DESC LIMIT sqlc.arg(row_limit);

-- name: ListActsOn :many
-- Reads acts on a subject of an application, the newest first.
-- Index: audit_subject. Rows: up to the limit.
SELECT id, done_at, actor, token, origin, action, application, subject, state_before, state_after, request_id
FROM audit WHERE application = sqlc.arg(application) AND subject = sqlc.arg(subject) AND id < sqlc.arg(before_id) ORDER BY id DESC LIMIT sqlc.arg(row_limit);

-- name: DeleteActs :execrows
-- Deletes the oldest acts from before an instant.
-- Index: audit_done. Rows: up to the limit.
DELETE FROM audit WHERE id IN (SELECT a.id FROM audit a WHERE a.done_at < sqlc.arg(done_before) ORDER BY a.done_at LIMIT sqlc.arg(row_limit));
