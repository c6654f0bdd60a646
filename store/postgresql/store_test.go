package postgresql

import (
	"context"
	"crypto/rand"
	"database/sql"
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
	"github.com/clockd/clockd/store/storetest"
)

func TestMain(m *testing.M)       { storetest.Main(m) }
func TestStore(t *testing.T)      { storetest.Run(t, engine()) }
func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, engine()) }

func engine() storetest.Engine {
	return storetest.Engine{
		Dialect: goose.DialectPostgres, Migrations: Migrations(), New: newDatabase, Unreachable: unreachable, Plans: checkPlans, Allocations: 10,
	}
}

// serverURL leads to a server on which databases may be created.
func serverURL() string {
	if u := os.Getenv("CLOCKD_TEST_POSTGRES_URL"); u != "" {
		return u
	}
	return "postgres://clockd@127.0.0.1:23432/clockd?sslmode=disable"
}

// with returns the server's URL with another database and session settings.
func with(tb testing.TB, database string, settings ...string) string {
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

// newURL makes an empty database that is dropped when the test ends.
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
	// a server at California's time, so that a conversion through the session's time zone shows
	return with(tb, name, "timezone", "America/Los_Angeles")
}

func newDatabase(tb testing.TB) *storetest.Database {
	tb.Helper()
	u := newURL(tb)
	db, err := sql.Open("pgx", u)
	ok(tb, err, "open "+u)
	tb.Cleanup(func() { _ = db.Close() })
	return &storetest.Database{
		Open: func(tb testing.TB) store.Store { return open(tb, u) },
		SQL:  db,
		Kill: func(tb testing.TB) { kill(tb, db) },

		Server: host(tb, u),
		Via:    func(tb testing.TB, address string) store.Store { return open(tb, at(tb, u, address)) },
	}
}

// host returns the address of a URL's server.
func host(tb testing.TB, u string) string {
	tb.Helper()
	parsed, err := url.Parse(u)
	ok(tb, err, "parse the URL")
	return parsed.Host
}

// at returns the URL with another address.
func at(tb testing.TB, u, address string) string {
	tb.Helper()
	parsed, err := url.Parse(u)
	ok(tb, err, "parse the URL")
	parsed.Host = address
	return parsed.String()
}

// kill ends the stores' sessions, told by their names, and waits until they are gone.
func kill(tb testing.TB, db *sql.DB) {
	tb.Helper()
	const stores = "FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'clockd%'"
	_, err := db.ExecContext(tb.Context(), "SELECT pg_terminate_backend(pid, 5000) "+stores)
	if err != nil { // before PostgreSQL 14 it takes no timeout
		_, err = db.ExecContext(tb.Context(), "SELECT pg_terminate_backend(pid) "+stores)
	}
	ok(tb, err, "kill")
}

func open(tb testing.TB, u string) *Store {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.URL = u
	s, err := New(cfg, Deps{})
	ok(tb, err, "new store")
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// migratedURL returns a database with the schema.
func migratedURL(tb testing.TB) string {
	tb.Helper()
	u := newURL(tb)
	ok(tb, open(tb, u).Migrate(tb.Context()), "migrate")
	return u
}

// opened returns a store, ready for use, of a database with the schema.
func opened(tb testing.TB, u string) *Store {
	tb.Helper()
	s := open(tb, u)
	ok(tb, s.Check(tb.Context()), "check")
	return s
}

// migrated returns a store, ready for use, of a database of its own.
func migrated(tb testing.TB) *Store {
	tb.Helper()
	return opened(tb, migratedURL(tb))
}

// unreachable returns a store whose server takes connections and never answers.
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
