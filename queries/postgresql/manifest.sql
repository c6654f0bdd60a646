-- name: GetManifest :one
-- Reads what the manifests of an application have made.
-- Index: primary key. Rows: one, or none.
SELECT application, version, document, changed_at, changed_by FROM application_manifest WHERE application = sqlc.arg(application);

-- name: ListManifests :many
-- Reads what the manifests of the next applications have made.
-- Index: primary key. Rows: up to the limit.
SELECT application, version, document, changed_at, changed_by FROM application_manifest
WHERE application > sqlc.arg(after_application) ORDER BY application LIMIT sqlc.arg(row_limit);

-- name: PutManifest :exec
-- Writes what the manifests of an application have made.
-- Index: primary key. Rows: one.
INSERT INTO application_manifest (application, version, document, changed_at, changed_by)
VALUES (sqlc.arg(application), sqlc.arg(version), sqlc.arg(document), sqlc.arg(changed_at), sqlc.arg(changed_by))
ON CONFLICT (application) DO UPDATE SET version = excluded.version, document = excluded.document, changed_at = excluded.changed_at,
    changed_by = excluded.changed_by;
