-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the table: its acts are missing.
-- What people did (clock.Act). Instants are epoch milliseconds, UTC.
CREATE TABLE audit (
    id           INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    done_at      INTEGER NOT NULL,
    actor        TEXT    NOT NULL, -- name of the token or of the person; '': anyone
    token        TEXT    NOT NULL, -- id of the token; '': none
    origin       TEXT    NOT NULL, -- address of the client; '': a command on the database
    action       TEXT    NOT NULL,
    application  TEXT    NOT NULL, -- '': none
    subject      TEXT    NOT NULL, -- business id, or id of a token
    state_before TEXT    NOT NULL, -- JSON; '': there was nothing
    state_after  TEXT    NOT NULL -- JSON
) STRICT;
CREATE INDEX audit_application ON audit (application, id);
CREATE INDEX audit_done ON audit (done_at);

-- What people did, for people.
CREATE VIEW audit_report AS
SELECT id, datetime(done_at / 1000, 'unixepoch') || printf('.%03d', done_at % 1000) AS done_at,
       actor, token, origin, action, application, subject, state_before, state_after
FROM audit;

-- +goose Down
DROP VIEW audit_report;
DROP TABLE audit;
