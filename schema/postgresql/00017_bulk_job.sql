-- +goose Up
-- side by side: yes, because only a new database gets it.
-- Changes of many alarms by a filter (clock/bulk.Job). A node works on a job as long as it renews its lease. Instants are epoch milliseconds, UTC.
CREATE TABLE bulk_job (
    id          VARCHAR(26) COLLATE "C" NOT NULL,
    created_at  BIGINT NOT NULL,
    ended_at    BIGINT NULL, -- NULL: not ended
    owner       VARCHAR(26) COLLATE "C" NOT NULL, -- incarnation of the node that works on the job; '': none
    lease_until BIGINT NOT NULL,
    revision    BIGINT NOT NULL, -- one more with each change
    document    TEXT COLLATE "C" NOT NULL, -- filter, action and progress, as JSON
    PRIMARY KEY (id)
);
CREATE INDEX bulk_job_ended ON bulk_job (ended_at, created_at);
