package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// postgresDatabase is a database on a PostgreSQL server.
type postgresDatabase struct {
	base string // URL of the configured database, from which the bench creates and drops its own database
	name string
	own  *pgxpool.Pool // connected to the bench's own database
}

func newPostgreSQL(ctx context.Context, raw, name string) (database, error) {
	if err := onPostgres(ctx, raw, "CREATE DATABASE "+name); err != nil {
		return nil, fmt.Errorf("create database %s: %w", name, err)
	}
	own, err := postgresPool(ctx, withDatabase(raw, name))
	if err != nil {
		return nil, errors.Join(err, onPostgres(ctx, raw, "DROP DATABASE "+name))
	}
	return &postgresDatabase{base: raw, name: name, own: own}, nil
}

// onPostgres runs one statement on a connection of its own.
func onPostgres(ctx context.Context, url, statement string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, statement)
	return err
}

func postgresPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("the database URL: %w", err)
	}
	cfg.MaxConns = bareConns
	// the planner has no statistics of a new table, and would read the whole table for a batch
	cfg.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	cfg.ConnConfig.RuntimeParams["enable_bitmapscan"] = "off"
	return pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg)
}

func (d *postgresDatabase) URL() string { return withDatabase(d.base, d.name) }

func (d *postgresDatabase) Engine(ctx context.Context) (version string, err error) {
	err = d.own.QueryRow(ctx, "SHOW server_version").Scan(&version)
	return "PostgreSQL " + version, err
}

func (d *postgresDatabase) Time(ctx context.Context) (micros int64, err error) {
	err = d.own.QueryRow(ctx, "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint").Scan(&micros)
	return micros, err
}

func (d *postgresDatabase) Logged(ctx context.Context) (bytes int64, err error) {
	err = d.own.QueryRow(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint").Scan(&bytes)
	return bytes, err
}

// Syncs reads pg_stat_wal, which exists since PostgreSQL 14.
func (d *postgresDatabase) Syncs(ctx context.Context) (syncs int64, err error) {
	var known bool
	if err := d.own.QueryRow(ctx, "SELECT to_regclass('pg_catalog.pg_stat_wal') IS NOT NULL").Scan(&known); err != nil || !known {
		return -1, err
	}
	err = d.own.QueryRow(ctx, "SELECT wal_sync FROM pg_stat_wal").Scan(&syncs)
	return syncs, err
}

// SyncsLate is a little longer than the time after which an idle session reports its statistics.
func (d *postgresDatabase) SyncsLate() time.Duration { return 11 * time.Second }

func (d *postgresDatabase) Drop(ctx context.Context) error {
	d.own.Close()
	return onPostgres(ctx, d.base, "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)")
}

// Bare copies the table with its indexes. It copies the storage parameters separately, because LIKE leaves them out.
func (d *postgresDatabase) Bare(ctx context.Context) (bareTable, error) {
	var options string
	err := d.own.QueryRow(ctx,
		"SELECT coalesce(array_to_string(reloptions, ', '), '') FROM pg_class WHERE oid = 'alarm'::regclass").Scan(&options)
	if err != nil {
		return nil, fmt.Errorf("read the table's parameters: %w", err)
	}
	statements := []string{"DROP TABLE IF EXISTS " + bareName,
		"CREATE TABLE " + bareName + " (LIKE " + fullName + " INCLUDING ALL)"}
	if options != "" {
		statements = append(statements, "ALTER TABLE "+bareName+" SET ("+options+")")
	}
	for _, statement := range statements {
		if _, err := d.own.Exec(ctx, statement); err != nil {
			return nil, fmt.Errorf("make a bare table: %w", err)
		}
	}
	return &postgresTable{pool: d.own, name: bareName}, nil
}

func (d *postgresDatabase) Full(context.Context) (bareTable, error) {
	return &postgresTable{pool: d.own, name: fullName}, nil
}

// Upkeep runs the vacuum that autovacuum would begin within a minute, and a checkpoint of the filled pages.
func (d *postgresDatabase) Upkeep(ctx context.Context) error {
	if _, err := d.own.Exec(ctx, "VACUUM (ANALYZE) "+fullName); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	_, err := d.own.Exec(ctx, "CHECKPOINT")
	if refused, is := errors.AsType[*pgconn.PgError](err); err == nil || is && refused.Code == insufficientPrivilege {
		return nil
	}
	return fmt.Errorf("checkpoint: %w", err)
}

// insufficientPrivilege is the SQLSTATE for a user without the rights of a superuser or of pg_checkpoint. The bench
// then skips the checkpoint.
const insufficientPrivilege = "42501"

// Process returns the parent of the server process behind the bench's connection.
func (d *postgresDatabase) Process(ctx context.Context) (pid int, err error) {
	if err := d.own.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil {
		return 0, fmt.Errorf("ask for the server's process: %w", err)
	}
	if localProcess(pid, "postgres") == 0 {
		return 0, nil
	}
	return parentOf(pid), nil
}

// postgresTable is a bareTable on PostgreSQL.
type postgresTable struct {
	pool *pgxpool.Pool
	name string
}

// Close does nothing: the database owns the connections.
func (t *postgresTable) Close() error { return nil }

const postgresRows = " (" + insertColumns + ") " +
	"SELECT '" + bareApplication + "', business_id, shard, 1, 1, payload, 1, '" + contentType + "', at, NULL, at, '', 0, 10, 0, '', now, now " +
	"FROM (SELECT unnest($1::varchar[]) AS business_id, unnest($2::smallint[]) AS shard, unnest($3::bytea[]) AS payload, " +
	"unnest($4::bigint[]) AS at, unnest($5::bigint[]) AS now) n"

func (t *postgresTable) Insert(ctx context.Context, rows []bareRow) error {
	n := len(rows)
	ids, payloads := make([]string, n), make([][]byte, n)
	shard, at, now := make([]int16, n), make([]int64, n), make([]int64, n)
	for i := range rows {
		r := &rows[i]
		ids[i], shard[i], payloads[i], at[i], now[i] = r.businessID, int16(r.shard), r.payload, r.at, r.now
	}
	_, err := t.pool.Exec(ctx, "INSERT INTO "+t.name+postgresRows, ids, shard, payloads, at, now)
	return err
}

// Cancel joins the keys, as clockd does. Without the join the planner would read all rows of an application that its
// statistics do not know, because it estimates one row.
func (t *postgresTable) Cancel(ctx context.Context, businessIDs []string, now int64) error {
	_, err := t.pool.Exec(ctx,
		"UPDATE "+t.name+" a SET state = 6, next_try_time = NULL, update_time = $2, finished_at = $2 "+
			"FROM (SELECT '"+bareApplication+"'::varchar AS application, unnest($1::varchar[]) AS business_id) k "+
			"WHERE a.application = k.application AND a.business_id = k.business_id AND a.state = 1", businessIDs, now)
	return err
}

func (t *postgresTable) IDs(ctx context.Context) ([]int64, error) {
	rows, err := t.pool.Query(ctx, "SELECT id FROM "+t.name+" ORDER BY next_try_time, id")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[int64])
}

const postgresClaim = " SET state = 3, next_try_time = NULL, ring_no = ring_no + 1, claim_id = $3, rung_at = $2, " +
	"update_time = $2, finished_at = $2 WHERE id = ANY($1) AND state = 1 AND next_try_time <= $2 RETURNING " + ringColumns

func (t *postgresTable) Claim(
	ctx context.Context, ids []int64, now int64, claimID string, do func([]bareRing) error,
) error {
	tx, err := t.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	rows, err := tx.Query(ctx, "UPDATE "+t.name+postgresClaim, ids, now, claimID)
	if err != nil {
		return err
	}
	rings, err := collectRings(rows, now, claimID)
	if err != nil {
		return err
	}
	if err := do(rings); err != nil {
		return err
	}
	return tx.Commit(ctx)
}

// collectRings reads ringColumns. ring_no is already the number of this ring.
func collectRings(rows pgx.Rows, now int64, claimID string) ([]bareRing, error) {
	defer rows.Close()
	rings := make([]bareRing, 0, ringRows)
	for rows.Next() {
		r := bareRing{rungAt: now, claimID: claimID}
		if err := rows.Scan(&r.id, &r.businessID, &r.payload, &r.ringAt, &r.generation, &r.ringNo, &r.retryTimes); err != nil {
			return nil, err
		}
		rings = append(rings, r)
	}
	return rings, rows.Err()
}
