-- +goose Up
-- side by side: yes, because the server maintains the index. Writes of alarms wait while it is made.

-- The repeating alarms alone, in the order of their lists.
CREATE INDEX alarm_repeating ON alarm (application, business_id) WHERE repeat_state <> '';
