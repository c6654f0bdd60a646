-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the table: nodes with this build do the jobs.
-- Changes of many alarms by a filter (clock/bulk.Job). A node works on a job as long as it renews its lease. Instants are epoch milliseconds, UTC.
CREATE TABLE bulk_job (
    id          TEXT NOT NULL,
    created_at  INTEGER NOT NULL,
    ended_at    INTEGER, -- NULL: not ended
    owner       TEXT NOT NULL, -- incarnation of the node that works on the job; '': none
    lease_until INTEGER NOT NULL,
    revision    INTEGER NOT NULL, -- one more with each change
    document    TEXT NOT NULL, -- filter, action and progress, as JSON
    PRIMARY KEY (id)
) STRICT;
CREATE INDEX bulk_job_ended ON bulk_job (ended_at, created_at);

-- +goose Down
DROP TABLE bulk_job;
