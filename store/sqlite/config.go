package sqlite

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
)

// maxShards is the largest shard count. A due scan has one subselect for each shard, and SQLite allows 500 in one
// statement.
const maxShards = 256

// scheme is the beginning of every URL.
const scheme = "sqlite:"

// Config says where the file is and how the store uses it.
type Config struct {
	URL       string        // sqlite:PATH, relative to the working directory or absolute
	Shards    int           // shard count of a new database; 0: clock.DefaultShards, or the existing count. Check fails if the database has another count
	Readers   int           // connections for all reads except reads of alarms by requests, at least 1; default 4
	ReadConns int           // connections for requests that read alarms, at least 2; default 4
	Timeout   time.Duration // limit of a call whose context has no deadline; default clock.DatabaseCall
}

// DefaultConfig returns a valid Config without a URL.
func DefaultConfig() Config { return Config{Readers: 4, ReadConns: 4, Timeout: clock.DatabaseCall} }

// Deps are the dependencies of a store.
type Deps = engine.Deps

// Validate returns every rule that the configuration breaks, joined, or nil.
func (c Config) Validate() error {
	_, err := c.path()
	broken := []error{err}
	rule := func(holds bool, format string, args ...any) {
		if !holds {
			broken = append(broken, fmt.Errorf("sqlite: "+format, args...))
		}
	}
	rule(c.Shards >= 0 && c.Shards <= maxShards,
		"shards must be from 1 to %d, or 0: the due scan reads all shards in one statement", maxShards)
	rule(c.Readers >= 1, "readers must be at least 1: the writer's connection only writes")
	rule(c.ReadConns >= 2, "read conns must be at least 2: a list must not hold up the read of one alarm")
	rule(c.Timeout > 0, "the timeout must be longer than 0")
	return errors.Join(broken...)
}

// path returns the file that the URL names. It is the literal text after the scheme, without the "//" before an
// absolute path.
func (c Config) path() (string, error) {
	path, is := strings.CutPrefix(c.URL, scheme)
	switch {
	case !is:
		return "", errors.New("sqlite: the database URL must be of the form sqlite:PATH")
	case strings.HasPrefix(path, "///"):
		path = path[2:]
	case strings.HasPrefix(path, "//"):
		return "", errors.New("sqlite: a file has no host: write sqlite:PATH, or sqlite:///PATH for an absolute one")
	}
	switch {
	case path == "":
		return "", errors.New("sqlite: the database URL names no file: write sqlite:PATH")
	case strings.HasPrefix(path, ":memory:"), strings.Contains(path, "mode=memory"):
		return "", errors.New("sqlite: a database in memory loses every alarm with the process: name a file, like sqlite:clockd.db")
	case strings.HasSuffix(path, "/"):
		return "", fmt.Errorf("sqlite: %q is a directory: name a file in it", path)
	case strings.ContainsAny(path, "?#\x00"):
		return "", errors.New("sqlite: the database URL takes no parameters, and a file name no ? or #")
	}
	return path, nil
}

// The pragmas of each kind of connection.
var (
	// The writer waits for another program's lock in short steps, because SQLite's wait does not notice the end of a
	// context. It leaves checkpoints to the checkpointer.
	writePragmas      = []string{"busy_timeout(100)", "wal_autocheckpoint(0)"}
	checkpointPragmas = []string{"busy_timeout(100)"}
	readPragmas       = []string{busyPragma, "query_only(1)"}
	migratePragmas    = []string{busyPragma, "journal_mode(WAL)"}

	busyPragma = fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds())
)

// dsn returns the driver's data source name of the file, for connections with these pragmas.
func dsn(path string, pragmas []string) string {
	q := url.Values{"_pragma": append([]string{"synchronous(FULL)"}, pragmas...)}
	if !slices.Equal(pragmas, readPragmas) {
		q.Set("_txlock", "immediate")
	}
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path) + "?" + q.Encode()
}
