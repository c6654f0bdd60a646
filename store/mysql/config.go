package mysql

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
)

// leaseConns is the number of connections for leases and the database's clock. They are apart, so that a node whose
// reads hang keeps its leases.
const leaseConns = 2

// Deps are the dependencies of a store.
type Deps = engine.Deps

// Config says where the database is and how the store uses it.
type Config struct {
	URL         string        // mysql:// or mariadb://user:password@host:3306/database?...; parameters of go-sql-driver/mysql, and ssl-ca, ssl-cert, ssl-key
	Shards      int           // shard count of a new database; 0: clock.DefaultShards, or the existing count. Check fails if the database has another count
	Conns       int           // connections that look up the keys of answers and the server's settings; default 3
	ReadConns   int           // connections for requests that read alarms, at least 2; default 6
	WriteConns  int           // connections for requests that write, one for each concurrent transaction, at least 2; default 10
	RingConns   int           // connections that only claims use, one for each ring worker; default 4
	UpkeepConns int           // connections for loading, expiring and purging, which must not wait for requests; default 6
	Timeout     time.Duration // limit of a call whose context has no deadline; default clock.DatabaseCall
	DialTimeout time.Duration // limit of dialling a new connection; default 3 s
}

// DefaultConfig returns a valid Config without a URL.
func DefaultConfig() Config {
	return Config{Conns: 3, ReadConns: 6, WriteConns: 10, RingConns: 4, UpkeepConns: 6, Timeout: clock.DatabaseCall,
		DialTimeout: 3 * time.Second}
}

// Validate returns every rule that the configuration breaks, joined, or nil.
func (c Config) Validate() error {
	var broken []error
	rule := func(holds bool, format string, args ...any) {
		if !holds {
			broken = append(broken, fmt.Errorf("mysql: "+format, args...))
		}
	}
	rule(c.URL != "", "the database URL is empty")
	rule(c.Shards >= 0 && c.Shards <= clock.MaxShards, "shards must be from 1 to %d, or 0", clock.MaxShards)
	rule(c.Conns >= 1, "conns must be at least 1: an answer looks up the key of its alarm there")
	rule(c.ReadConns >= 2, "read conns must be at least 2: a list must not hold up the read of one alarm")
	rule(c.WriteConns >= 2,
		"write conns must be at least 2: a write that waits for a locked row must not stop the others")
	rule(c.RingConns >= 1, "ring conns must be at least 1: a claim holds a connection until it is settled")
	rule(c.UpkeepConns >= 1, "upkeep conns must be at least 1: without loading nothing rings")
	rule(c.Timeout > 0 && c.DialTimeout > 0, "timeouts must be longer than 0")
	return errors.Join(broken...)
}

// errURL does not quote the URL, because any part of it that could not be parsed may contain the password.
var errURL = errors.New("mysql: the database URL cannot be read: it must be mysql://user:password@host:port/database (or mariadb://), " +
	"with special characters of user and password percent-encoded")

// driver returns the driver's configuration. Connections compare text byte for byte. They put parameters into the
// statement themselves, which takes one round trip instead of three. A connection is given up when its server becomes
// read-only.
func (c Config) driver(log *slog.Logger) (*mysql.Config, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "mysql" && u.Scheme != "mariadb" || u.Host == "" || u.Opaque != "" {
		return nil, errURL
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, errURL
	}
	files := takeFiles(query)
	database := strings.Trim(u.Path, "/")
	if database == "" || strings.Contains(database, "/") {
		return nil, errors.New("mysql: the database URL names no database, or more than one")
	}
	host := u.Host
	if u.Port() == "" {
		host += ":3306"
	}
	d, err := mysql.ParseDSN("tcp(" + host + ")/" + url.PathEscape(database) + "?" + query.Encode())
	if err != nil {
		return nil, fmt.Errorf("mysql: the database URL's host or parameters: %w", err)
	}
	if err := encrypt(d, files); err != nil {
		return nil, err
	}
	d.User = u.User.Username()
	d.Passwd, _ = u.User.Password()
	d.Collation = "utf8mb4_bin"
	d.ClientFoundRows = true
	d.InterpolateParams = true
	d.Logger = driverLog{log}
	d.MultiStatements = false
	d.ParseTime = false
	d.RejectReadOnly = true
	d.MaxAllowedPacket = 0 // ask the server
	d.Timeout = c.DialTimeout
	return d, nil
}

// driverLog receives the driver's messages. Most of them report a dead connection in the pool.
type driverLog struct{ log *slog.Logger }

// Print logs a message.
func (l driverLog) Print(v ...any) { l.log.Debug("database driver", "err", fmt.Sprint(v...)) }
