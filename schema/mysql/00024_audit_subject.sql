-- +goose Up
-- side by side: yes, because the database maintains the index.

-- The acts on one alarm.
ALTER TABLE audit ADD KEY audit_subject (application, subject, id);
