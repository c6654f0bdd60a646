-- +goose Up
-- side by side: yes, because old builds do not use the new table.

-- What the manifests of each application have made, as JSON (clock/manifest). An application without a row never had one.
CREATE TABLE application_manifest (
    application VARCHAR(64)  CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    version     BIGINT       NOT NULL, -- 1 at first, one more with each change
    document    MEDIUMTEXT   CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    changed_at  BIGINT       NOT NULL,
    changed_by  VARCHAR(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (application)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4;
