-- name: AddActs :exec
-- The tuple is repeated for each act.
-- Rows: up to a group.
INSERT INTO audit (done_at, actor, token, origin, action, application, subject, state_before, state_after, request_id)
VALUES /*FIRST*/(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)/*NEXT, FIRST*/;

-- name: ListActs :many
-- Reads acts, the newest first.
-- Index: primary key. Rows: up to the limit.
SELECT id, done_at, actor, token, origin, action, application, subject, state_before, state_after, request_id
FROM audit WHERE id < sqlc.arg(before_id) ORDER BY id DESC LIMIT ?;

-- name: ListActsOf :many
-- Reads acts on an application, the newest first.
-- Index: audit_application. Rows: up to the limit.
SELECT id, done_at, actor, token, origin, action, application, subject, state_before, state_after, request_id
FROM audit WHERE application = sqlc.arg(application) AND id < sqlc.arg(before_id) ORDER BY id DESC LIMIT ?;

-- name: ListActsOn :many
-- Reads acts on a subject of an application, the newest first. Comparisons pad with blanks, so lengths are compared.
-- Index: audit_subject. Rows: up to the limit.
SELECT id, done_at, actor, token, origin, action, application, subject, state_before, state_after, request_id
FROM audit WHERE application = sqlc.arg(application) AND subject = sqlc.arg(subject) AND LENGTH(subject) = LENGTH(sqlc.arg(subject)) AND id < sqlc.arg(before_id) ORDER BY id DESC LIMIT ?;

-- name: DeleteActs :execrows
-- Deletes the oldest acts from before an instant.
-- Index: audit_done. Rows: up to the limit.
DELETE FROM audit WHERE done_at < sqlc.arg(done_before) ORDER BY done_at LIMIT ?;
