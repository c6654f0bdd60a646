-- +goose Up
-- side by side: yes, because the server maintains the index. Writes of alarms wait while it is made.

-- Expired, dead and paused alarms, which wait for a person, by state: many paused alarms do not hide a dead one.
DROP INDEX alarm_attention;
CREATE INDEX alarm_attention ON alarm (application, state, business_id) WHERE state IN (4, 5, 7);
