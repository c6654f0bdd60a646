package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// database is a database of our own, made for one stage.
type database interface {
	// URL returns it as clockd serve is given it.
	URL() string
	// Engine returns the server's name and version.
	Engine(ctx context.Context) (string, error)
	// Time returns its clock in microseconds since the epoch.
	Time(ctx context.Context) (int64, error)
	// Logged returns how many bytes the server has written to its log, for everyone; -1 where it has none.
	Logged(ctx context.Context) (int64, error)
	// Syncs returns how often it has synced the log, for everyone; -1 where it does not tell.
	Syncs(ctx context.Context) (int64, error)
	// SyncsLate returns after what time it tells of a sync at the latest.
	SyncsLate() time.Duration
	// Bare returns a new empty table with the columns and indexes of clockd's, which must have migrated by then.
	Bare(ctx context.Context) (bareTable, error)
	// Full returns clockd's own table with all that is in it, to insert into and to cancel in under an application of its own.
	Full(ctx context.Context) (bareTable, error)
	// Process returns the server's main process where it runs on this machine; 0 where it does not, or there is none.
	Process(ctx context.Context) (pid int, err error)
	// Upkeep does what the server would do by itself after the table was filled, but later, beside what is measured.
	Upkeep(ctx context.Context) error
	// Drop removes it and all connections to it.
	Drop(ctx context.Context) error
}

// bareTable is a copy of clockd's table, or that table, worked on with bare statements. Safe for concurrent use.
type bareTable interface {
	// Insert inserts all in one statement and commits.
	Insert(ctx context.Context, rows []bareRow) error
	// Cancel cancels all in one statement, by key, and commits.
	Cancel(ctx context.Context, businessIDs []string, now int64) error
	// IDs returns the ids of all that are due, in the order of their times.
	IDs(ctx context.Context) ([]int64, error)
	// Claim rings those of the ids that are due, in one transaction: update them to rung, read them, do, commit.
	Claim(ctx context.Context, ids []int64, now int64, claimID string, do func([]bareRing) error) error
	// Close lets go of the connections.
	Close() error
}

// bareRow is what differs between the rows of a series.
type bareRow struct {
	businessID string
	shard      int
	payload    []byte
	at         int64 // target_ring_at and next_try_time
	now        int64 // create_time and update_time
}

// bareRing is what a message is made of.
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

// The columns that the bare statements write and read.
const (
	insertColumns = "application, business_id, shard, state, generation, payload, payload_kind, content_type, target_ring_at, " +
		"latest_ring_at, next_try_time, retry_policy, ack_timeout, max_rings, priority, traceparent, create_time, update_time"
	ringColumns = "id, business_id, payload, target_ring_at, generation, ring_no, retry_times"
)

// Where bare statements work: in a table of their own, or among clockd's rows under an application that it is not asked for.
const (
	bareName        = "bare_alarm"
	fullName        = "alarm"
	bareApplication = "bench-ceiling"
)

// shards is how many the rows of a bare table are spread over, as clockd's by default.
const shards = 64

// bareConns is enough for every writer and ring worker.
const bareConns = 16

var errScheme = errors.New("the database URL must have mysql://, postgres:// or sqlite: as its scheme")

// newDatabase makes a database beside the one that the URL names.
func newDatabase(ctx context.Context, url, name string) (database, error) {
	scheme, _, _ := strings.Cut(url, ":")
	switch scheme {
	case "mysql":
		return newMySQL(ctx, url, name)
	case "postgres", "postgresql":
		return newPostgreSQL(ctx, url, name)
	case "sqlite":
		return newSQLite(url, name)
	default:
		return nil, errScheme
	}
}

// nameMade is told every name; tests look whether what bears it has gone.
var nameMade = func(string) {}

// randomName returns the name of what is made for one stage.
func randomName() string {
	name := fmt.Sprintf("clockd_bench_%08x", rand.Uint32())
	nameMade(name)
	return name
}

// placeholders returns n times the same, with commas between.
func placeholders(one string, n int) string {
	return strings.TrimSuffix(strings.Repeat(one+",", n), ",")
}
