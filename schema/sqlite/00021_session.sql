-- +goose Up
-- side by side: yes, because old builds name the columns that they write, and the new ones have defaults. For an old build a session is a token without a secret, which opens nothing.

-- A session of the console is a token of its own, with its secret in session_secret. It is valid as long as its token and the secret that it
-- began with.
ALTER TABLE access_token ADD COLUMN parent_id TEXT NOT NULL DEFAULT ''; -- id of the session's token; '': no session
ALTER TABLE access_token ADD COLUMN parent_secret TEXT NOT NULL DEFAULT ''; -- SHA-256 of the secret of parent_id that the session began with
ALTER TABLE access_token ADD COLUMN session_secret TEXT NOT NULL DEFAULT ''; -- SHA-256 of the session's secret

DROP VIEW access_token_report;
CREATE VIEW access_token_report AS
SELECT id, name, role, applications,
       datetime(created_at / 1000, 'unixepoch') || printf('.%03d', created_at % 1000) AS created_at, created_by,
       datetime(expires_at / 1000, 'unixepoch') || printf('.%03d', expires_at % 1000) AS expires_at,
       datetime(revoked_at / 1000, 'unixepoch') || printf('.%03d', revoked_at % 1000) AS revoked_at,
       datetime(last_used_at / 1000, 'unixepoch') || printf('.%03d', last_used_at % 1000) AS last_used_at,
       datetime(old_secret_until / 1000, 'unixepoch') || printf('.%03d', old_secret_until % 1000) AS old_secret_until,
       parent_id
FROM access_token;
