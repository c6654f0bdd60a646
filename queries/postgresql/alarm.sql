-- name: InsertAlarms :many
-- Inserts the sets of a group whose keys do not exist, and returns the ids of the new rows in the order given.
-- NOT EXISTS sees the committed version of a row that another transaction is updating, and skips its key without waiting. So the
-- statement waits only for a key that another transaction is inserting. If that transaction commits, the whole statement is refused
-- (23505). ON CONFLICT would leave out that key alone, but it writes each row in two steps, which costs a third more.
-- A column may be empty if all its values are the default: unnest pads it with NULL.
-- Index: alarm_key. Rows: as given, up to a group.
INSERT INTO alarm (
    application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at, latest_ring_at,
    next_try_time, retry_policy, ack_timeout, max_rings, priority, traceparent, create_time, update_time, delivery, due_rank, repeat_rule, repeat_state, destination, receiver)
SELECT n.application, n.business_id, n.shard, n.state, n.generation, n.payload, n.payload_kind, n.content_type, n.target_ring_at,
       NULLIF(n.latest_ring_at, -1), NULLIF(n.next_try_time, -1), COALESCE(n.retry_policy, ''), COALESCE(n.ack_timeout, 0), n.max_rings,
       n.priority, COALESCE(n.traceparent, ''), n.create_time, n.create_time, COALESCE(n.delivery, 0), n.due_rank,
       COALESCE(n.repeat_rule, ''), COALESCE(n.repeat_state, ''), COALESCE(n.destination, ''), COALESCE(n.receiver, '')
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
             unnest(sqlc.arg(retry_policy)::varchar[]) AS retry_policy,
             unnest(sqlc.arg(ack_timeout)::bigint[]) AS ack_timeout,
             unnest(sqlc.arg(max_rings)::integer[]) AS max_rings,
             unnest(sqlc.arg(priority)::smallint[]) AS priority,
             unnest(sqlc.arg(traceparent)::varchar[]) AS traceparent,
             unnest(sqlc.arg(create_time)::bigint[]) AS create_time,
             unnest(sqlc.arg(delivery)::smallint[]) AS delivery,
             unnest(sqlc.arg(due_rank)::smallint[]) AS due_rank,
             unnest(sqlc.arg(repeat_rule)::varchar[]) AS repeat_rule,
             unnest(sqlc.arg(repeat_state)::varchar[]) AS repeat_state,
             unnest(sqlc.arg(destination)::varchar[]) AS destination,
             unnest(sqlc.arg(receiver)::varchar[]) AS receiver) n
WHERE NOT EXISTS (SELECT 1 FROM alarm a WHERE a.application = n.application AND a.business_id = n.business_id)
RETURNING id;

-- name: CancelScheduled :many
-- Cancels the rows of the keys that are scheduled and not in doubt. It skips rows whose present version
-- some transaction has locked or changed, also after that transaction has ended (xmax = 0 for the others). So it waits for no row, and it
-- needs no separate lock, which would write each row twice.
-- Index: alarm_key. Rows: up to a group.
UPDATE alarm a
SET state = 6, next_try_time = NULL, update_time = sqlc.arg(now), finished_at = sqlc.arg(now)
FROM (SELECT unnest(sqlc.arg(applications)::varchar[]) AS application, unnest(sqlc.arg(business_ids)::varchar[]) AS business_id) k
WHERE a.application = k.application AND a.business_id = k.business_id /* in a.shard */ AND a.state = 1 AND a.in_doubt = 0 AND a.xmax = 0
RETURNING a.*;

-- name: CancelScheduledBriefly :many
-- Like CancelScheduled, but returns neither the content nor the columns whose values are known for every row it cancels.
-- Index: alarm_key. Rows: up to a group.
UPDATE alarm a
SET state = 6, next_try_time = NULL, update_time = sqlc.arg(now), finished_at = sqlc.arg(now)
FROM (SELECT unnest(sqlc.arg(applications)::varchar[]) AS application, unnest(sqlc.arg(business_ids)::varchar[]) AS business_id) k
WHERE a.application = k.application AND a.business_id = k.business_id /* in a.shard */ AND a.state = 1 AND a.in_doubt = 0 AND a.xmax = 0
RETURNING a.id, a.application, a.business_id, a.shard, a.generation;

-- name: LockAlarms :many
-- Locks and returns the free rows of the keys, in the order of the keys.
-- Index: alarm_key. Rows: up to a group.
SELECT a.*
FROM (SELECT unnest(sqlc.arg(applications)::varchar[]) AS application, unnest(sqlc.arg(business_ids)::varchar[]) AS business_id) k
JOIN alarm a ON a.application = k.application AND a.business_id = k.business_id /* in a.shard */
ORDER BY a.application, a.business_id
FOR UPDATE OF a SKIP LOCKED;

-- name: LockAlarmsWaiting :many
-- Like LockAlarms, but waits for locked rows as long as lock_timeout allows.
-- Index: alarm_key. Rows: usually one.
SELECT a.*
FROM (SELECT unnest(sqlc.arg(applications)::varchar[]) AS application, unnest(sqlc.arg(business_ids)::varchar[]) AS business_id) k
JOIN alarm a ON a.application = k.application AND a.business_id = k.business_id /* in a.shard */
ORDER BY a.application, a.business_id
FOR UPDATE OF a;

-- name: ReadAlarms :many
-- Reads the last committed rows of the keys, without a lock.
-- Index: alarm_key. Rows: the few rows that LockAlarms skipped.
SELECT a.*
FROM (SELECT unnest(sqlc.arg(applications)::varchar[]) AS application, unnest(sqlc.arg(business_ids)::varchar[]) AS business_id) k
JOIN alarm a ON a.application = k.application AND a.business_id = k.business_id /* in a.shard */
ORDER BY a.application, a.business_id;

-- name: RewriteAlarms :execrows
-- Writes the rows that a set has changed: all columns except the key and create_time. The row loses the answer to its previous
-- generation.
-- Index: primary key. Rows: up to a group.
UPDATE alarm a
SET state = c.state, generation = c.generation, payload = c.payload, payload_kind = c.payload_kind,
    content_type = c.content_type, target_ring_at = c.target_ring_at, latest_ring_at = NULLIF(c.latest_ring_at, -1),
    next_try_time = NULLIF(c.next_try_time, -1), ring_no = c.ring_no, retry_times = c.retry_times, last_error = c.last_error,
    in_doubt = c.in_doubt, retry_policy = c.retry_policy, ack_timeout = c.ack_timeout, max_rings = c.max_rings,
    priority = c.priority, due_rank = c.due_rank, delivery = c.delivery, traceparent = c.traceparent,
    claim_id = c.claim_id, rung_at = NULLIF(c.rung_at, -1), answer = 0, answered_by = '', answered_at = NULL,
    update_time = c.update_time, finished_at = NULLIF(c.finished_at, -1), repeat_rule = c.repeat_rule, repeat_state = c.repeat_state,
    past_generations = c.past_generations, destination = c.destination, receiver = c.receiver
FROM (SELECT unnest(sqlc.arg(id)::bigint[]) AS id,
             unnest(sqlc.arg(old_generation)::bigint[]) AS old_generation,
             unnest(sqlc.arg(old_state)::smallint[]) AS old_state,
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
             unnest(sqlc.arg(update_time)::bigint[]) AS update_time,
             unnest(sqlc.arg(finished_at)::bigint[]) AS finished_at,
             unnest(sqlc.arg(delivery)::smallint[]) AS delivery,
             unnest(sqlc.arg(due_rank)::smallint[]) AS due_rank,
             unnest(sqlc.arg(repeat_rule)::varchar[]) AS repeat_rule,
             unnest(sqlc.arg(repeat_state)::varchar[]) AS repeat_state,
             unnest(sqlc.arg(past_generations)::varchar[]) AS past_generations,
             unnest(sqlc.arg(destination)::varchar[]) AS destination,
             unnest(sqlc.arg(receiver)::varchar[]) AS receiver) c
WHERE a.id = c.id /* in a.shard */ AND a.generation = c.old_generation AND a.state = c.old_state;

-- name: AmendAlarms :execrows
-- Writes rows that were cancelled, answered, resent, kicked, discarded, paused, resumed or recomputed. The generation and the content stay, except
-- target_ring_at and latest_ring_at. It does not write the payload again.
-- Index: primary key. Rows: up to a group.
UPDATE alarm a
SET state = c.state, target_ring_at = c.target_ring_at, latest_ring_at = NULLIF(c.latest_ring_at, -1),
    next_try_time = NULLIF(c.next_try_time, -1), ring_no = c.ring_no, retry_times = c.retry_times, last_error = c.last_error, in_doubt = c.in_doubt, rung_at = NULLIF(c.rung_at, -1),
    answer = c.answer, answered_by = c.answered_by, answered_at = NULLIF(c.answered_at, -1),
    update_time = c.update_time, finished_at = NULLIF(c.finished_at, -1), repeat_state = c.repeat_state, doubt_target = c.doubt_target,
    past_generations = c.past_generations
FROM (SELECT unnest(sqlc.arg(id)::bigint[]) AS id,
             unnest(sqlc.arg(old_generation)::bigint[]) AS old_generation,
             unnest(sqlc.arg(old_state)::smallint[]) AS old_state,
             unnest(sqlc.arg(old_ring_no)::integer[]) AS old_ring_no,
             unnest(sqlc.arg(state)::smallint[]) AS state,
             unnest(sqlc.arg(target_ring_at)::bigint[]) AS target_ring_at,
             unnest(sqlc.arg(latest_ring_at)::bigint[]) AS latest_ring_at,
             unnest(sqlc.arg(next_try_time)::bigint[]) AS next_try_time,
             unnest(sqlc.arg(ring_no)::integer[]) AS ring_no,
             unnest(sqlc.arg(retry_times)::integer[]) AS retry_times,
             unnest(sqlc.arg(last_error)::varchar[]) AS last_error,
             unnest(sqlc.arg(in_doubt)::smallint[]) AS in_doubt,
             unnest(sqlc.arg(rung_at)::bigint[]) AS rung_at,
             unnest(sqlc.arg(answer)::smallint[]) AS answer,
             unnest(sqlc.arg(answered_by)::varchar[]) AS answered_by,
             unnest(sqlc.arg(answered_at)::bigint[]) AS answered_at,
             unnest(sqlc.arg(update_time)::bigint[]) AS update_time,
             unnest(sqlc.arg(finished_at)::bigint[]) AS finished_at,
             unnest(sqlc.arg(repeat_state)::varchar[]) AS repeat_state,
             unnest(sqlc.arg(doubt_target)::smallint[]) AS doubt_target,
             unnest(sqlc.arg(past_generations)::varchar[]) AS past_generations) c
WHERE a.id = c.id /* in a.shard */ AND a.generation = c.old_generation AND a.state = c.old_state AND a.ring_no = c.old_ring_no;

-- name: GetAlarm :one
-- Index: alarm_key. Rows: one.
SELECT * FROM alarm WHERE application = sqlc.arg(application) AND business_id = sqlc.arg(business_id) /* in shard */;

-- name: ListKeys :many
-- Reads the keys of the alarms with these ids.
-- Index: primary key. Rows: up to a chunk of answers.
SELECT id, application, business_id FROM alarm WHERE id = ANY(sqlc.arg(ids)::bigint[]) /* in shard */ ORDER BY id;

-- name: ListAlarms :many
-- Lists alarms of one application in the order of business_id. An empty array of states does not restrict.
-- Index: alarm_key, as a range that ends at the limit. Rows: up to 1,000.
SELECT * FROM alarm
WHERE application = sqlc.arg(application)
  AND business_id > sqlc.arg(after) AND business_id >= sqlc.arg(prefix) AND business_id < sqlc.arg(range_end)
  AND (cardinality(sqlc.arg(states)::smallint[]) = 0 OR state = ANY(sqlc.arg(states)::smallint[]))
ORDER BY business_id
LIMIT sqlc.arg(row_limit);

-- name: ListBound :many
-- Finds how far a list by state may look: two neighbouring business ids, after the given number of ids.
-- Index: alarm_key alone, as a range that ends at the second id. Rows: two, or fewer at the end of the list.
SELECT business_id FROM alarm
WHERE application = sqlc.arg(application)
  AND business_id > sqlc.arg(after) AND business_id >= sqlc.arg(prefix) AND business_id < sqlc.arg(range_end)
ORDER BY business_id
LIMIT 2 OFFSET sqlc.arg(entries);

-- name: ListAttention :many
-- Lists the business ids of expired, dead or paused alarms of one application in order.
-- Index: alarm_attention alone, as a range that ends at the limit. Rows: up to 1,000.
SELECT business_id FROM alarm
WHERE application = sqlc.arg(application) AND state = sqlc.arg(state) AND state IN (4, 5, 7)
  AND business_id > sqlc.arg(after) AND business_id >= sqlc.arg(prefix) AND business_id < sqlc.arg(range_end)
ORDER BY business_id
LIMIT sqlc.arg(row_limit);

-- name: CountAttention :one
-- Counts expired, dead or paused alarms of one application, up to row_limit.
-- Index: alarm_attention alone, as a range that ends at the limit. Rows: one.
SELECT count(*) FROM (
  SELECT 1 FROM alarm WHERE application = sqlc.arg(application) AND state = sqlc.arg(state) AND state IN (4, 5, 7) LIMIT sqlc.arg(row_limit)
) counted;

-- name: NextAttentionApplication :one
-- Reads the name of the first application after the given name that has expired, dead or paused alarms.
-- Index: alarm_attention alone. Rows: one, or none.
SELECT application FROM alarm WHERE application > sqlc.arg(after) AND state IN (4, 5, 7) ORDER BY application LIMIT 1;

-- name: NextApplications :many
-- Reads the name of the first application with alarms after each of some names, in their order; empty for none.
-- Index: alarm_key alone. Rows: one for each name.
SELECT COALESCE((SELECT a.application FROM alarm a WHERE a.application > n.name ORDER BY a.application LIMIT 1), '')::varchar AS application
FROM unnest(sqlc.arg(names)::varchar[]) WITH ORDINALITY AS n(name, number)
ORDER BY n.number;

-- name: NextApplication :one
-- Reads the name of the first application with alarms after the given name.
-- Index: alarm_key alone. Rows: one, or none.
SELECT application FROM alarm WHERE application > sqlc.arg(after) ORDER BY application LIMIT 1;

-- name: CountStates :many
-- Counts alarms of one application by state: the first ones by business_id, up to row_limit.
-- Index: alarm_key, as a range that ends at the limit. Rows: one for each state.
SELECT s.state, count(*) AS count
FROM (SELECT a.state FROM alarm a WHERE a.application = sqlc.arg(application) ORDER BY a.business_id LIMIT sqlc.arg(row_limit)) s
GROUP BY s.state ORDER BY s.state LIMIT 100;

-- name: DeleteAlarm :execrows
-- Deletes the alarm of a write probe, in the transaction that inserted it.
-- Index: primary key. Rows: one.
DELETE FROM alarm WHERE id = sqlc.arg(id) /* in shard */;
