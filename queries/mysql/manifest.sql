-- name: GetManifest :one
-- Reads what the manifests of an application have made.
-- Index: primary key. Rows: one, or none.
SELECT application, version, document, changed_at, changed_by FROM application_manifest WHERE application = sqlc.arg(application);

-- name: ListManifests :many
-- Reads what the manifests of the next applications have made.
-- Index: primary key. Rows: up to the limit.
SELECT application, version, document, changed_at, changed_by FROM application_manifest
WHERE application > sqlc.arg(after_application) ORDER BY application LIMIT ?;

-- name: PutManifest :exec
-- Writes what the manifests of an application have made.
-- Index: primary key. Rows: one.
INSERT INTO application_manifest (application, version, document, changed_at, changed_by)
VALUES (sqlc.arg(application), sqlc.arg(version), sqlc.arg(document), sqlc.arg(changed_at), sqlc.arg(changed_by))
ON DUPLICATE KEY UPDATE version = VALUES(version), document = VALUES(document), changed_at = VALUES(changed_at), changed_by = VALUES(changed_by);
