package mysql

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
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

// TestStoreAsMySQL runs the suite's tests of locks as if the server were MySQL. MySQL can neither refuse a locked row
// at once nor set a variable for one statement.
func TestStoreAsMySQL(t *testing.T) {
	e := engineAsMySQL()
	e.Scope = storetest.Writes
	storetest.Run(t, e)
}

func engineAsMySQL() storetest.Engine {
	e := testedEngine()
	newEmpty := e.New
	e.New = func(tb testing.TB) *storetest.Database {
		d := newEmpty(tb)
		openReal := d.Open
		d.Open = func(tb testing.TB) store.Store { return asMySQL{openReal(tb).(*opened)} }
		return d
	}
	e.Plans = nil // TestStoreApart has checked the plans
	return e
}

// asMySQL is a Store that treats its server as MySQL.
type asMySQL struct{ *opened }

// Check marks the server as MySQL.
func (s asMySQL) Check(ctx context.Context) error {
	err := s.opened.Check(ctx)
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.server.maria = false
	return err
}

func testedEngine() storetest.Engine {
	return storetest.Engine{
		Dialect: goose.DialectMySQL, Migrations: Migrations(), New: newDatabase, Unreachable: unreachable,
		Plans: checkPlans, Allocations: 10,
	}
}

// serverURL returns the URL of a server on which tests may create databases.
func serverURL() string {
	if u := os.Getenv("CLOCKD_TEST_MYSQL_URL"); u != "" {
		return u
	}
	return "mysql://clockd:clockd@127.0.0.1:23306/clockd"
}

// databaseURL returns the server's URL with another database and the session time zone -08:00.
func databaseURL(tb testing.TB, database string) string {
	tb.Helper()
	u, err := url.Parse(serverURL())
	ok(tb, err, "parse CLOCKD_TEST_MYSQL_URL")
	u.Path = "/" + database
	q := u.Query()
	q.Set("time_zone", "'-08:00'")
	u.RawQuery = q.Encode()
	return u.String()
}

// newURL creates an empty database and returns its URL. The database is dropped when the test ends.
func newURL(tb testing.TB) string {
	tb.Helper()
	ctx := context.WithoutCancel(tb.Context())
	cfg := DefaultConfig()
	cfg.URL = serverURL()
	d, err := cfg.driver(slog.New(slog.DiscardHandler))
	ok(tb, err, "read CLOCKD_TEST_MYSQL_URL")
	admin, err := open(d, 1, true)
	ok(tb, err, "open")
	if err := admin.PingContext(ctx); err != nil {
		tb.Fatalf("MariaDB does not answer: start it with \"make up\" (%v)", err)
	}
	name := "clockd_test_" + strings.ToLower(rand.Text())
	_, err = admin.ExecContext(ctx, "CREATE DATABASE "+name)
	ok(tb, err, "create a database")
	tb.Cleanup(func() {
		_, err := admin.ExecContext(ctx, "DROP DATABASE "+name)
		ok(tb, err, "drop the database")
		_ = admin.Close()
	})
	return databaseURL(tb, name)
}

func newDatabase(tb testing.TB) *storetest.Database {
	tb.Helper()
	u := newURL(tb)
	return databaseAt(tb, u, u)
}

// databaseAt returns the database at the URL u. Stores connect to storeURL, which may lead to a proxy.
func databaseAt(tb testing.TB, u, storeURL string) *storetest.Database {
	tb.Helper()
	a := newAdminPool(tb, u)
	return &storetest.Database{
		Open: func(tb testing.TB) store.Store { return openStore(tb, storeURL) },
		Log:  func(tb testing.TB, log *slog.Logger) store.Store { return openLogged(tb, storeURL, log) },
		SQL:  a.db,
		Kill: a.killOthers,

		Server: storetest.ServerAddress(tb, storeURL),
		Via: func(tb testing.TB, address string) store.Store {
			return openStore(tb, storetest.WithAddress(tb, storeURL, address))
		},
	}
}

// adminPool gives tests access to a database beside the store.
type adminPool struct {
	db *sql.DB

	mu    sync.Mutex
	ports map[string]bool // local ports of its own connections
}

func newAdminPool(tb testing.TB, u string) *adminPool {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.URL = u
	d, err := cfg.driver(slog.New(slog.DiscardHandler))
	ok(tb, err, "read the URL")
	a := &adminPool{ports: make(map[string]bool)}
	d.DialFunc = a.dial
	c, err := mysql.NewConnector(d)
	ok(tb, err, "new connector")
	a.db = sql.OpenDB(c)
	tb.Cleanup(func() { _ = a.db.Close() })
	return a
}

func (a *adminPool) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	_, port, err := net.SplitHostPort(conn.LocalAddr().String())
	a.ports[port] = true
	return conn, err
}

// killOthers ends the connections of stores to the database, and waits until they are gone.
func (a *adminPool) killOthers(tb testing.TB) {
	tb.Helper()
	for ids := a.others(tb); len(ids) > 0; ids = a.others(tb) {
		for _, id := range ids {
			_, err := a.db.ExecContext(tb.Context(), fmt.Sprintf("KILL %d", id))
			if !hasNumber(err, 1094) { // no such thread: the connection has just gone
				ok(tb, err, "kill")
			}
		}
	}
}

// others returns the ids of the sessions of the database that are not of this pool.
func (a *adminPool) others(tb testing.TB) (ids []int64) {
	tb.Helper()
	sessions, err := storetest.MySQLSessions(tb.Context(), a.db)
	ok(tb, err, "list sessions")
	for _, s := range sessions {
		a.mu.Lock()
		if !a.ports[s.Host[strings.LastIndex(s.Host, ":")+1:]] {
			ids = append(ids, s.ID)
		}
		a.mu.Unlock()
	}
	return ids
}

func openStore(tb testing.TB, u string) *opened {
	tb.Helper()
	return openLogged(tb, u, nil)
}

func openLogged(tb testing.TB, u string, log *slog.Logger) *opened {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.URL = u
	return openWith(tb, cfg, log)
}

// opened is a store and its driver.
type opened struct {
	*engine.Store
	d *Driver
}

func openWith(tb testing.TB, cfg Config, log *slog.Logger) *opened {
	tb.Helper()
	deps := Deps{Log: log}
	d, err := newDriver(cfg, deps.Logger())
	ok(tb, err, "new driver")
	s, err := d.newStore(deps)
	ok(tb, err, "new store")
	tb.Cleanup(func() { _ = s.Close() })
	return &opened{Store: s, d: d}
}

// migrated returns a store on a new database, ready for use.
func migrated(tb testing.TB) *opened {
	tb.Helper()
	s := openStore(tb, newURL(tb))
	s.prepare(tb)
	return s
}

// prepare migrates and checks the store.
func (s *opened) prepare(tb testing.TB) {
	tb.Helper()
	ok(tb, s.Migrate(tb.Context()), "migrate")
	ok(tb, s.Check(tb.Context()), "check")
}

// unreachable returns a store whose server accepts connections and never responds.
func unreachable(tb testing.TB) store.Store {
	tb.Helper()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	ok(tb, err, "listen")
	tb.Cleanup(func() { _ = silent.Close() })
	cfg := DefaultConfig()
	cfg.URL = "mysql://clockd@" + silent.Addr().String() + "/clockd"
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

// TestServerClockIgnoresTheSessionsTimestamp sets the session variable timestamp, as a pooler or init_connect may do.
// Time and claims go by the server's clock nevertheless.
func TestServerClockIgnoresTheSessionsTimestamp(t *testing.T) {
	for _, off := range []time.Duration{time.Hour, -time.Hour} {
		u := newURL(t)
		ok(t, openStore(t, u).Migrate(t.Context()), "migrate")
		s := openStore(t, u+"&timestamp="+strconv.FormatInt(time.Now().Add(off).Unix(), 10))
		ok(t, s.Check(t.Context()), "check")
		micros, err := s.Time(t.Context())
		ok(t, err, "time")
		if apart := time.Since(time.UnixMicro(micros)).Abs(); apart > time.Minute {
			t.Errorf("the server's clock is read with an error of %s", apart)
		}
	}
}
