-- name: AddJob :exec
-- Index: primary key. Rows: one.
INSERT INTO bulk_job (id, created_at, ended_at, owner, lease_until, revision, document)
VALUES (sqlc.arg(id), sqlc.arg(created_at), sqlc.narg(ended_at), sqlc.arg(owner), sqlc.arg(lease_until), sqlc.arg(revision), sqlc.arg(document));

-- name: GetJob :one
-- Index: primary key. Rows: one, or none.
SELECT * FROM bulk_job WHERE id = sqlc.arg(id);

-- name: ListOpenJobs :many
-- Lists the jobs that have not ended, the oldest first.
-- Index: bulk_job_ended. Rows: up to the limit.
SELECT * FROM bulk_job FORCE INDEX (bulk_job_ended) WHERE ended_at IS NULL ORDER BY created_at LIMIT ?;

-- name: ListJobs :many
-- Lists jobs, the newest first. The table is small: ended jobs are deleted.
-- Index: none. Rows: up to the limit.
SELECT * FROM bulk_job ORDER BY created_at DESC, id LIMIT ?;

-- name: WriteJob :execrows
-- Writes the next state of a job, unless another node has written one since the job was read.
-- Index: primary key. Rows: one, or none.
UPDATE bulk_job SET ended_at = sqlc.narg(ended_at), owner = sqlc.arg(owner), lease_until = sqlc.arg(lease_until), revision = revision + 1,
    document = sqlc.arg(document)
WHERE id = sqlc.arg(id) AND revision = sqlc.arg(revision);

-- name: DeleteJobs :execrows
-- Deletes the jobs that ended before the instant.
-- Index: bulk_job_ended. Rows: few.
DELETE FROM bulk_job WHERE ended_at < sqlc.arg(before_time);
