-- +goose Up
-- What is over leaves the due entries of its shard for those without a next_try_time, in the order in which it ended: the
-- purger finds it there, and who ends an alarm moves one index entry, not two. finished_at is NULL for all that is due.
ALTER TABLE alarm
    DROP KEY alarm_finished,
    DROP KEY alarm_due,
    ADD KEY alarm_due (shard, next_try_time, finished_at, due_rank, id, application);

-- +goose Down
ALTER TABLE alarm
    DROP KEY alarm_due,
    ADD KEY alarm_due (shard, next_try_time, due_rank, id, application),
    ADD KEY alarm_finished (finished_at, id);
