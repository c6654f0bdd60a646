package postgresql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/storetest"
)

func TestMain(m *testing.M)       { storetest.Main(m) }
func TestStore(t *testing.T)      { storetest.Run(t, testedEngine()) }
func TestStoreApart(t *testing.T) { storetest.RunApart(t, testedEngine()) }
func TestStoreAlone(t *testing.T) { storetest.RunAlone(t, testedEngine()) }
func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, testedEngine()) }

func testedEngine() storetest.Engine {
	return storetest.Engine{
		Dialect: goose.DialectPostgres, Migrations: Migrations(), New: newDatabase, Unreachable: unreachable,
		Plans: checkPlans, Allocations: 10,
	}
}

// serverURL returns the URL of a server on which tests may create databases.
func serverURL() string {
	if u := os.Getenv("CLOCKD_TEST_POSTGRES_URL"); u != "" {
		return u
	}
	return "postgres://clockd@127.0.0.1:23432/clockd?sslmode=disable"
}

// databaseURL returns the server's URL with another database, and with session settings as name-value pairs.
func databaseURL(tb testing.TB, database string, settings ...string) string {
	tb.Helper()
	u, err := url.Parse(serverURL())
	ok(tb, err, "parse CLOCKD_TEST_POSTGRES_URL")
	u.Path = "/" + database
	q := u.Query()
	for i := 0; i < len(settings); i += 2 {
		q.Set(settings[i], settings[i+1])
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// newURL creates an empty database and returns its URL. The database is dropped when the test ends.
func newURL(tb testing.TB) string {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	admin, err := pgx.Connect(ctx, serverURL())
	if err != nil {
		tb.Fatalf("PostgreSQL does not answer: start it with \"make up\" (%v)", err)
	}
	name := "clockd_test_" + strings.ToLower(rand.Text())
	_, err = admin.Exec(ctx, "CREATE DATABASE "+name)
	ok(tb, err, "create a database")
	tb.Cleanup(func() {
		_, err := admin.Exec(ctx, "DROP DATABASE "+name+" WITH (FORCE)")
		ok(tb, err, "drop the database")
		_ = admin.Close(ctx)
	})
	// sessions in California's time zone, so that a wrong conversion through the session's time zone shows
	return databaseURL(tb, name, "timezone", "America/Los_Angeles")
}

func newDatabase(tb testing.TB) *storetest.Database {
	tb.Helper()
	u := newURL(tb)
	db, err := sql.Open("pgx", u)
	ok(tb, err, "open "+u)
	tb.Cleanup(func() { _ = db.Close() })
	return &storetest.Database{
		Open: func(tb testing.TB) store.Store { return openStore(tb, u) },
		Log:  func(tb testing.TB, log *slog.Logger) store.Store { return openLogged(tb, u, log) },
		SQL:  db,
		Kill: func(tb testing.TB) { killStores(tb, db) },

		Server: storetest.ServerAddress(tb, u),
		Via: func(tb testing.TB, address string) store.Store {
			return openStore(tb, storetest.WithAddress(tb, u, address))
		},
	}
}

// killStores ends the sessions of stores, which it knows by their application_name, and waits until they are gone.
func killStores(tb testing.TB, db *sql.DB) {
	tb.Helper()
	const stores = "FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'clockd%'"
	_, err := db.ExecContext(tb.Context(), "SELECT pg_terminate_backend(pid, 5000) "+stores)
	if err != nil { // before PostgreSQL 14 the function takes no timeout
		_, err = db.ExecContext(tb.Context(), "SELECT pg_terminate_backend(pid) "+stores)
	}
	ok(tb, err, "kill")
}

func openStore(tb testing.TB, u string) *opened {
	tb.Helper()
	return openLogged(tb, u, nil)
}

func openLogged(tb testing.TB, u string, log *slog.Logger) *opened {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.URL = u
	return openWith(tb, cfg, Deps{Log: log})
}

// opened is a store and its driver.
type opened struct {
	*engine.NotifyingStore
	d *Driver
}

func openWith(tb testing.TB, cfg Config, deps Deps) *opened {
	tb.Helper()
	d, err := newDriver(cfg, deps.Logger())
	ok(tb, err, "new driver")
	s, err := d.newStore(deps)
	ok(tb, err, "new store")
	tb.Cleanup(func() { _ = s.Close() })
	return &opened{NotifyingStore: s, d: d}
}

// migratedURL returns the URL of a new database with the schema.
func migratedURL(tb testing.TB) string {
	tb.Helper()
	u := newURL(tb)
	ok(tb, openStore(tb, u).Migrate(tb.Context()), "migrate")
	return u
}

// openChecked returns a store, ready for use, on a database with the schema.
func openChecked(tb testing.TB, u string) *opened {
	tb.Helper()
	s := openStore(tb, u)
	ok(tb, s.Check(tb.Context()), "check")
	return s
}

// migrated returns a store on a new database, ready for use.
func migrated(tb testing.TB) *opened {
	tb.Helper()
	return openChecked(tb, migratedURL(tb))
}

// unreachable returns a store whose server accepts connections and never responds.
func unreachable(tb testing.TB) store.Store {
	tb.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	ok(tb, err, "listen")
	tb.Cleanup(func() { _ = silent.Close() })
	cfg := DefaultConfig()
	cfg.URL = "postgres://clockd@" + silent.Addr().String() + "/clockd?sslmode=disable"
	cfg.DialTimeout = 300 * time.Millisecond
	s, err := New(cfg, Deps{})
	ok(tb, err, "new store")
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func ok(tb testing.TB, err error, doing string) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%s: %v", doing, err)
	}
}
