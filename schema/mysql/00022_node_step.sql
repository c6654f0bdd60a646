-- +goose Up
-- side by side: yes, because old builds do not use the new table.

-- What each node did in each step of 5 s of the last hour, and in each minute of the last day.
CREATE TABLE node_step (
    step_seconds SMALLINT NOT NULL, -- length of the step: 5 or 60
    begun_at     BIGINT NOT NULL, -- begin of the step, epoch milliseconds, UTC
    incarnation  VARCHAR(26) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    figures      TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- as JSON (clock/stats)
    PRIMARY KEY (step_seconds, begun_at, incarnation)
) ENGINE = InnoDB;
