-- +goose Up
-- side by side: yes, because the database maintains the index.

-- The acts on one alarm.
CREATE INDEX audit_subject ON audit (application, subject, id);
