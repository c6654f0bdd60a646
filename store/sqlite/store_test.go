package sqlite

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func TestStore(t *testing.T) { storetest.Run(t, engine()) }

func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, engine()) }

func engine() storetest.Engine {
	return storetest.Engine{
		Dialect:    goose.DialectSQLite3,
		Migrations: migrations(),
		New: func(tb testing.TB) *storetest.Database {
			path := filepath.Join(tb.TempDir(), "clockd test 100%.db")
			return &storetest.Database{
				Open: func(tb testing.TB) store.Store { return newStore(tb, path) },
				SQL:  rawSQL(tb, path),
			}
		},
		Unreachable: func(tb testing.TB) store.Store {
			return newStore(tb, filepath.Join(tb.TempDir(), "missing", "clockd.db"))
		},
		Plans: assertPlans,
	}
}

func newStore(tb testing.TB, path string) *Store {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.URL = scheme + path
	s, err := New(cfg, Deps{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

// rawSQL opens the file as another program would.
func rawSQL(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+strings.ReplaceAll(path, "%", "%25")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func assertPlans(t *testing.T, db *storetest.Database) {}
