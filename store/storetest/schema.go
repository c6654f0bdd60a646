package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"
	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
)

// testMigrate migrates an empty database from four stores at once.
func testMigrate(t *testing.T, e Engine) {
	db := e.New(t)
	stores := []store.Store{db.Open(t), db.Open(t), db.Open(t), db.Open(t)}
	if err := stores[0].Check(t.Context()); err == nil || !strings.Contains(err.Error(), "migrate") {
		t.Fatalf("check of an empty database does not say to migrate it: %v", err)
	}
	var g errgroup.Group
	for _, s := range stores {
		g.Go(func() error { return s.Migrate(t.Context()) })
	}
	ok(t, g.Wait(), "migrate four times at once")
	for _, s := range stores {
		ok(t, s.Check(t.Context()), "check")
		same(t, "shards", s.ShardCount(), 64)
	}
	if name := stores[0].Engine(); len(strings.Fields(name)) < 2 {
		t.Errorf("engine %q is not a name and a version", name)
	}
	wantSchema(t, e, db)
	ok(t, stores[1].Migrate(t.Context()), "migrate an up-to-date schema")
}

// testCheck checks an older schema and a newer one. The build may work on the newer schema while its build level is
// allowed.
func testCheck(t *testing.T, e Engine) {
	db := e.New(t)
	s := db.Open(t)
	ok(t, s.Migrate(t.Context()), "migrate")
	newest := newestVersion(t, e)
	pretendVersion(t, e, db, newest+5)
	ok(t, s.Migrate(t.Context()), "migrate a newer schema")
	ok(t, s.Check(t.Context()), "check of a newer schema")
	_, err := db.SQL.ExecContext(t.Context(), "UPDATE build_level SET oldest = 1000")
	ok(t, err, "raise the build level")
	wantCheck(t, s, "too old", "1000", fmt.Sprint(store.BuildLevel()))
	_, err = db.SQL.ExecContext(t.Context(), fmt.Sprintf("UPDATE build_level SET oldest = %d", store.BuildLevel()))
	ok(t, err, "lower the build level")
	_, err = db.SQL.ExecContext(t.Context(), fmt.Sprintf("DELETE FROM goose_db_version WHERE version_id > %d", newest))
	ok(t, err, "delete the newer version")
	ok(t, s.Check(t.Context()), "check")
	_, err = db.SQL.ExecContext(t.Context(), fmt.Sprintf("DELETE FROM goose_db_version WHERE version_id = %d", newest))
	ok(t, err, "pretend an older schema")
	wantCheck(t, s, "migrate", fmt.Sprint(newest))
}

// olderSchema returns a new database with the schema of the version.
func olderSchema(t *testing.T, e Engine, version int64) *Database {
	t.Helper()
	db := e.New(t)
	old, err := goose.NewProvider(e.Dialect, db.SQL, e.Migrations, goose.WithDisableGlobalRegistry(true))
	ok(t, err, "read the migrations")
	_, err = old.UpTo(t.Context(), version)
	ok(t, err, "make an older schema")
	return db
}

// testUpgrade migrates a database that has the schema of version 0.1: it gets the schema of a new one.
func testUpgrade(t *testing.T, e Engine) {
	db := olderSchema(t, e, wholeVersion(t, e))
	s := db.Open(t)
	ok(t, s.Migrate(t.Context()), "migrate")
	ok(t, s.Check(t.Context()), "check")
	wantSchema(t, e, db)
}

// wantCheck demands that Check fails with an error that contains the words and is not clock.ErrUnavailable.
func wantCheck(t *testing.T, s store.Store, words ...string) {
	t.Helper()
	err := s.Check(t.Context())
	if err == nil || errors.Is(err, clock.ErrUnavailable) {
		t.Fatalf("check: %v", err)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("check does not say %q: %v", w, err)
		}
	}
}

// testStepwise takes a database that was made in the steps of builds from before version 0.1. A build goes on with it
// if it has all of them. Otherwise the error says how to go on, and nothing changes.
func testStepwise(t *testing.T, e Engine) {
	db := e.New(t)
	s := db.Open(t)
	ok(t, s.Migrate(t.Context()), "migrate")
	pretendVersion(t, e, db, 1)
	ok(t, s.Migrate(t.Context()), "migrate a database with all steps")
	ok(t, s.Check(t.Context()), "check of a database with all steps")
	whole := wholeVersion(t, e)
	_, err := db.SQL.ExecContext(t.Context(), fmt.Sprintf("DELETE FROM goose_db_version WHERE version_id > %d", whole))
	ok(t, err, "forget the later migrations")
	_, err = db.SQL.ExecContext(t.Context(),
		fmt.Sprintf("UPDATE goose_db_version SET version_id = version_id - 1 WHERE version_id = %d", whole))
	ok(t, err, "pretend an older schema")
	before := catalogue(t, e, db)
	err = s.Migrate(t.Context())
	if err == nil || errors.Is(err, clock.ErrUnavailable) ||
		!strings.Contains(err.Error(), fmt.Sprintf("version %d", whole-1)) ||
		!strings.Contains(err.Error(), "built from commit") {
		t.Errorf("migrate a database with some steps: %v", err)
	}
	same(t, "applied version", appliedVersion(t, db), whole-1)
	same(t, "schema", catalogue(t, e, db), before)
}

// pretendVersion notes that a migration was applied.
func pretendVersion(t *testing.T, e Engine, db *Database, version int64) {
	t.Helper()
	truth := "1"
	if e.Dialect == goose.DialectPostgres {
		truth = "TRUE"
	}
	_, err := db.SQL.ExecContext(t.Context(),
		fmt.Sprintf("INSERT INTO goose_db_version (version_id, is_applied) VALUES (%d, %s)", version, truth))
	ok(t, err, "pretend a version")
}

// migrationsOf returns the engine's migrations, the oldest first.
func migrationsOf(t *testing.T, e Engine) []engine.Migration {
	t.Helper()
	all, err := engine.ReadMigrations(e.Migrations)
	ok(t, err, "read the migrations")
	return all
}

// newestVersion returns the version of the engine's newest migration.
func newestVersion(t *testing.T, e Engine) int64 {
	t.Helper()
	all := migrationsOf(t, e)
	return all[len(all)-1].Version
}

// wholeVersion returns the version of the last migration that only a new database gets.
func wholeVersion(t *testing.T, e Engine) (version int64) {
	t.Helper()
	for _, m := range migrationsOf(t, e) {
		if m.New {
			version = m.Version
		}
	}
	return version
}

// wantSchema compares tables and views with the ones all engines must have.
func wantSchema(t *testing.T, e Engine, db *Database) {
	t.Helper()
	for table, want := range tables {
		same(t, "columns of table "+table, columnsOf(t, e, db, table), slices.Concat(want, e.Columns[table]))
	}
	for view, want := range views {
		var got []string
		for _, c := range columnsOf(t, e, db, view) {
			got = append(got, c.Name)
		}
		same(t, "columns of view "+view, got, want)
	}
}

// columnsOf reads the columns of a table from the engine's catalogue.
func columnsOf(t *testing.T, e Engine, db *Database, table string) []Column {
	t.Helper()
	query := `SELECT column_name, is_nullable = 'YES' FROM information_schema.columns
		WHERE table_schema = ` + schemaName(e) + ` AND table_name = '` + table + `' ORDER BY ordinal_position`
	if e.Dialect == goose.DialectSQLite3 {
		query = "SELECT name, NOT \"notnull\" AND NOT pk FROM pragma_table_info('" + table + "') ORDER BY cid"
	}
	return scan(t, db, query, func(rows *sql.Rows) (c Column, err error) { return c, rows.Scan(&c.Name, &c.Nullable) })
}

// tablesOf returns the tables and views of clockd that exist.
func tablesOf(t *testing.T, e Engine, db *Database) []string {
	t.Helper()
	query := "SELECT table_name FROM information_schema.tables WHERE table_schema = " + schemaName(e)
	if e.Dialect == goose.DialectSQLite3 {
		query = "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view', 'index')"
	}
	query = "SELECT * FROM (" + query + ") AS t"
	var ours []string
	for _, name := range scan(t, db, query, func(rows *sql.Rows) (name string, err error) { return name, rows.Scan(&name) }) {
		if !strings.HasPrefix(name, "goose_") && !strings.HasPrefix(name, "sqlite_") {
			ours = append(ours, name)
		}
	}
	return ours
}

func schemaName(e Engine) string {
	if e.Dialect == goose.DialectPostgres {
		return "current_schema()"
	}
	return "database()"
}

// scan returns all rows of a query.
func scan[T any](tb testing.TB, db *Database, query string, scanRow func(*sql.Rows) (T, error)) []T {
	tb.Helper()
	rows, err := db.SQL.QueryContext(tb.Context(), query)
	ok(tb, err, query)
	defer func() { _ = rows.Close() }()
	var all []T
	for rows.Next() {
		v, err := scanRow(rows)
		ok(tb, err, query)
		all = append(all, v)
	}
	ok(tb, rows.Err(), query)
	return all
}

// testTime demands the database's time in microseconds UTC, whatever the time zones. The database runs on the same
// machine.
func testTime(t *testing.T, f *fixture) {
	last := int64(0)
	for range 200 {
		before := time.Now()
		us, err := f.Time(t.Context())
		ok(t, err, "time")
		// A clock that counts in milliseconds may be one behind.
		if us < before.Add(-2*time.Millisecond).UnixMicro() || us > time.Now().Add(time.Millisecond).UnixMicro() {
			t.Fatalf("the database's time is %s, the test's %s", time.UnixMicro(us).UTC(), before.UTC())
		}
		if us < last {
			t.Fatalf("the database's time went back from %d to %d", last, us)
		}
		last = us
	}
}

// testCallsHaveDeadlines demands that a call without a deadline ends by itself.
func testCallsHaveDeadlines(t *testing.T, e Engine) {
	s := e.Unreachable(t)
	ctx := context.WithoutCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Time(ctx)
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, clock.ErrUnavailable) {
			t.Fatal(err)
		}
	case <-time.After(hangTimeout):
		t.Fatal("a call without a deadline hangs")
	}
}
