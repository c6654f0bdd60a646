-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the table: nodes with this build do the jobs.
-- Changes of many alarms by a filter (clock/bulk.Job). A node works on a job as long as it renews its lease. Instants are epoch milliseconds, UTC.
CREATE TABLE bulk_job (
    id          VARCHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    created_at  BIGINT NOT NULL,
    ended_at    BIGINT NULL, -- NULL: not ended
    owner       VARCHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- incarnation of the node that works on the job; '': none
    lease_until BIGINT NOT NULL,
    revision    BIGINT NOT NULL, -- one more with each change
    document    MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- filter, action and progress, as JSON
    PRIMARY KEY (id),
    KEY bulk_job_ended (ended_at, created_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- +goose Down
DROP TABLE bulk_job;
