package storetest

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/clockd/clockd/store"
)

// Engine is what the suite needs to know of an adapter.
type Engine struct {
	Dialect    goose.Dialect // also tells the suite where to look columns up
	Migrations fs.FS         // NNNNN_name.sql at the root

	// New returns a database with nothing in it, not even the schema; it is dropped when the test ends.
	New func(tb testing.TB) *Database
	// Allocations is what a ring may allocate at most in its claim and settlement.
	Allocations int
	// Unreachable returns a store whose database does not answer.
	Unreachable func(tb testing.TB) store.Store
	// Plans asserts the plans of the hot statements (due scan, claim, list, purge, overdue) by EXPLAIN: each reads only what it
	// is to find. db holds a million finished alarms beside a thousand due ones of application "plan"; statistics are
	// for Plans to gather.
	Plans func(t *testing.T, db *Database)
}

// Database is one database of the engine.
type Database struct {
	// Open returns a store with connections of its own, as one more node has it, neither migrated nor checked; closed when
	// the test ends. Its sessions are at -08:00 where the engine has sessions with a time zone.
	Open func(tb testing.TB) store.Store
	// SQL speaks to the database past the store, as an analyst does.
	SQL *sql.DB
	// Kill ends all connections of stores at the server, as its restart would; nil where there is no server.
	Kill func(tb testing.TB)
	// Server is the server's address, and Via opens a store as Open does whose server is at the address; where there is one.
	Server string
	Via    func(tb testing.TB, address string) store.Store
}

// Run runs the whole suite.
func Run(t *testing.T, e Engine) {
	s := &suite{engine: e, db: e.New(t)}
	first := s.db.Open(t)
	ok(t, first.Migrate(t.Context()), "migrate")
	ok(t, first.Check(t.Context()), "check")
	s.holds = first.HoldsClaims()
	for _, c := range cases() {
		if c.needs == nil || c.needs(s) {
			t.Run(c.name, func(t *testing.T) { s.run(t, c) })
		}
	}
}

// testCase is one test: of the store, of its claims (run in each mode), of two-phase claims, or of whole databases.
type testCase struct {
	name   string
	needs  func(s *suite) bool // nil: every engine has it
	plain  func(t *testing.T, f *fixture)
	claims func(t *testing.T, f *fixture)
	leases func(t *testing.T, f *fixture)
	engine func(t *testing.T, e Engine)
}

type suite struct {
	engine Engine
	db     *Database // shared by the tests, which run one after the other
	holds  bool
}

func (s *suite) run(t *testing.T, c testCase) {
	switch {
	case c.plain != nil:
		c.plain(t, s.fixture(t, 0))
	case c.claims != nil:
		if s.holds {
			t.Run("transactional", func(t *testing.T) { c.claims(t, s.fixture(t, 0)) })
		}
		t.Run("two-phase", func(t *testing.T) { c.claims(t, s.fixture(t, defaultLease)) })
	case c.leases != nil:
		c.leases(t, s.fixture(t, defaultLease))
	default:
		c.engine(t, s.engine)
	}
}

// fixture empties the shared database and opens a store of it.
func (s *suite) fixture(t *testing.T, lease time.Duration) *fixture {
	t.Helper()
	f := &fixture{
		t: t, db: s.db, dialect: s.engine.Dialect, allocations: s.engine.Allocations, lease: lease, Store: s.db.Open(t),
	}
	f.empty()
	ok(t, f.Check(t.Context()), "check")
	if !s.holds && lease == 0 {
		f.lease = defaultLease // the engine knows no other claims
	}
	return f
}

// fixture is a store under test with its database.
type fixture struct {
	store.Store
	t           testing.TB
	db          *Database
	dialect     goose.Dialect
	allocations int           // of Engine
	lease       time.Duration // of claims; 0: transactional
}

// empty deletes all alarms and nodes, and frees all shards.
func (f *fixture) empty() {
	f.t.Helper()
	f.exec("DELETE FROM ring_attempt")
	f.exec("DELETE FROM alarm")
	f.exec("DELETE FROM node")
	f.exec("UPDATE shard SET owner = '', incarnation = '', epoch = 0, expires = 0")
}

// exec runs plain SQL past the store.
func (f *fixture) exec(query string, args ...any) {
	f.t.Helper()
	_, err := f.db.SQL.ExecContext(f.t.Context(), fmt.Sprintf(query, args...))
	ok(f.t, err, query)
}

// other returns one more store of the same database.
func (f *fixture) other() *fixture {
	f.t.Helper()
	o := &fixture{t: f.t, db: f.db, lease: f.lease, Store: f.db.Open(f.t)}
	ok(f.t, o.Check(f.t.Context()), "check of a second store")
	return o
}

// lock holds the row of the alarm as a stranger's transaction does, until the returned func is called or the test ends.
func (f *fixture) lock(id int64) (unlock func()) {
	f.t.Helper()
	tx, err := f.db.SQL.BeginTx(context.WithoutCancel(f.t.Context()), nil)
	ok(f.t, err, "begin")
	f.t.Cleanup(func() { _ = tx.Rollback() })
	var got int64
	ok(f.t, tx.QueryRow(fmt.Sprintf("SELECT id FROM alarm WHERE id = %d FOR UPDATE", id)).Scan(&got), "lock a row")
	return func() { _ = tx.Rollback() }
}

// ok ends the test where err is not nil.
func ok(tb testing.TB, err error, doing string) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%s: %v", doing, err)
	}
}
