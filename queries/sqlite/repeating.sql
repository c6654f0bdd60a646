-- name: ListRepeating :many
-- Lists repeating alarms of one application in the order of business_id. ListAlarms explains the single lower bound.
-- Index: alarm_repeating, as a range that ends at the limit. Rows: up to 1,000.
SELECT * FROM alarm
WHERE application = sqlc.arg(application)
  AND business_id >= sqlc.arg(lower) AND business_id < sqlc.arg(upper)
  AND repeat_state <> ''
ORDER BY business_id
LIMIT sqlc.arg(row_limit);

-- name: NextRepeatingApplication :one
-- Reads the name of the first application with repeating alarms after the given name.
-- Index: alarm_repeating. Rows: one, or none.
SELECT application FROM alarm WHERE application > sqlc.arg(after) AND repeat_state <> '' ORDER BY application LIMIT 1;

-- name: ListRules :many
-- Reads the rules of repeating alarms of one application, without payloads, in the order of business_id.
-- Index: alarm_repeating, as a range that ends at the limit. Rows: up to 20,000.
SELECT business_id, generation, next_try_time, repeat_rule, repeat_state FROM alarm
WHERE application = sqlc.arg(application) AND repeat_state <> ''
ORDER BY business_id
LIMIT sqlc.arg(row_limit);

-- name: CountRepeating :one
-- Counts repeating alarms of one application, up to row_limit.
-- Index: alarm_repeating, as a range that ends at the limit. Rows: one.
SELECT COUNT(*) FROM (
  SELECT a.id FROM alarm a WHERE a.application = sqlc.arg(application) AND a.repeat_state <> '' LIMIT sqlc.arg(row_limit)
);
