-- +goose Up
-- Finished alarms have no next_try_time. They lie in the same index, apart from the due entries of their shard, in the order in which they
-- finished. The purger finds them there, and the end of an alarm moves one index entry instead of two. Every due alarm has a NULL
-- finished_at.
ALTER TABLE alarm
    DROP KEY alarm_finished,
    DROP KEY alarm_due;
ALTER TABLE alarm ADD KEY alarm_due (shard, next_try_time, finished_at, due_rank, id, application);

-- +goose Down
ALTER TABLE alarm DROP KEY alarm_due;
ALTER TABLE alarm
    ADD KEY alarm_due (shard, next_try_time, due_rank, id, application),
    ADD KEY alarm_finished (finished_at, id);
