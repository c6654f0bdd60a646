-- +goose Up
-- side by side: yes, because old builds name the columns that they write, and the new ones have defaults. For an old build a session is a token without a secret, which opens nothing.

-- A session of the console is a token of its own, with its secret in session_secret. It is valid as long as its token and the secret that it
-- began with.
ALTER TABLE access_token
    ADD COLUMN parent_id     VARCHAR(12) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- id of the session's token; '': no session
    ADD COLUMN parent_secret VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT '', -- SHA-256 of the secret of parent_id that the session began with
    ADD COLUMN session_secret VARCHAR(64) CHARACTER SET ascii COLLATE ascii_bin NOT NULL DEFAULT ''; -- SHA-256 of the session's secret

DROP VIEW access_token_report;
CREATE VIEW access_token_report AS
SELECT id, name, role, applications,
       CAST(TIMESTAMPADD(MICROSECOND, created_at * 1000, '1970-01-01') AS DATETIME(3)) AS created_at, created_by,
       CAST(TIMESTAMPADD(MICROSECOND, expires_at * 1000, '1970-01-01') AS DATETIME(3)) AS expires_at,
       CAST(TIMESTAMPADD(MICROSECOND, revoked_at * 1000, '1970-01-01') AS DATETIME(3)) AS revoked_at,
       CAST(TIMESTAMPADD(MICROSECOND, last_used_at * 1000, '1970-01-01') AS DATETIME(3)) AS last_used_at,
       CAST(TIMESTAMPADD(MICROSECOND, old_secret_until * 1000, '1970-01-01') AS DATETIME(3)) AS old_secret_until,
       parent_id
FROM access_token;
