-- name: AddStep :exec
-- Adds a step of a node, or replaces it.
-- Index: primary key. Rows: one.
INSERT INTO node_step (step_seconds, begun_at, incarnation, figures)
VALUES (sqlc.arg(step_seconds), sqlc.arg(begun_at), sqlc.arg(incarnation), sqlc.arg(figures))
ON DUPLICATE KEY UPDATE figures = VALUES(figures);

-- name: ListSteps :many
-- Reads steps of all nodes, the oldest first, without texts longer than clock.MaxStepFigures.
-- Index: primary key. Rows: up to the limit.
SELECT step_seconds, begun_at, incarnation, figures FROM node_step
WHERE step_seconds = sqlc.arg(step_seconds) AND begun_at >= sqlc.arg(begun_from) AND begun_at < sqlc.arg(begun_until)
  AND LENGTH(figures) <= 60000
ORDER BY begun_at, incarnation LIMIT ?;

-- name: DeleteSteps :execrows
-- Deletes the oldest steps from before an instant.
-- Index: primary key. Rows: up to the limit.
DELETE FROM node_step WHERE step_seconds = sqlc.arg(step_seconds) AND begun_at < sqlc.arg(begun_before)
ORDER BY begun_at, incarnation LIMIT ?;
