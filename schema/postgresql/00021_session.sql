-- +goose Up
-- side by side: yes, because old builds name the columns that they write, and the new ones have defaults. For an old build a session is a token without a secret, which opens nothing.

-- A session of the console is a token of its own, with its secret in session_secret. It is valid as long as its token and the secret that it
-- began with.
ALTER TABLE access_token
    ADD COLUMN parent_id     VARCHAR(12) COLLATE "C" NOT NULL DEFAULT '', -- id of the session's token; '': no session
    ADD COLUMN parent_secret VARCHAR(64) COLLATE "C" NOT NULL DEFAULT '', -- SHA-256 of the secret of parent_id that the session began with
    ADD COLUMN session_secret VARCHAR(64) COLLATE "C" NOT NULL DEFAULT ''; -- SHA-256 of the session's secret

-- REPLACE keeps the privileges on the view.
CREATE OR REPLACE VIEW access_token_report AS
SELECT id, name, role, applications,
       (TIMESTAMP '1970-01-01' + created_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS created_at, created_by,
       (TIMESTAMP '1970-01-01' + expires_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires_at,
       (TIMESTAMP '1970-01-01' + revoked_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS revoked_at,
       (TIMESTAMP '1970-01-01' + last_used_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS last_used_at,
       (TIMESTAMP '1970-01-01' + old_secret_until * INTERVAL '1 millisecond')::TIMESTAMP(3) AS old_secret_until,
       parent_id
FROM access_token;
