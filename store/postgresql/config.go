package postgresql

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
)

// leaseConns is the number of connections for leases and the database's clock. They are apart, so that a node whose
// reads hang keeps its leases.
const leaseConns = 2

// Timeouts that the server enforces.
const (
	lockWait         = 20 * time.Millisecond // how long a write waits for a key that another transaction inserts or purges
	ringLockWait     = time.Second           // lock wait of claims; they skip locked rows, so this is a safety net
	upkeepLockWait   = time.Second           // lock wait of upkeep, which skips locked rows too, and of leases
	statementTimeout = 30 * time.Second      // limit of a statement whose client is gone: a safety net
	vanishedClient   = 8 * time.Second       // how long the server waits for an unresponsive client before it drops the connection
)

// Config says where the database is and how the store uses it.
type Config struct {
	Distributed bool          // the database is distributed by Citus, or Migrate makes it so; see the package comment
	URL         string        // postgres://user:password@host:5432/database?sslmode=...; further parameters as pgx reads them, see withEncryption
	Shards      int           // shard count of a new database; 0: clock.DefaultShards, or the existing count. Check fails if the database has another count
	Conns       int           // connections for requests that write, at least 2; default 10
	ReadConns   int           // connections for requests that read alarms, at least 2; default 6
	RingConns   int           // connections that only claims use, one for each ring worker; default 4
	UpkeepConns int           // connections for loading, expiring and purging, which must not wait for requests; default 6
	Timeout     time.Duration // limit of a call whose context has no deadline; default clock.DatabaseCall
	DialTimeout time.Duration // limit of dialling a new connection; default 3 s
	PingTimeout time.Duration // limit of the check of a connection that was idle for more than 1 s; default 1 s
}

// DefaultConfig returns a valid Config without a URL.
func DefaultConfig() Config {
	return Config{
		Conns: 10, ReadConns: 6, RingConns: 4, UpkeepConns: 6, Timeout: clock.DatabaseCall,
		DialTimeout: 3 * time.Second, PingTimeout: time.Second,
	}
}

// Deps are the dependencies of a store.
type Deps = engine.Deps

// Validate returns every rule that the configuration breaks, joined, or nil.
func (c Config) Validate() error {
	var broken []error
	rule := func(holds bool, format string, args ...any) {
		if !holds {
			broken = append(broken, fmt.Errorf("postgresql: "+format, args...))
		}
	}
	rule(c.URL != "", "the database URL is empty")
	rule(c.Shards >= 0 && c.Shards <= clock.MaxShards, "shards must be from 1 to %d, or 0", clock.MaxShards)
	rule(c.Conns >= 2, "conns must be at least 2: a write that waits for a locked row must not stop the others")
	rule(c.ReadConns >= 2, "read conns must be at least 2: a list must not hold up the read of one alarm")
	rule(c.RingConns >= 1, "ring conns must be at least 1: a claim holds a connection until it is settled")
	rule(c.UpkeepConns >= 1, "upkeep conns must be at least 1: without loading nothing rings")
	rule(c.Timeout > 0 && c.DialTimeout > 0 && c.PingTimeout > 0, "timeouts must be longer than 0")
	rule(c.PingTimeout <= c.Timeout, "the ping timeout must not be longer than the timeout of the call that pings")
	return errors.Join(broken...)
}

// pool returns the configuration of a pool. settings are the settings of its sessions; the URL may override them. Only
// applicationName travels in the startup message (see sessionSetup).
func (c Config) pool(conns int, settings map[string]string) (*pgxpool.Config, error) {
	u, err := withEncryption(c.URL)
	if err != nil {
		return nil, err
	}
	p, err := pgxpool.ParseConfig(u)
	if err != nil {
		return nil, fmt.Errorf("postgresql: the database URL cannot be used: %w", withoutURL(err))
	}
	if err := checkEncryption(p.ConnConfig); err != nil {
		return nil, err
	}
	p.MaxConns = int32(conns)
	p.PingTimeout = c.PingTimeout
	p.ConnConfig.ConnectTimeout = c.DialTimeout
	prepareSession(&p.ConnConfig.Config, settings)
	return p, nil
}

// withoutURL returns the cause of a URL error. The cause does not quote the URL, which contains the password.
func withoutURL(err error) error {
	if u, is := errors.AsType[*url.Error](err); is {
		return u.Err
	}
	if inner := errors.Unwrap(err); inner != nil {
		return withoutURL(inner)
	}
	return errors.New("it is not of the form postgres://user:password@host:port/database")
}

// sessionSettings returns the settings of every session: READ COMMITTED, no plans that read a whole table or take more
// than one process of the server, and bounded waits.
func sessionSettings() map[string]string {
	s := map[string]string{
		applicationName:                 "clockd",
		"default_transaction_isolation": "read committed",
		"statement_timeout":             millis(statementTimeout),
		"tcp_user_timeout":              millis(vanishedClient),
		// for a host that vanished in the middle of a pipeline, while the server waits for the rest: 4 s and 2 times 2
		// s
		"tcp_keepalives_idle":     "4",
		"tcp_keepalives_interval": "2",
		"tcp_keepalives_count":    "2",
		// for a node that stopped in the middle of a write or a claim
		idleInTransactionTimeout: millis(clock.IdleInTransaction),
	}
	maps.Copy(s, planSettings())
	return s
}

// planSettings returns the settings that decide about plans: none that reads a whole table or takes more than one
// process of the server.
func planSettings() map[string]string {
	return map[string]string{
		"enable_seqscan":                  "off",
		"enable_bitmapscan":               "off",
		"enable_hashjoin":                 "off",
		"enable_mergejoin":                "off",
		"jit":                             "off",
		"max_parallel_workers_per_gather": "0",
	}
}

// ringSettings returns the settings of sessions for claims. Their statements are short, because other transactions wait
// for the rows that they hold.
func ringSettings() map[string]string {
	s := sessionSettings()
	s[applicationName] = "clockd ring"
	s["lock_timeout"] = millis(ringLockWait)
	s["statement_timeout"] = millis(clock.IdleInTransaction)
	return s
}

// readSettings returns the settings of sessions for requests that read.
func readSettings() map[string]string {
	s := sessionSettings()
	s[applicationName] = "clockd read"
	s["statement_timeout"] = millis(engine.ReadLimit)
	return s
}

// upkeepSettings returns the settings of sessions that load, purge and keep leases. They skip locked rows, or wait
// briefly.
func upkeepSettings() map[string]string {
	s := sessionSettings()
	s[applicationName] = "clockd upkeep"
	s["lock_timeout"] = millis(upkeepLockWait)
	return s
}

// listenSettings returns the settings of the session that receives notifications.
func listenSettings() map[string]string {
	s := sessionSettings()
	s[applicationName] = "clockd listen"
	return s
}

// migrateSettings returns the settings of the migrating session. It has no timeouts: it waits for other sessions, and
// its statements may be slow.
func (c Config) migrateSettings() map[string]string {
	settings := map[string]string{applicationName: "clockd migrate"}
	if c.Distributed {
		settings[citusShardCount] = strconv.Itoa(defaultCitusShards)
	}
	return settings
}

// citusShardCount is Citus's setting for the number of Citus shards of a new distributed table. Its value in the URL
// wins.
const citusShardCount = "citus.shard_count"

// defaultCitusShards is the number of placements of a new distributed database. A group of ops is one transaction for
// each placement, so few placements make cheap groups. A placement is the least that a server can have.
const defaultCitusShards = 8

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
