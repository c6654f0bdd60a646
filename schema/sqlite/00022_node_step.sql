-- +goose Up
-- side by side: yes, because old builds do not use the new table.

-- What each node did in each step of 5 s of the last hour, and in each minute of the last day.
CREATE TABLE node_step (
    step_seconds INTEGER NOT NULL, -- length of the step: 5 or 60
    begun_at     INTEGER NOT NULL, -- begin of the step, epoch milliseconds, UTC
    incarnation  TEXT NOT NULL,
    figures      TEXT NOT NULL, -- as JSON (clock/stats)
    PRIMARY KEY (step_seconds, begun_at, incarnation)
) STRICT, WITHOUT ROWID;
