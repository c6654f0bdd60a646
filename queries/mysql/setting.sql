-- name: ReadSettingCounter :one
-- Reads the number of changes of all settings.
-- Index: primary key. Rows: one.
SELECT changes FROM application_setting_counter WHERE only_row = 1;

-- name: ListSettings :many
-- Reads the settings of all applications. LIMIT is a safety net.
-- Index: primary key. Rows: one for each application with settings.
SELECT application, version, document, changed_at, changed_by FROM application_setting ORDER BY application LIMIT 100000;

-- name: GetSetting :one
-- Index: primary key. Rows: one, or none.
SELECT application, version, document, changed_at, changed_by FROM application_setting WHERE application = sqlc.arg(application);

-- name: ListSettingHistory :many
-- Reads the newest versions of an application's settings before a version, newest first.
-- Index: primary key. Rows: up to the limit.
SELECT application, version, document, changed_at, changed_by FROM application_setting_history
WHERE application = sqlc.arg(application) AND version < sqlc.arg(before_version)
ORDER BY version DESC LIMIT ?;

-- name: CountSettingChange :execrows
-- Counts a change. The lock on the row makes concurrent changes of settings wait for each other.
-- Index: primary key. Rows: one.
UPDATE application_setting_counter SET changes = changes + 1 WHERE only_row = 1;

-- name: PutSetting :exec
-- Writes the current version of an application's settings.
-- Index: primary key. Rows: one.
INSERT INTO application_setting (application, version, document, changed_at, changed_by)
VALUES (sqlc.arg(application), sqlc.arg(version), sqlc.arg(document), sqlc.arg(changed_at), sqlc.arg(changed_by))
ON DUPLICATE KEY UPDATE version = VALUES(version), document = VALUES(document), changed_at = VALUES(changed_at), changed_by = VALUES(changed_by);

-- name: AddSettingHistory :exec
-- Keeps a version of an application's settings.
-- Index: primary key. Rows: one.
INSERT INTO application_setting_history (application, version, document, changed_at, changed_by)
VALUES (sqlc.arg(application), sqlc.arg(version), sqlc.arg(document), sqlc.arg(changed_at), sqlc.arg(changed_by));

-- name: RewriteSetting :exec
-- Replaces the document of a version, if it is the current one.
-- Index: primary key. Rows: one, or none.
UPDATE application_setting SET document = sqlc.arg(document)
WHERE application = sqlc.arg(application) AND version = sqlc.arg(version);

-- name: RewriteSettingHistory :exec
-- Replaces the document of a version that was ever current.
-- Index: primary key. Rows: one.
UPDATE application_setting_history SET document = sqlc.arg(document)
WHERE application = sqlc.arg(application) AND version = sqlc.arg(version);
