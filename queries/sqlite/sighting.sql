-- name: AddSighting :exec
-- Adds the time at which an application was seen, or replaces an earlier one.
-- Index: primary key. Rows: one.
INSERT INTO application_sighting (application, seen_at) VALUES (sqlc.arg(application), sqlc.arg(seen_at))
ON CONFLICT (application) DO UPDATE SET seen_at = max(application_sighting.seen_at, excluded.seen_at);

-- name: ListSightings :many
-- Reads when some applications were seen.
-- Index: primary key. Rows: one for each application.
SELECT application, seen_at FROM application_sighting WHERE application IN (SELECT value FROM json_each(CAST(sqlc.arg(applications) AS TEXT)));

-- name: DeleteSightings :execrows
-- Deletes the oldest sightings from before an instant.
-- Index: application_sighting_seen. Rows: up to the limit.
DELETE FROM application_sighting WHERE application IN (
    SELECT o.application FROM application_sighting o WHERE o.seen_at < sqlc.arg(seen_before)
    ORDER BY o.seen_at LIMIT sqlc.arg(row_limit)
);
