package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// testMigrateAfterKills kills a migration after each of its statements in turn, and starts it again each time. That
// includes goose's own statements and the reads of the schema. Every start continues without help, and the schema
// equals the schema of an undisturbed migration. The client dies once the server has the statement, so the server may
// still run it when the next migration begins.
func testMigrateAfterKills(t *testing.T, e Engine) {
	clean, db := e.New(t), e.New(t)
	if db.Via == nil {
		t.Log("no server: the engine's own test kills processes")
		return
	}
	ok(t, clean.Open(t).Migrate(t.Context()), "migrate undisturbed")
	step := 1
	if partly() { // TestSoakStoreApart cuts in each statement
		step = 6
	}
	cuts, after, version := 0, rand.IntN(step), appliedVersion(t, db)
	for done := false; !done; cuts++ {
		after += step
		p := NewProxy(t, db.Server)
		p.CutAfter(after)
		s := db.Via(t, p.Address())
		err := s.Migrate(t.Context())
		done = !p.Cut()
		if done {
			ok(t, err,
				fmt.Sprintf("migrate after %d cuts, the last in exchange %d after version %d", cuts, after, version))
		}
		_ = s.Close()
		p.Close()
		if applied := appliedVersion(t, db); applied != version {
			version, after = applied, rand.IntN(step) // statements before this version do not run again
		}
	}
	t.Logf("%d cuts", cuts)
	s := db.Open(t)
	ok(t, s.Migrate(t.Context()), "migrate an up-to-date schema")
	ok(t, s.Check(t.Context()), "check")
	wantSchema(t, e, db)
	same(t, "schema after the cuts", catalogue(t, e, db), catalogue(t, e, clean))
}

// stepLog is a log handler that calls onStatement when a migration begins a statement, with the number begun so far.
type stepLog struct {
	slog.Handler
	begun       *int
	onStatement func(begun int)
}

// StepLog returns a log that calls onStatement when a migration begins a statement, with the number begun so far.
func StepLog(onStatement func(begun int)) *slog.Logger {
	return slog.New(stepLog{Handler: slog.DiscardHandler, begun: new(int), onStatement: onStatement})
}

// Enabled returns true.
func (stepLog) Enabled(context.Context, slog.Level) bool { return true }

// WithAttrs returns the same handler.
func (l stepLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// Handle counts the statements.
func (l stepLog) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "migration statement begins" {
		*l.begun++
		l.onStatement(*l.begun)
	}
	return nil
}

// testMigrateStopped cancels a migration's context while a statement runs. The statement is not cancelled, no other one
// begins, and the next start continues.
func testMigrateStopped(t *testing.T, e Engine) {
	db, clean := e.New(t), e.New(t)
	ok(t, clean.Open(t).Migrate(t.Context()), "migrate undisturbed")
	ctx, stop := context.WithCancel(t.Context())
	begun := 0
	s := db.Log(t, StepLog(func(n int) {
		if begun = n; n == 2 {
			stop()
		}
	}))
	err := s.Migrate(ctx)
	schema, named := errors.AsType[*store.SchemaError](err)
	if !named || !errors.Is(err, context.Canceled) || schema.Migration != migrationsOf(t, e)[0].Name ||
		!strings.Contains(err.Error(), schema.Statement) {
		t.Fatalf("error of a stopped migration: %v", err)
	}
	same(t, "statements begun", begun, 2)
	if e.Dialect == goose.DialectMySQL {
		same(t, "tables of the first statements", slices.Sorted(slices.Values(tablesOf(t, e, db))),
			[]string{"alarm", "ring_attempt"})
	}
	ok(t, db.Open(t).Migrate(t.Context()), "migrate again")
	same(t, "schema", catalogue(t, e, db), catalogue(t, e, clean))
}

// testMigrateBroken migrates a database that already has another table named node. The error names the migration and is
// not clock.ErrUnavailable. Once that table is dropped, the next start continues.
func testMigrateBroken(t *testing.T, e Engine) {
	db := e.New(t)
	_, err := db.SQL.ExecContext(t.Context(), "CREATE TABLE node (id INTEGER)")
	ok(t, err, "make a table")
	s := db.Open(t)
	err = s.Migrate(t.Context())
	schema, named := errors.AsType[*store.SchemaError](err)
	if !named || errors.Is(err, clock.ErrUnavailable) || schema.Migration != migrationsOf(t, e)[0].Name ||
		!strings.Contains(err.Error(), "CREATE TABLE node") {
		t.Fatalf("a schema that cannot be migrated: %v", err)
	}
	_, err = db.SQL.ExecContext(t.Context(), "DROP TABLE node")
	ok(t, err, "drop the table")
	ok(t, s.Migrate(t.Context()), "migrate")
	ok(t, s.Check(t.Context()), "check")
}

// testMigrateWaits begins a second migration while the first one runs: it waits, and gives up when its context ends.
func testMigrateWaits(t *testing.T, e Engine) {
	db := e.New(t)
	proceed, first := make(chan struct{}), make(chan error, 1)
	reached := make(chan struct{})
	s := db.Log(t, StepLog(func(n int) {
		if n == 2 {
			close(reached)
			<-proceed
		}
	}))
	go func() { first <- s.Migrate(t.Context()) }()
	<-reached
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := db.Open(t).Migrate(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a second migration beside the first: %v", err)
	}
	close(proceed)
	ok(t, <-first, "the first migration")
	ok(t, db.Open(t).Migrate(t.Context()), "a migration after the first")
}

// appliedVersion returns the newest applied migration, or 0 if there is none.
func appliedVersion(t *testing.T, db *Database) (version int64) {
	t.Helper()
	var n sql.NullInt64
	if err := db.SQL.QueryRowContext(t.Context(), "SELECT MAX(version_id) FROM goose_db_version").Scan(&n); err != nil {
		return 0 // goose's table does not exist yet
	}
	return n.Int64
}

// catalogue describes all tables, columns, indexes and views of a database, one on each line, sorted.
func catalogue(t *testing.T, e Engine, db *Database) string {
	t.Helper()
	var queries []string
	switch e.Dialect {
	case goose.DialectMySQL:
		queries = []string{
			`SELECT CONCAT_WS(' ', table_name, table_type, engine, row_format, table_collation) FROM information_schema.tables
				WHERE table_schema = database() ORDER BY table_name`,
			`SELECT CONCAT_WS(' ', table_name, ordinal_position, column_name, column_type, is_nullable, column_default, extra, collation_name)
				FROM information_schema.columns WHERE table_schema = database() ORDER BY table_name, ordinal_position`,
			`SELECT CONCAT_WS(' ', table_name, index_name, seq_in_index, column_name, non_unique) FROM information_schema.statistics
				WHERE table_schema = database() ORDER BY table_name, index_name, seq_in_index`,
			`SELECT CONCAT_WS(' ', table_name, REPLACE(view_definition, database(), 'it')) FROM information_schema.views
				WHERE table_schema = database() ORDER BY table_name`,
		}
	case goose.DialectPostgres:
		queries = []string{
			`SELECT concat_ws(' ', relname, relkind, reloptions) FROM pg_class WHERE relnamespace = current_schema()::regnamespace
				AND relkind IN ('r', 'v') ORDER BY relname`,
			`SELECT concat_ws(' ', table_name, ordinal_position, column_name, data_type, character_maximum_length, is_nullable,
				column_default, identity_generation, collation_name)
				FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY table_name, ordinal_position`,
			`SELECT concat_ws(' ', tablename, regexp_replace(indexdef, ' ON [^ .]*\.', ' ON ')) FROM pg_indexes WHERE schemaname = current_schema() ORDER BY indexname`,
			`SELECT concat_ws(' ', viewname, definition) FROM pg_views WHERE schemaname = current_schema() ORDER BY viewname`,
		}
	default:
		queries = []string{"SELECT name || ' ' || type || ' ' || coalesce(sql, '') FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY name"}
	}
	var lines []string
	for _, q := range queries {
		lines = append(lines,
			scan(t, db, q, func(rows *sql.Rows) (line string, err error) { return line, rows.Scan(&line) })...)
	}
	return strings.Join(lines, "\n")
}
