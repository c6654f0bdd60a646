package postgresql

import (
	"database/sql"
	"log/slog"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/storetest"
)

// TestDistributedStore runs the suite in the distributed mode on one PostgreSQL, with functions that do nothing in the
// place of Citus's. So it covers the schema, the statements, the placements and the ids of a distributed database, but
// not what Citus makes of the statements. TestCitusStore runs on Citus (make test-citus).
func TestDistributedStore(t *testing.T) {
	e := distributedEngine(likeCitusURL)
	e.NoCuts = true
	storetest.Run(t, e)
}

// distributedEngine is testedEngine for distributed databases. newURL returns the URL of an empty database that has
// Citus's functions.
func distributedEngine(newURL func(tb testing.TB) string) storetest.Engine {
	return storetest.Engine{
		Dialect: goose.DialectPostgres, Migrations: DistributedMigrations(), Unreachable: unreachable, Allocations: 16,
		Distributed: true,
		Columns:     map[string][]storetest.Column{"ring_attempt": {{Name: "shard"}}, "zoned_alarm": {{Name: "shard"}}},
		New:         func(tb testing.TB) *storetest.Database { return distributedDatabase(tb, newURL(tb)) },
	}
}

func distributedDatabase(tb testing.TB, u string) *storetest.Database {
	tb.Helper()
	db, err := sql.Open("pgx", u)
	ok(tb, err, "open "+u)
	tb.Cleanup(func() { _ = db.Close() })
	return &storetest.Database{
		Open: func(tb testing.TB) store.Store { return openDistributed(tb, u, nil) },
		Log:  func(tb testing.TB, log *slog.Logger) store.Store { return openDistributed(tb, u, log) },
		SQL:  db,
		Kill: func(tb testing.TB) { killStores(tb, db) },

		Server: storetest.ServerAddress(tb, u),
		Via: func(tb testing.TB, address string) store.Store {
			return openDistributed(tb, storetest.WithAddress(tb, u, address), nil)
		},
	}
}

func openDistributed(tb testing.TB, u string, log *slog.Logger) *opened {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.URL, cfg.Distributed = u, true
	return openWith(tb, cfg, Deps{Log: log})
}

// likeCitus are the parts of Citus that clockd uses, for one server: a table counts as distributed, and its rows stay
// where they are. The 64 shards have 5 placements.
const likeCitus = `
CREATE SCHEMA likecitus;
CREATE TABLE likecitus.pg_dist_partition (logicalrelid regclass PRIMARY KEY);
CREATE FUNCTION likecitus.create_distributed_table(name regclass, distribution_column text, colocate_with text DEFAULT 'default')
  RETURNS void LANGUAGE sql AS 'INSERT INTO likecitus.pg_dist_partition VALUES (name)';
CREATE FUNCTION likecitus.create_reference_table(name regclass) RETURNS void LANGUAGE sql AS 'INSERT INTO likecitus.pg_dist_partition VALUES (name)';
CREATE FUNCTION likecitus.undistribute_table(name regclass) RETURNS void LANGUAGE sql AS 'DELETE FROM likecitus.pg_dist_partition WHERE logicalrelid = name';
CREATE TABLE likecitus.pg_dist_node (nodename text, nodeport integer);
CREATE FUNCTION likecitus.run_command_on_workers(command text) RETURNS TABLE (nodename text, nodeport integer, success boolean, result text)
  LANGUAGE sql AS 'SELECT nodename, nodeport, false, null::text FROM likecitus.pg_dist_node';
CREATE FUNCTION likecitus.get_shard_id_for_distribution_column(name regclass, value smallint) RETURNS bigint LANGUAGE sql AS 'SELECT value * 7 % 5';
`

// likeCitusURL creates an empty database with likeCitus and returns its URL.
func likeCitusURL(tb testing.TB) string {
	tb.Helper()
	u := newURL(tb)
	db, err := sql.Open("pgx", u)
	ok(tb, err, "open "+u)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(tb.Context(), likeCitus)
	ok(tb, err, "create functions like Citus's")
	return u + "&search_path=" + strings.Join([]string{"public", "likecitus"}, ",")
}
