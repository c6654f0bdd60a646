-- name: AddStep :exec
-- Adds a step of a node, unless the table has it.
-- Index: primary key. Rows: one, or none.
INSERT INTO node_step (step_seconds, begun_at, incarnation, figures)
VALUES (sqlc.arg(step_seconds), sqlc.arg(begun_at), sqlc.arg(incarnation), sqlc.arg(figures))
ON CONFLICT (step_seconds, begun_at, incarnation) DO NOTHING;

-- name: ListSteps :many
-- Reads steps of all nodes, the oldest first.
-- Index: primary key. Rows: up to the limit.
SELECT step_seconds, begun_at, incarnation, figures FROM node_step
WHERE step_seconds = sqlc.arg(step_seconds) AND begun_at >= sqlc.arg(begun_from)
ORDER BY begun_at, incarnation LIMIT sqlc.arg(row_limit);

-- name: DeleteSteps :exec
-- Deletes the steps from before an instant.
-- Index: primary key. Rows: usually one for each node and step since the last deletion.
DELETE FROM node_step WHERE step_seconds = sqlc.arg(step_seconds) AND begun_at < sqlc.arg(begun_before);
