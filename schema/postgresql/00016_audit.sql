-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the table: its acts are missing.
-- What people did (clock.Act). Instants are epoch milliseconds, UTC.
CREATE TABLE audit (
    id           BIGINT       GENERATED ALWAYS AS IDENTITY,
    done_at      BIGINT       NOT NULL,
    actor        VARCHAR(128) COLLATE "C" NOT NULL, -- name of the token or of the person; '': anyone
    token        VARCHAR(12)  COLLATE "C" NOT NULL, -- id of the token; '': none
    origin       VARCHAR(64)  COLLATE "C" NOT NULL, -- address of the client; '': a command on the database
    action       VARCHAR(32)  COLLATE "C" NOT NULL,
    application  VARCHAR(64)  COLLATE "C" NOT NULL, -- '': none
    subject      VARCHAR(128) COLLATE "C" NOT NULL, -- business id, or id of a token
    state_before TEXT         COLLATE "C" NOT NULL, -- JSON; '': there was nothing
    state_after  TEXT         COLLATE "C" NOT NULL, -- JSON
    PRIMARY KEY (id)
);
CREATE INDEX audit_application ON audit (application, id);
CREATE INDEX audit_done ON audit (done_at);

-- What people did, for people.
CREATE VIEW audit_report AS
SELECT id, (TIMESTAMP '1970-01-01' + done_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS done_at,
       actor, token, origin, action, application, subject, state_before, state_after
FROM audit;

-- +goose Down
DROP VIEW audit_report;
DROP TABLE audit;
