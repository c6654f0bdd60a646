-- +goose Up
-- side by side: yes, because an older build neither reads nor writes the tables: its interface stays open.
-- Access tokens (clock/access.Token). A secret is stored as its SHA-256 in hexadecimal digits. Instants are epoch milliseconds, UTC.
CREATE TABLE access_token (
    id               VARCHAR(12)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    name             VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    role             VARCHAR(32)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- name of the role
    applications     TEXT         CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- separated by commas
    secret           VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    old_secret       VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL, -- secret before the last rotation; '': none
    old_secret_until BIGINT       NULL, -- end of the old secret
    created_at       BIGINT       NOT NULL,
    created_by       VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    expires_at       BIGINT       NULL, -- NULL: never
    revoked_at       BIGINT       NULL, -- NULL: not revoked
    last_used_at     BIGINT       NULL, -- to the minute; NULL: never used
    PRIMARY KEY (id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;

-- One row with the number of changes of all tokens. A use of a token is no change.
CREATE TABLE access_token_counter (
    only_row TINYINT NOT NULL, -- 1
    changes  BIGINT  NOT NULL,
    PRIMARY KEY (only_row)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
INSERT IGNORE INTO access_token_counter (only_row, changes) VALUES (1, 0);

-- Every token without its secrets, for people.
CREATE VIEW access_token_report AS
SELECT id, name, role, applications,
       CAST(TIMESTAMPADD(MICROSECOND, created_at * 1000, '1970-01-01') AS DATETIME(3)) AS created_at, created_by,
       CAST(TIMESTAMPADD(MICROSECOND, expires_at * 1000, '1970-01-01') AS DATETIME(3)) AS expires_at,
       CAST(TIMESTAMPADD(MICROSECOND, revoked_at * 1000, '1970-01-01') AS DATETIME(3)) AS revoked_at,
       CAST(TIMESTAMPADD(MICROSECOND, last_used_at * 1000, '1970-01-01') AS DATETIME(3)) AS last_used_at,
       CAST(TIMESTAMPADD(MICROSECOND, old_secret_until * 1000, '1970-01-01') AS DATETIME(3)) AS old_secret_until
FROM access_token;

-- +goose Down
DROP VIEW access_token_report;
DROP TABLE access_token_counter;
DROP TABLE access_token;
