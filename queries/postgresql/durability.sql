-- name: ReadDurability :one
-- Reads the settings that decide how safe a commit of this session is.
SELECT current_setting('fsync')::varchar AS fsync, current_setting('synchronous_commit')::varchar AS synchronous_commit,
       current_setting('full_page_writes')::varchar AS full_page_writes,
       coalesce(current_setting('synchronous_standby_names', TRUE), '')::varchar AS synchronous_standby_names,
       current_setting('transaction_isolation')::varchar AS isolation;
