-- +goose Up
-- side by side: yes, because an older build does not use the index, and the database keeps it.
-- The alarms that wait for a person: expired, dead and paused ones. Lists of them read only these. A set, a ring or a cancel that succeeds
-- does not touch the index.
CREATE INDEX alarm_attention ON alarm (application, business_id) WHERE state IN (4, 5, 7);

-- +goose Down
DROP INDEX alarm_attention;
