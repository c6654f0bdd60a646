-- name: ListArchive :many
-- Reads whole rows in the order of their ids, for an export. The caller reads page after page in one snapshot.
-- Index: primary key, as a range that ends at the limit. Rows: a page.
SELECT * FROM alarm WHERE id > sqlc.arg(after) ORDER BY id LIMIT sqlc.arg(row_limit);

-- name: ListAttemptsOf :many
-- Reads all attempts of the alarms, the oldest first.
-- Index: ring_attempt_alarm. Rows: up to 20 for each alarm of a page.
SELECT * FROM ring_attempt WHERE alarm_id = ANY(sqlc.arg(alarm_ids)::bigint[]) ORDER BY alarm_id, id;

-- name: RestoreAlarms :many
-- Inserts rows with all their columns except the id, which the database gives, and returns the ids in the order given. -1 stands for NULL.
-- Index: alarm_key. Rows: up to a group.
INSERT INTO alarm (
    application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at, latest_ring_at,
    next_try_time, ring_no, retry_times, last_error, in_doubt, retry_policy, ack_timeout, max_rings, priority, traceparent, claim_id,
    rung_at, create_time, update_time, finished_at, answer, answered_by, answered_at, delivery, due_rank, doubt_target,
    repeat_rule, repeat_state, past_generations, destination, receiver)
SELECT n.application, n.business_id, n.shard, n.state, n.generation, n.payload, n.payload_kind, n.content_type, n.target_ring_at,
       NULLIF(n.latest_ring_at, -1), NULLIF(n.next_try_time, -1), n.ring_no, n.retry_times, n.last_error, n.in_doubt, n.retry_policy,
       n.ack_timeout, n.max_rings, n.priority, n.traceparent, n.claim_id, NULLIF(n.rung_at, -1), n.create_time, n.update_time,
       NULLIF(n.finished_at, -1), n.answer, n.answered_by, NULLIF(n.answered_at, -1), n.delivery, n.due_rank, n.doubt_target,
       n.repeat_rule, n.repeat_state, n.past_generations, n.destination, n.receiver
FROM (SELECT unnest(sqlc.arg(application)::varchar[]) AS application,
             unnest(sqlc.arg(business_id)::varchar[]) AS business_id,
             unnest(sqlc.arg(shard)::smallint[]) AS shard,
             unnest(sqlc.arg(state)::smallint[]) AS state,
             unnest(sqlc.arg(generation)::bigint[]) AS generation,
             unnest(sqlc.arg(payload)::bytea[]) AS payload,
             unnest(sqlc.arg(payload_kind)::smallint[]) AS payload_kind,
             unnest(sqlc.arg(content_type)::varchar[]) AS content_type,
             unnest(sqlc.arg(target_ring_at)::bigint[]) AS target_ring_at,
             unnest(sqlc.arg(latest_ring_at)::bigint[]) AS latest_ring_at,
             unnest(sqlc.arg(next_try_time)::bigint[]) AS next_try_time,
             unnest(sqlc.arg(ring_no)::integer[]) AS ring_no,
             unnest(sqlc.arg(retry_times)::integer[]) AS retry_times,
             unnest(sqlc.arg(last_error)::varchar[]) AS last_error,
             unnest(sqlc.arg(in_doubt)::smallint[]) AS in_doubt,
             unnest(sqlc.arg(retry_policy)::varchar[]) AS retry_policy,
             unnest(sqlc.arg(ack_timeout)::bigint[]) AS ack_timeout,
             unnest(sqlc.arg(max_rings)::integer[]) AS max_rings,
             unnest(sqlc.arg(priority)::smallint[]) AS priority,
             unnest(sqlc.arg(traceparent)::varchar[]) AS traceparent,
             unnest(sqlc.arg(claim_id)::varchar[]) AS claim_id,
             unnest(sqlc.arg(rung_at)::bigint[]) AS rung_at,
             unnest(sqlc.arg(create_time)::bigint[]) AS create_time,
             unnest(sqlc.arg(update_time)::bigint[]) AS update_time,
             unnest(sqlc.arg(finished_at)::bigint[]) AS finished_at,
             unnest(sqlc.arg(answer)::smallint[]) AS answer,
             unnest(sqlc.arg(answered_by)::varchar[]) AS answered_by,
             unnest(sqlc.arg(answered_at)::bigint[]) AS answered_at,
             unnest(sqlc.arg(delivery)::smallint[]) AS delivery,
             unnest(sqlc.arg(due_rank)::smallint[]) AS due_rank,
             unnest(sqlc.arg(doubt_target)::smallint[]) AS doubt_target,
             unnest(sqlc.arg(repeat_rule)::varchar[]) AS repeat_rule,
             unnest(sqlc.arg(repeat_state)::varchar[]) AS repeat_state,
             unnest(sqlc.arg(past_generations)::varchar[]) AS past_generations,
             unnest(sqlc.arg(destination)::varchar[]) AS destination,
             unnest(sqlc.arg(receiver)::varchar[]) AS receiver) n
RETURNING id;

-- name: ListIDs :many
-- Lists ids above one, in order.
-- Index: primary key, as a range that ends at the limit. Rows: a page.
SELECT id FROM alarm WHERE id > sqlc.arg(after) ORDER BY id LIMIT sqlc.arg(row_limit);

-- name: DoubtDue :execrows
-- Marks due alarms of a restored database as in doubt.
-- Index: primary key. Rows: a page.
UPDATE alarm SET in_doubt = 1, last_error = sqlc.arg(reason)::varchar, update_time = sqlc.arg(now)::bigint
WHERE id = ANY(sqlc.arg(ids)::bigint[]) /* in shard */ AND state = 1 AND in_doubt = 0
  AND coalesce(next_try_time <= sqlc.arg(now)::bigint, FALSE);

-- name: RaiseGenerations :one
-- Raises the generations of alarms of a restored database that are neither due nor ringing, and of their attempts, and counts the alarms.
-- The times of a repeating alarm depend on its generation, so it stays.
-- Index: primary key and ring_attempt_alarm. Rows: one.
WITH raised AS (
    UPDATE alarm a SET generation = a.generation + sqlc.arg(by_count)::bigint
    WHERE a.id = ANY(sqlc.arg(ids)::bigint[]) /* in a.shard */ AND a.state <> 2 AND a.repeat_rule = ''
      AND (a.next_try_time IS NULL OR a.next_try_time > sqlc.arg(now)::bigint)
    RETURNING a.id
), attempts AS (
    UPDATE ring_attempt r SET generation = r.generation + sqlc.arg(by_count)::bigint FROM raised WHERE r.alarm_id = raised.id /* in r.shard */
)
SELECT count(*) FROM raised;

-- name: SkipIDs :exec
-- Skips ids of alarms.
SELECT setval(pg_get_serial_sequence('alarm', 'id'), nextval(pg_get_serial_sequence('alarm', 'id')) + sqlc.arg(ids)::bigint);
