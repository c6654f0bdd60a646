package sqlite

import (
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// DefaultShards is the shard count of a new database where the Config names none.
const DefaultShards = 64

// maxShards is how many subselects of a due scan SQLite joins in one statement, well under its limit of 500.
const maxShards = 256

// scheme begins every URL.
const scheme = "sqlite:"

// Config says where the file is and how it is used.
type Config struct {
	URL     string        // sqlite:PATH, relative to the working directory or absolute
	Shards  int           // of a new database; 0: DefaultShards, or what the database has. Check fails where it differs
	Readers int           // connections that only read, at least 1; default 4
	Timeout time.Duration // of a call whose context has no deadline; default 5 s
}

// DefaultConfig returns a Config that lacks nothing but the URL.
func DefaultConfig() Config { return Config{Readers: 4, Timeout: 5 * time.Second} }

// Deps are what a Store uses.
type Deps struct {
	Log        *slog.Logger          // nil: none
	Registerer prometheus.Registerer // of the store's metrics; nil: they are counted for nobody
}

// Validate returns the first rule that the configuration breaks.
func (c Config) Validate() error {
	_, err := c.path()
	switch {
	case err != nil:
		return err
	case c.Shards < 0 || c.Shards > maxShards:
		return fmt.Errorf("sqlite: shards must be from 1 to %d, or 0: the due scan asks for all in one statement", maxShards)
	case c.Readers < 1:
		return errors.New("sqlite: readers must be at least 1: the writer's connection only writes")
	case c.Timeout <= 0:
		return errors.New("sqlite: the timeout must be longer than 0")
	}
	return nil
}

// path returns the file that the URL names: all of it after the scheme as it stands, without "//" of an absolute path.
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

// What connections are for, as pragmas of their own.
var (
	// writing waits for another program's lock in short steps, for busy waiting does not see that a context has ended.
	writing   = []string{"busy_timeout(100)"}
	reading   = []string{"busy_timeout(5000)", "query_only(1)"}
	migrating = []string{"busy_timeout(5000)", "journal_mode(WAL)"}
)

// dsn returns what opens the file for the purpose.
func dsn(path string, purpose []string) string {
	q := url.Values{"_pragma": append([]string{"synchronous(FULL)"}, purpose...)}
	if !slices.Equal(purpose, reading) {
		q.Set("_txlock", "immediate")
	}
	return "file:" + strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path) + "?" + q.Encode()
}
