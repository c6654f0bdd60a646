package mysql

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// DefaultShards is the shard count of a new database where the Config names none.
const DefaultShards = 64

// maxShards is what the column shard holds.
const maxShards = 1 << 15

// Config says where the database is and how it is used.
type Config struct {
	URL         string        // mysql://user:password@host:3306/database?...; parameters as go-sql-driver/mysql reads them
	Shards      int           // of a new database; 0: DefaultShards, or what the database has. Check fails where it differs
	Conns       int           // connections for requests that read; default 6
	WriteConns  int           // connections for requests that write, one a transaction at once, at least 2; default 10
	RingConns   int           // connections that only rings use, one a ring worker; default 4
	UpkeepConns int           // connections for what must go on beside requests: loading, purging, leases, the time; default 6
	Timeout     time.Duration // of a call whose context has no deadline; default 5 s
	DialTimeout time.Duration // of a new connection; default 3 s
}

// DefaultConfig returns a Config that lacks nothing but the URL.
func DefaultConfig() Config {
	return Config{Conns: 6, WriteConns: 10, RingConns: 4, UpkeepConns: 6, Timeout: 5 * time.Second, DialTimeout: 3 * time.Second}
}

// Validate returns the first rule that the configuration breaks.
func (c Config) Validate() error {
	switch {
	case c.URL == "":
		return errors.New("mysql: the database URL is empty")
	case c.Shards < 0 || c.Shards > maxShards:
		return fmt.Errorf("mysql: shards must be from 1 to %d, or 0", maxShards)
	case c.Conns < 1:
		return errors.New("mysql: conns must be at least 1: nothing could be read")
	case c.WriteConns < 2:
		return errors.New("mysql: write conns must be at least 2: a write that waits for a locked row must not stop the others")
	case c.RingConns < 1:
		return errors.New("mysql: ring conns must be at least 1: a claim holds a connection until it is settled")
	case c.UpkeepConns < 1:
		return errors.New("mysql: upkeep conns must be at least 1: without loading and leases nothing rings")
	case c.Timeout <= 0 || c.DialTimeout <= 0:
		return errors.New("mysql: timeouts must be longer than 0")
	}
	return nil
}

// errURL does not tell what is wrong with a URL: whatever part of it could not be read may hold the password.
var errURL = errors.New("mysql: the database URL cannot be read: it must be mysql://user:password@host:port/database, " +
	"with special characters of user and password percent-encoded")

// driver returns the URL as the driver's configuration. Connections compare text byte for byte, put parameters into the
// statement themselves (one round trip in place of three), and are given up when the server has become read-only.
func (c Config) driver(log *slog.Logger) (*mysql.Config, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "mysql" || u.Host == "" || u.Opaque != "" {
		return nil, errURL
	}
	database := strings.Trim(u.Path, "/")
	if database == "" || strings.Contains(database, "/") {
		return nil, errors.New("mysql: the database URL names no database, or more than one")
	}
	host := u.Host
	if u.Port() == "" {
		host += ":3306"
	}
	d, err := mysql.ParseDSN("tcp(" + host + ")/" + url.PathEscape(database) + "?" + u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("mysql: the database URL's host or parameters: %w", err)
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

// driverLog takes what the driver has to say, which is mostly that a connection was found dead in the pool.
type driverLog struct{ log *slog.Logger }

// Print logs it.
func (l driverLog) Print(v ...any) { l.log.Debug("database driver", "err", fmt.Sprint(v...)) }
