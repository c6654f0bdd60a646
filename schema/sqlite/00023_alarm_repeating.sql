-- +goose Up
-- side by side: yes, because SQLite maintains the index.

-- The repeating alarms alone, in the order of their lists.
CREATE INDEX alarm_repeating ON alarm (application, business_id) WHERE repeat_state <> '';
