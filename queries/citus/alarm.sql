-- Statements of a distributed database that differ from the statement with the same name in queries/postgresql by more than the condition
-- on the shards. store/postgresql/distributed.go says how both become statements for one placement.

-- name: InsertAlarms :many
-- Inserts the sets of a group whose keys do not exist, and returns the ids of the new rows. The statement runs on the worker because it takes
-- shard from gate.
-- Index: alarm_key. Rows: as given, up to a group.
INSERT INTO alarm (
    id, application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at, latest_ring_at,
    next_try_time, retry_policy, ack_timeout, max_rings, priority, traceparent, create_time, update_time, delivery, due_rank, repeat_rule, repeat_state, destination, receiver)
SELECT n.id, n.application, n.business_id, g.shard, n.state, n.generation, n.payload, n.payload_kind, n.content_type, n.target_ring_at,
       NULLIF(n.latest_ring_at, -1), NULLIF(n.next_try_time, -1), n.retry_policy, n.ack_timeout, n.max_rings, n.priority,
       n.traceparent, n.create_time, n.create_time, n.delivery, n.due_rank, n.repeat_rule, n.repeat_state, n.destination, n.receiver
FROM (SELECT unnest(sqlc.arg(id)::bigint[]) AS id,
             unnest(sqlc.arg(application)::varchar[]) AS application,
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
JOIN gate g ON g.shard = n.shard /* in g.shard */
WHERE NOT EXISTS (SELECT 1 FROM alarm a WHERE a.application = n.application AND a.business_id = n.business_id /* in a.shard */)
RETURNING id;
