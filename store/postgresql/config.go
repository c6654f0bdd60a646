package postgresql

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/store"
)

// DefaultShards is the shard count of a new database where the Config names none.
const DefaultShards = 64

// maxShards is what the column shard holds.
const maxShards = 1 << 15

// Timeouts at the server.
const (
	lockWait          = 20 * time.Millisecond // of a write for a key that is being inserted or purged elsewhere
	idleInTransaction = 5 * time.Second       // of a claim: longer than to publish and to confirm
	ringLockWait      = time.Second           // of a ring, which skips what is locked: a safety net
	upkeepLockWait    = time.Second           // of what skips it as well, and of leases
	statementTimeout  = 30 * time.Second      // of a statement whose client is gone: a safety net
	vanishedClient    = 8 * time.Second       // until a connection without an answer is dropped
)

// Config says where the database is and how it is used.
type Config struct {
	URL         string        // postgres://user:password@host:5432/database?sslmode=...; further parameters as pgx reads them
	Shards      int           // of a new database; 0: DefaultShards, or what the database has. Check fails where it differs
	Conns       int           // connections for requests, at least 2; default 16
	RingConns   int           // connections that only rings use, one a ring worker; default 4
	UpkeepConns int           // connections for what must go on beside requests: loading, purging, leases, the time; default 6
	Timeout     time.Duration // of a call whose context has no deadline; default 5 s
	DialTimeout time.Duration // of a new connection; default 3 s
	PingTimeout time.Duration // of the check of a connection that was idle for more than 1 s; default 1 s
}

// DefaultConfig returns a Config that lacks nothing but the URL.
func DefaultConfig() Config {
	return Config{Conns: 16, RingConns: 4, UpkeepConns: 6, Timeout: 5 * time.Second, DialTimeout: 3 * time.Second, PingTimeout: time.Second}
}

// Deps are what a Store uses.
type Deps struct {
	Log        *slog.Logger          // nil: none
	Registerer prometheus.Registerer // of the store's metrics; nil: they are counted for nobody
}

// Validate returns the first rule that the configuration breaks.
func (c Config) Validate() error {
	switch {
	case c.URL == "":
		return errors.New("postgresql: the database URL is empty")
	case c.Shards < 0 || c.Shards > maxShards:
		return fmt.Errorf("postgresql: shards must be from 1 to %d, or 0", maxShards)
	case c.Conns < 2:
		return errors.New("postgresql: conns must be at least 2: a write that waits for a locked row must not stop the others")
	case c.RingConns < 1:
		return errors.New("postgresql: ring conns must be at least 1: a claim holds a connection until it is settled")
	case c.UpkeepConns < 1:
		return errors.New("postgresql: upkeep conns must be at least 1: without loading and leases nothing rings")
	case c.Timeout <= 0 || c.DialTimeout <= 0 || c.PingTimeout <= 0:
		return errors.New("postgresql: timeouts must be longer than 0")
	case c.PingTimeout > c.Timeout:
		return errors.New("postgresql: the ping timeout must not be longer than the timeout of the call that pings")
	}
	return nil
}

// pool returns the configuration of a pool; settings are the session's, which the URL may override.
func (c Config) pool(conns int, settings map[string]string) (*pgxpool.Config, error) {
	p, err := pgxpool.ParseConfig(c.URL)
	if err != nil {
		return nil, fmt.Errorf("postgresql: the database URL cannot be used: %w", withoutURL(err))
	}
	p.MaxConns = int32(conns)
	p.PingTimeout = c.PingTimeout
	p.ConnConfig.ConnectTimeout = c.DialTimeout
	if p.ConnConfig.ValidateConnect == nil { // the URL has no target_session_attrs
		p.ConnConfig.ValidateConnect = writable
	}
	for name, value := range settings {
		if _, given := p.ConnConfig.RuntimeParams[name]; !given {
			p.ConnConfig.RuntimeParams[name] = value
		}
	}
	return p, nil
}

// writable refuses a server that takes no writes: a standby, or one whose default is read-only transactions. Of several hosts
// in the URL the next is tried.
func writable(ctx context.Context, conn *pgconn.PgConn) error {
	results, err := conn.Exec(ctx, "SHOW transaction_read_only").ReadAll()
	if err == nil && len(results) == 1 && len(results[0].Rows) == 1 && string(results[0].Rows[0][0]) == "on" {
		err = store.ErrReadOnly
	}
	return err
}

// withoutURL returns what is wrong with a URL, without the URL: it holds the password.
func withoutURL(err error) error {
	if u, is := errors.AsType[*url.Error](err); is {
		return u.Err
	}
	if inner := errors.Unwrap(err); inner != nil {
		return withoutURL(inner)
	}
	return errors.New("it is not of the form postgres://user:password@host:port/database")
}

// session returns the settings of every session: READ COMMITTED, no plans that read a whole table, no waiting for ever.
func session() map[string]string {
	return map[string]string{
		"application_name":              "clockd",
		"default_transaction_isolation": "read committed",
		"enable_seqscan":                "off",
		"enable_bitmapscan":             "off",
		"enable_hashjoin":               "off",
		"enable_mergejoin":              "off",
		"jit":                           "off",
		"statement_timeout":             millis(statementTimeout),
		"tcp_user_timeout":              millis(vanishedClient),
		// of a host that vanished in the middle of a pipeline, when the server waits for the rest: 4 s and 2 times 2 s
		"tcp_keepalives_idle":     "4",
		"tcp_keepalives_interval": "2",
		"tcp_keepalives_count":    "2",
		// of a node that stopped in the middle of a write or of a claim
		"idle_in_transaction_session_timeout": millis(idleInTransaction),
	}
}

// ringSession returns the settings of sessions that ring: what they hold, others wait for.
func ringSession() map[string]string {
	s := session()
	s["application_name"] = "clockd ring"
	s["lock_timeout"] = millis(ringLockWait)
	s["statement_timeout"] = millis(idleInTransaction)
	return s
}

// upkeepSession returns the settings of sessions that load, purge and keep leases: they skip what is locked, or wait little.
func upkeepSession() map[string]string {
	s := session()
	s["application_name"] = "clockd upkeep"
	s["lock_timeout"] = millis(upkeepLockWait)
	return s
}

// listenSession returns the settings of the session that hears notifications.
func listenSession() map[string]string {
	s := session()
	s["application_name"] = "clockd listen"
	return s
}

// migrateSession returns the settings of the session that migrates: it waits for the others and takes its time.
func migrateSession() map[string]string {
	return map[string]string{"application_name": "clockd migrate"}
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
