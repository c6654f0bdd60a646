-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the table: its acts are missing.
-- What people did (clock.Act). Instants are epoch milliseconds, UTC.
CREATE TABLE audit (
    id           BIGINT       NOT NULL AUTO_INCREMENT,
    done_at      BIGINT       NOT NULL,
    actor        VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- name of the token or of the person; '': anyone
    token        VARCHAR(12)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- id of the token; '': none
    origin       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- address of the client; '': a command on the database
    action       VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    application  VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- '': none
    subject      VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- business id, or id of a token
    state_before TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- JSON; '': there was nothing
    state_after  TEXT         CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL, -- JSON
    PRIMARY KEY (id),
    KEY audit_application (application, id),
    KEY audit_done (done_at)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- What people did, for people.
CREATE VIEW audit_report AS
SELECT id, CAST(TIMESTAMPADD(MICROSECOND, done_at * 1000, '1970-01-01') AS DATETIME(3)) AS done_at,
       actor, token, origin, action, application, subject, state_before, state_after
FROM audit;

-- +goose Down
DROP VIEW audit_report;
DROP TABLE audit;
