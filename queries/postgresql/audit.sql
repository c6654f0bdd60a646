-- name: AddActs :exec
-- Rows: up to a group.
INSERT INTO audit (done_at, actor, token, origin, action, application, subject, state_before, state_after, request_id)
SELECT a.done_at, a.actor, a.token, a.origin, a.action, a.application, a.subject, a.state_before, a.state_after, a.request_id
FROM (SELECT unnest(sqlc.arg(done_at)::bigint[]) AS done_at,
             unnest(sqlc.arg(actor)::varchar[]) AS actor,
             unnest(sqlc.arg(token)::varchar[]) AS token,
             unnest(sqlc.arg(origin)::varchar[]) AS origin,
             unnest(sqlc.arg(action)::varchar[]) AS action,
             unnest(sqlc.arg(application)::varchar[]) AS application,
             unnest(sqlc.arg(subject)::varchar[]) AS subject,
             unnest(sqlc.arg(state_before)::text[]) AS state_before,
             unnest(sqlc.arg(state_after)::text[]) AS state_after,
             unnest(sqlc.arg(request_id)::varchar[]) AS request_id,
             generate_subscripts(sqlc.arg(done_at)::bigint[], 1) AS position) a
ORDER BY a.position;

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
