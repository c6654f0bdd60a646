-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the tables: its interface stays open.
-- Access tokens (clock/access.Token). A secret is stored as its SHA-256 in hexadecimal digits. Instants are epoch milliseconds, UTC.
CREATE TABLE access_token (
    id               TEXT    NOT NULL PRIMARY KEY,
    name             TEXT    NOT NULL,
    role             TEXT    NOT NULL, -- name of the role
    applications     TEXT    NOT NULL, -- separated by commas
    secret           TEXT    NOT NULL,
    old_secret       TEXT    NOT NULL, -- secret before the last rotation; '': none
    old_secret_until INTEGER, -- end of the old secret
    created_at       INTEGER NOT NULL,
    created_by       TEXT    NOT NULL,
    expires_at       INTEGER, -- NULL: never
    revoked_at       INTEGER, -- NULL: not revoked
    last_used_at     INTEGER -- to the minute; NULL: never used
) STRICT, WITHOUT ROWID;

-- One row with the number of changes of all tokens. A use of a token is no change.
CREATE TABLE access_token_counter (
    only_row INTEGER NOT NULL PRIMARY KEY, -- 1
    changes  INTEGER NOT NULL
) STRICT;
INSERT INTO access_token_counter (only_row, changes) VALUES (1, 0);

-- Every token without its secrets, for people.
CREATE VIEW access_token_report AS
SELECT id, name, role, applications,
       datetime(created_at / 1000, 'unixepoch') || printf('.%03d', created_at % 1000) AS created_at, created_by,
       datetime(expires_at / 1000, 'unixepoch') || printf('.%03d', expires_at % 1000) AS expires_at,
       datetime(revoked_at / 1000, 'unixepoch') || printf('.%03d', revoked_at % 1000) AS revoked_at,
       datetime(last_used_at / 1000, 'unixepoch') || printf('.%03d', last_used_at % 1000) AS last_used_at,
       datetime(old_secret_until / 1000, 'unixepoch') || printf('.%03d', old_secret_until % 1000) AS old_secret_until
FROM access_token;

-- +goose Down
DROP VIEW access_token_report;
DROP TABLE access_token_counter;
DROP TABLE access_token;
