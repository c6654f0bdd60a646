package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"log/slog"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/clockd/clockd/store"
)

// Engine tells the suite how to open an adapter's databases and what to expect of them.
type Engine struct {
	Dialect    goose.Dialect // also selects the queries for the engine's catalogue
	Migrations fs.FS         // NNNNN_name.sql at the root
	// Columns are columns that only this engine has, by table. They come after the columns of all engines.
	Columns map[string][]Column

	// New returns an empty database without a schema. It is dropped when the test ends.
	New func(tb testing.TB) *Database
	// Distributed says that clockd gives the ids, and that limits of bytes are divided among placements.
	Distributed bool
	// Allocations is the highest number of allocations for a ring's claim and settlement together.
	Allocations int
	// Unreachable returns a store whose database cannot be reached.
	Unreachable func(tb testing.TB) store.Store
	// Plans checks the plans of the hot statements (due scan, claim, list, purge, overdue) with EXPLAIN: each must read
	// only the rows that it returns. db holds a million finished alarms and a thousand due alarms of application
	// "plan". Plans must gather statistics itself.
	Plans func(t *testing.T, db *Database)
	// Scope is the part of the suite that Run runs. An engine that differs from another one only in that part has such
	// a suite in every run, and the whole suite under the build tag soak.
	Scope Scope
	// NoCuts leaves out the tests in which connections are cut or stopped. They have the same results on an engine that
	// differs from another one only in its statements.
	NoCuts bool
}

// Scope is a part of the suite: tests that depend on the same. Each part has the following ones.
type Scope int

// The parts.
const (
	Whole  Scope = iota
	Locks        // how the server locks rows
	Writes       // how sets, cancels and answers lock rows
)

// Database is one database of the engine.
type Database struct {
	// Open returns a store with connections of its own, as another node has it. It is neither migrated nor checked, and
	// is closed when the test ends. Its sessions are at -08:00 if the engine's sessions have a time zone.
	Open func(tb testing.TB) store.Store
	// Log opens a store as Open does. The store logs to log.
	Log func(tb testing.TB, log *slog.Logger) store.Store
	// SQL runs statements beside the store, as an analyst does.
	SQL *sql.DB
	// Kill ends all connections of stores at the server, as a restart of the server does. It is nil if the engine has
	// no server.
	Kill func(tb testing.TB)
	// Server is the server's address, and Via opens a store like Open that connects to another address. Both are empty
	// without a server.
	Server string
	Via    func(tb testing.TB, address string) store.Store
}

// Run runs the tests that share one database, one after the other, beside the other tests of the package.
func Run(t *testing.T, e Engine) {
	t.Parallel() // the suites mostly wait
	newSuite(t, e).runCases(t, func(c testCase) bool { return c.engine == nil && !c.alone })
}

// RunApart runs the tests that make databases of their own, side by side.
func RunApart(t *testing.T, e Engine) {
	t.Parallel()
	s := &suite{engine: e}
	s.runCases(t, func(c testCase) bool { return c.engine != nil })
}

// RunAlone runs the tests that measure the process. The other tests of the package wait meanwhile, because t is not
// parallel.
func RunAlone(t *testing.T, e Engine) {
	newSuite(t, e).runCases(t, func(c testCase) bool { return c.alone })
}

// testCase is one test. It sets a single function: for a store, for claims (run in each mode), for two-phase claims, or
// for databases of its own.
type testCase struct {
	name   string
	needs  func(s *suite) bool // nil: the test runs on every engine
	scope  Scope               // the smallest part that has the test
	cuts   bool                // connections are cut or stopped, whatever statements they run
	own    bool                // the test closes its store, or spoils it
	alone  bool                // no other test runs meanwhile: the test measures the process
	plain  func(t *testing.T, f *fixture)
	claims func(t *testing.T, f *fixture)
	phased func(t *testing.T, f *fixture)
	engine func(t *testing.T, e Engine)
}

type suite struct {
	t           *testing.T
	engine      Engine
	db          *Database   // shared by the tests, which run one after the other; nil in RunApart
	store       store.Store // shared by the tests that have none of their own; nil: the next of them opens it
	holdsClaims bool
}

// newSuite returns a suite with a migrated database.
func newSuite(t *testing.T, e Engine) *suite {
	t.Helper()
	s := &suite{t: t, engine: e, db: e.New(t)}
	first := s.db.Open(t)
	ok(t, first.Migrate(t.Context()), "migrate")
	ok(t, first.Check(t.Context()), "check")
	s.holdsClaims = first.HoldsClaims()
	return s
}

// runCases runs the selected tests that this engine can pass.
func (s *suite) runCases(t *testing.T, selects func(testCase) bool) {
	for _, c := range cases() {
		if selects(c) && (c.needs == nil || c.needs(s)) && c.scope >= s.engine.Scope && (!c.cuts || !s.engine.NoCuts) {
			t.Run(c.name, func(t *testing.T) { s.run(t, c) })
		}
	}
}

func (s *suite) run(t *testing.T, c testCase) {
	switch {
	case c.plain != nil:
		c.plain(t, s.fixture(t, c, 0))
	case c.claims != nil:
		if s.holdsClaims {
			t.Run("held", func(t *testing.T) { c.claims(t, s.fixture(t, c, 0)) })
		}
		t.Run("two-phase", func(t *testing.T) { c.claims(t, s.fixture(t, c, claimTimeout)) })
	case c.phased != nil:
		c.phased(t, s.fixture(t, c, claimTimeout))
	default:
		t.Parallel()
		c.engine(t, s.engine)
	}
}

// fixture empties the shared database and chooses the test's store on it.
func (s *suite) fixture(t *testing.T, c testCase, timeout time.Duration) *fixture {
	t.Helper()
	f := &fixture{
		t: t, db: s.db, dialect: s.engine.Dialect, allocations: s.engine.Allocations, timeout: timeout,
		Store:       s.storeFor(t, c),
		distributed: s.engine.Distributed,
	}
	f.empty()
	if !s.holdsClaims && timeout == 0 {
		f.timeout = claimTimeout // the engine has two-phase claims only
	}
	return f
}

// storeFor returns the store of a test: its own, or the shared one. After a test with its own store, which may have cut
// the connections of all stores, and after a failed test, the next one gets a new store.
func (s *suite) storeFor(t *testing.T, c testCase) store.Store {
	t.Helper()
	if c.own || c.cuts || c.alone {
		s.store = nil
		return openChecked(t, s.db)
	}
	if s.store == nil {
		s.store = openChecked(s.t, s.db)
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.store = nil
		}
	})
	return s.store
}

// openChecked returns a new store that knows its database. A check takes many connections of PostgreSQL.
func openChecked(t *testing.T, db *Database) store.Store {
	t.Helper()
	s := db.Open(t)
	ok(t, s.Check(t.Context()), "check")
	return s
}

// fixture is a store under test and its database.
type fixture struct {
	store.Store
	t           testing.TB
	db          *Database
	dialect     goose.Dialect
	allocations int           // limit from Engine
	timeout     time.Duration // timeout of claims; 0: held claims
	distributed bool          // Engine.Distributed
}

// deleteNotes deletes the notes that stand for indexes of some alarms alone.
func (f *fixture) deleteNotes() {
	f.t.Helper()
	if f.dialect == goose.DialectMySQL {
		f.exec("DELETE FROM repeating_alarm")
		f.exec("DELETE FROM attention_alarm")
	}
}

// empty deletes all alarms with the notes on their schedules, nodes with their steps, sightings, settings, manifests
// and tokens. It frees all shards.
func (f *fixture) empty() {
	f.t.Helper()
	f.exec("DELETE FROM ring_attempt")
	f.exec("DELETE FROM zoned_alarm")
	f.deleteNotes()
	f.exec("DELETE FROM bulk_job")
	f.exec("DELETE FROM alarm")
	f.exec("DELETE FROM node")
	f.exec("DELETE FROM node_step")
	f.exec("DELETE FROM application_sighting")
	f.exec("DELETE FROM application_manifest")
	f.exec("DELETE FROM application_setting")
	f.exec("DELETE FROM application_setting_history")
	f.exec("UPDATE application_setting_counter SET changes = 0")
	f.exec("DELETE FROM access_token")
	f.exec("UPDATE access_token_counter SET changes = 0")
	f.exec("DELETE FROM audit")
	f.exec("UPDATE shard SET owner = '', incarnation = '', epoch = 0, expires = 0")
}

// exec runs plain SQL beside the store.
func (f *fixture) exec(query string, args ...any) {
	f.t.Helper()
	_, err := f.db.SQL.ExecContext(f.t.Context(), fmt.Sprintf(query, args...))
	ok(f.t, err, query)
}

// other returns another store on the same database.
func (f *fixture) other() *fixture {
	f.t.Helper()
	o := &fixture{t: f.t, db: f.db, timeout: f.timeout, Store: f.db.Open(f.t)}
	ok(f.t, o.Check(f.t.Context()), "check of a second store")
	return o
}

// lockRow locks the row of the alarm in a separate transaction, until unlock is called or the test ends.
func (f *fixture) lockRow(id int64) (unlock func()) {
	f.t.Helper()
	tx, err := f.db.SQL.BeginTx(context.WithoutCancel(f.t.Context()), nil)
	ok(f.t, err, "begin")
	f.t.Cleanup(func() { _ = tx.Rollback() })
	var got int64
	ok(f.t, tx.QueryRow(fmt.Sprintf("SELECT shard FROM alarm WHERE id = %d", id)).Scan(&got), "read the shard of a row")
	lock := fmt.Sprintf("SELECT id FROM alarm WHERE id = %d AND shard = %d FOR UPDATE", id, got) // a distributed database locks rows of one shard
	ok(f.t, tx.QueryRow(lock).Scan(&got), "lock a row")
	return func() { _ = tx.Rollback() }
}

// ok fails the test at once if err is not nil. doing names the failed call.
func ok(tb testing.TB, err error, doing string) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%s: %v", doing, err)
	}
}
