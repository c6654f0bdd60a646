package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
)

// database is a database that the bench makes for one stage.
type database interface {
	// URL returns the database's URL for clockd serve.
	URL() string
	// Engine returns the server's name and version.
	Engine(ctx context.Context) (string, error)
	// Time returns the server's clock in microseconds since the epoch.
	Time(ctx context.Context) (int64, error)
	// Logged returns how many bytes the server has written to its log for all clients; -1 if it has no log.
	Logged(ctx context.Context) (int64, error)
	// Syncs returns how often the server has synced its log for all clients; -1 if it does not report it.
	Syncs(ctx context.Context) (int64, error)
	// SyncsLate returns the longest time after which Syncs includes a sync.
	SyncsLate() time.Duration
	// Bare returns a new empty table with the columns and indexes of clockd's table. clockd must have migrated before.
	Bare(ctx context.Context) (bareTable, error)
	// Full returns clockd's own table with all its rows. The bench inserts and cancels there under an application of
	// its own.
	Full(ctx context.Context) (bareTable, error)
	// Process returns the id of the server's main process; 0 if there is none on this machine.
	Process(ctx context.Context) (pid int, err error)
	// Upkeep does the work that the server would do by itself some time after the table was filled, during the
	// measurement.
	Upkeep(ctx context.Context) error
	// Drop removes the database and closes all connections to it.
	Drop(ctx context.Context) error
}

// bareTable runs bare statements on clockd's table or on a copy of it. It is safe for concurrent use.
type bareTable interface {
	// Insert inserts all rows in one statement and commits.
	Insert(ctx context.Context, rows []bareRow) error
	// Cancel cancels all alarms in one statement, by key, and commits.
	Cancel(ctx context.Context, businessIDs []string, now int64) error
	// IDs returns the ids of all rows, in the order of their due times.
	IDs(ctx context.Context) ([]int64, error)
	// Claim rings the due alarms among the ids in one transaction. It updates them to rung, reads them, calls do and
	// commits.
	Claim(ctx context.Context, ids []int64, now int64, claimID string, do func([]bareRing) error) error
	// Close closes the table's own connections.
	Close() error
}

// bareRow holds the columns that differ between the rows of a series.
type bareRow struct {
	businessID string
	shard      int
	payload    []byte
	at         int64 // target_ring_at and next_try_time
	now        int64 // create_time and update_time
}

// bareRing holds the values of a ring's message.
type bareRing struct {
	id         int64
	businessID string
	payload    []byte
	ringAt     int64
	generation int64
	ringNo     int32
	retryTimes int32
	rungAt     int64
	claimID    string
}

// messageID returns the id of the ring's message, as in clockd's contract.
func (r *bareRing) messageID() string { return fmt.Sprintf("%d.%d.%d", r.id, r.generation, r.ringNo) }

// The columns that the bare statements write and read.
const (
	insertColumns = "application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at, " +
		"latest_ring_at, next_try_time, retry_policy, ack_timeout, max_rings, priority, traceparent, create_time, update_time"
	ringColumns = "id, business_id, payload, target_ring_at, generation, ring_no, retry_times"
)

// The tables of bare statements: their own table, or clockd's table. There they use an application that clockd's
// clients do not use.
const (
	bareName        = "bare_alarm"
	fullName        = "alarm"
	bareApplication = "bench-ceiling"
)

// shards is the number of shards of a bare table, equal to clockd's default.
const shards = clock.DefaultShards

// bareConns is the size of a bare pool. It is enough for all writers and ring workers.
const bareConns = 16

var errScheme = errors.New("the database URL must have mysql://, postgres:// or sqlite: as its scheme")

// newDatabase makes a database of this name on the server of the URL.
func newDatabase(ctx context.Context, url, name string) (database, error) {
	scheme, _, _ := strings.Cut(url, ":")
	switch scheme {
	case "mysql", "mariadb":
		return newMySQL(ctx, url, name)
	case "postgres", "postgresql":
		if isDistributed() {
			return newCitus(ctx, url, name)
		}
		return newPostgreSQL(ctx, url, name)
	case "sqlite":
		return newSQLite(url, name)
	default:
		return nil, errScheme
	}
}

// onNewName is called with every new name. Tests check that nothing with such a name is left.
var onNewName = func(string) {}

// randomName returns a name for the database and exchange of one stage.
func randomName() string {
	name := fmt.Sprintf("clockd_bench_%08x", rand.Uint32())
	onNewName(name)
	return name
}

// placeholders returns the text one n times, separated by commas.
func placeholders(one string, n int) string {
	return strings.TrimSuffix(strings.Repeat(one+",", n), ",")
}
