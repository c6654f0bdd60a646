package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"github.com/jackc/pgx/v5"
)

// citusDatabase is a database on the coordinator and the workers of a Citus cluster. The bench makes one if clockd is
// to run in the distributed mode.
type citusDatabase struct {
	*postgresDatabase
	servers []string // URLs of the configured database on each server, the coordinator first
}

// isDistributed reports whether the environment, which clockd inherits, chooses the distributed mode.
func isDistributed() bool { return os.Getenv("CLOCKD_DATABASE_MODE") == "distributed" }

func newCitus(ctx context.Context, raw, name string) (_ database, err error) {
	base, err := url.Parse(raw)
	if err != nil {
		return nil, fmt.Errorf("the database URL: %w", err)
	}
	workers, err := citusWorkers(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("list the workers: %w", err)
	}
	d := &citusDatabase{postgresDatabase: &postgresDatabase{base: raw, name: name}}
	for _, server := range append([]string{base.Host}, workers...) {
		on := *base
		on.Host = server
		d.servers = append(d.servers, on.String())
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.dropAll(ctx))
		}
	}()
	for _, server := range d.servers {
		err := onPostgres(ctx, server, "CREATE DATABASE "+name)
		if err == nil {
			err = onPostgres(ctx, withDatabase(server, name), "CREATE EXTENSION citus")
		}
		if err != nil {
			return nil, fmt.Errorf("create database %s: %w", name, err)
		}
	}
	statements := []string{fmt.Sprintf("SELECT citus_set_coordinator_host('%s', %s)", base.Hostname(), base.Port())}
	for _, worker := range workers {
		host, port, err := net.SplitHostPort(worker)
		if err != nil {
			return nil, err
		}
		statements = append(statements, fmt.Sprintf("SELECT citus_add_node('%s', %s)", host, port))
	}
	for _, statement := range statements {
		if err := onPostgres(ctx, d.URL(), statement); err != nil {
			return nil, fmt.Errorf("add the servers: %w", err)
		}
	}
	d.own, err = postgresPool(ctx, d.URL())
	return d, err
}

// citusWorkers returns the addresses of the workers.
func citusWorkers(ctx context.Context, coordinator string) ([]string, error) {
	conn, err := pgx.Connect(ctx, coordinator)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	rows, err := conn.Query(ctx,
		"SELECT concat(nodename, ':', nodeport) FROM pg_dist_node WHERE groupid <> 0 ORDER BY nodeid")
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (d *citusDatabase) Engine(ctx context.Context) (version string, err error) {
	err = d.own.QueryRow(ctx,
		"SELECT concat('Citus ', extversion) FROM pg_extension WHERE extname = 'citus'").Scan(&version)
	return fmt.Sprintf("%s, %d workers", version, len(d.servers)-1), err
}

func (d *citusDatabase) Logged(ctx context.Context) (bytes int64, err error) {
	return d.sum(ctx, "SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint")
}

func (d *citusDatabase) Syncs(ctx context.Context) (syncs int64, err error) {
	return d.sum(ctx, "SELECT wal_sync FROM pg_stat_wal")
}

// sum returns the sum of a number over all servers.
func (d *citusDatabase) sum(ctx context.Context, query string) (sum int64, err error) {
	err = d.own.QueryRow(ctx, "SELECT sum(result::bigint)::bigint FROM run_command_on_all_nodes($1)", query).Scan(&sum)
	return sum, err
}

func (d *citusDatabase) Drop(ctx context.Context) error {
	d.own.Close()
	return d.dropAll(ctx)
}

func (d *citusDatabase) dropAll(ctx context.Context) error {
	var errs []error
	for _, server := range d.servers {
		errs = append(errs, onPostgres(ctx, server, "DROP DATABASE IF EXISTS "+d.name+" WITH (FORCE)"))
	}
	return errors.Join(errs...)
}

// Bare copies the table to the coordinator alone, so the bare statements run on one server.
func (d *citusDatabase) Bare(ctx context.Context) (bareTable, error) {
	table, err := d.postgresDatabase.Bare(ctx)
	if err == nil {
		_, err = d.own.Exec(ctx, "ALTER TABLE "+bareName+" ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY")
	}
	return table, err
}

// Full fails: clockd's table has rows on all servers.
func (d *citusDatabase) Full(context.Context) (bareTable, error) {
	return nil, errors.New("clockd's table is distributed: leave out the stages with bare statements on it")
}
