-- +goose Up
-- side by side: yes, because old builds do not use the new table.

-- What the manifests of each application have made, as JSON (clock/manifest). An application without a row never had one.
CREATE TABLE application_manifest (
    application TEXT    NOT NULL PRIMARY KEY,
    version     INTEGER NOT NULL, -- 1 at first, one more with each change
    document    TEXT    NOT NULL,
    changed_at  INTEGER NOT NULL,
    changed_by  TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
