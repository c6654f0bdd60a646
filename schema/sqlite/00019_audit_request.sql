-- +goose Up
-- side by side: yes, because old builds name the columns that they write, and the new one has a default.

-- The id of the request, as logs and problems have it; '': none.
ALTER TABLE audit ADD COLUMN request_id TEXT NOT NULL DEFAULT '';

DROP VIEW audit_report;
CREATE VIEW audit_report AS
SELECT id, datetime(done_at / 1000, 'unixepoch') || printf('.%03d', done_at % 1000) AS done_at,
       actor, token, origin, action, application, subject, state_before, state_after, request_id
FROM audit;
