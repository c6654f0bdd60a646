-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the tables: its interface stays open.
-- Access tokens (clock/access.Token). A secret is stored as its SHA-256 in hexadecimal digits. Instants are epoch milliseconds, UTC.
CREATE TABLE access_token (
    id               VARCHAR(12)  COLLATE "C" NOT NULL,
    name             VARCHAR(128) COLLATE "C" NOT NULL,
    role             VARCHAR(32)  COLLATE "C" NOT NULL, -- name of the role
    applications     TEXT         COLLATE "C" NOT NULL, -- separated by commas
    secret           VARCHAR(64)  COLLATE "C" NOT NULL,
    old_secret       VARCHAR(64)  COLLATE "C" NOT NULL, -- secret before the last rotation; '': none
    old_secret_until BIGINT       NULL, -- end of the old secret
    created_at       BIGINT       NOT NULL,
    created_by       VARCHAR(128) COLLATE "C" NOT NULL,
    expires_at       BIGINT       NULL, -- NULL: never
    revoked_at       BIGINT       NULL, -- NULL: not revoked
    last_used_at     BIGINT       NULL, -- to the minute; NULL: never used
    PRIMARY KEY (id)
);

-- One row with the number of changes of all tokens. A use of a token is no change.
CREATE TABLE access_token_counter (
    only_row SMALLINT NOT NULL, -- 1
    changes  BIGINT   NOT NULL,
    PRIMARY KEY (only_row)
);
INSERT INTO access_token_counter (only_row, changes) VALUES (1, 0);

-- Every token without its secrets, for people.
CREATE VIEW access_token_report AS
SELECT id, name, role, applications,
       (TIMESTAMP '1970-01-01' + created_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS created_at, created_by,
       (TIMESTAMP '1970-01-01' + expires_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS expires_at,
       (TIMESTAMP '1970-01-01' + revoked_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS revoked_at,
       (TIMESTAMP '1970-01-01' + last_used_at * INTERVAL '1 millisecond')::TIMESTAMP(3) AS last_used_at,
       (TIMESTAMP '1970-01-01' + old_secret_until * INTERVAL '1 millisecond')::TIMESTAMP(3) AS old_secret_until
FROM access_token;

-- +goose Down
DROP VIEW access_token_report;
DROP TABLE access_token_counter;
DROP TABLE access_token;
