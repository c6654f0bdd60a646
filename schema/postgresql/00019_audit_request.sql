-- +goose Up
-- side by side: yes, because old builds name the columns that they write, and the new one has a default.

-- The id of the request, as logs and problems have it; '': none.
ALTER TABLE audit ADD COLUMN request_id VARCHAR(128) COLLATE "C" NOT NULL DEFAULT '';

-- REPLACE keeps the privileges on the view.
CREATE OR REPLACE VIEW audit_report AS
SELECT id, (TIMESTAMP '1970-01-01' + done_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS done_at,
       actor, token, origin, action, application, subject, state_before, state_after, request_id
FROM audit;
