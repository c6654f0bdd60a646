package engine

import (
	"context"
	"database/sql"
	"io/fs"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Driver is what an engine contributes to a Store: its connections, its statements and the meaning of its errors. A
// method runs one or few statements, within the deadline of its context, and returns the raw error. It neither repeats
// a statement nor maps an error.
type Driver interface {
	Errors
	Schema
	Reads
	DueReads
	Upkeep
	Recovery
	Cluster
	Settings
	Tokens
	Acts
	Zones
	Repeating
	Jobs
	Steps
	Sightings
	Manifests
	Writes
	Claims
	Snapshots

	// Traits describes the engine. The values never change.
	Traits() Traits
	// Close ends all connections. It waits for open claims, or leaves their connections to them.
	Close() error
}

// Traits describes an engine.
type Traits struct {
	Name        string // first words of every error: "mysql", "sqlite: PATH"
	Replica     string // the engine's word for a server that takes no writes: "replica", "standby"
	HoldsClaims bool   // a claim may hold a transaction open, unless Server.CommitsClaims is set
}

// Errors says what errors mean.
type Errors interface {
	// Classify returns the class of an error that a method of the driver returned. It judges by type and code, never by
	// text.
	Classify(err error) Class
	// DropConnections closes the connections to a server that takes no writes any more (ReadOnly): a replica, or a
	// Galera server outside the majority. Where the client library closes them itself, only the others remain.
	DropConnections()
}

// Schema reads and changes the schema.
type Schema interface {
	// Migrations returns the migration files, NNNNN_name.sql at the root.
	Migrations() fs.FS
	// OpenMigration opens a session for Migrate. Its statements may take long. An engine that locks outside the
	// database waits here for its lock, until ctx ends.
	OpenMigration(ctx context.Context) (*MigrationSession, error)
	// MakeShards inserts that many shards into a database without shards, in one transaction. Existing shards stay.
	MakeShards(ctx context.Context, count int) error
	// Identify reads which server the driver works with.
	Identify(ctx context.Context) (Server, error)
	// ReadSchemaVersion returns the version of the newest applied migration; 0 without one (see SchemaVersion).
	ReadSchemaVersion(ctx context.Context) (int64, error)
	// ReadOldestBuild returns the oldest build level that may work on the database.
	ReadOldestBuild(ctx context.Context) (int64, error)
	// CountShards returns the number of shards; 0 before MakeShards.
	CountShards(ctx context.Context) (int64, error)
	// ReadTime returns the database's clock in microseconds since the epoch.
	ReadTime(ctx context.Context) (int64, error)
	// ReadDurability judges the settings that decide how safe commits are, in a fixed order.
	ReadDurability(ctx context.Context) ([]store.Finding, error)
}

// Server is the server, or the library, that a driver works with.
type Server struct {
	Name          string // engine and version for people, like "mariadb 10.11.19"
	Unfit         error  // why clockd cannot work with it; nil if it can
	CommitsClaims bool   // no claim holds a transaction on this server, although the engine holds claims
	// Placements divides the shards by where their rows are, in a database of several servers. The rows of one
	// placement are always on one server together, and no transaction has rows of two placements. With several
	// placements the id of an alarm tells its shard (ShardOfID). Nil: all rows are on one server.
	Placements [][]int
}

// MigrationSession runs the migrations of one call of Migrate.
type MigrationSession struct {
	Dialect goose.Dialect
	DB      *sql.DB            // records the versions; Migrate closes it
	Lock    lock.SessionLocker // nil: OpenMigration has taken the lock
	Unlock  func()             // gives up the lock of OpenMigration; nil: nothing to do

	// Conn returns the connection of statements that commit by themselves. Nil: each migration is one transaction of
	// DB.
	Conn      func() Execer
	Remainder RemainderFunc // with Conn: the part of a statement that a killed migration has left
}

// Reads are the reads of requests. They may hang, so they have connections of their own.
type Reads interface {
	// ReadAlarm returns the row of the key, or sql.ErrNoRows, and at most limit of the alarm's newest attempts, newest
	// first. On a server the attempts may be newer than the row: a snapshot of both would cost two more round trips.
	ReadAlarm(ctx context.Context, k clock.Key, limit int) (Row, []AttemptRow, error)
	// ReadList passes the rows to take, by business id (bytewise), until take returns false. It keeps one row in
	// memory.
	ReadList(ctx context.Context, q *ListQuery, take func(*Row) bool) error
	// ReadListBound returns two neighbouring business ids of the query's range, whatever their states, after the given
	// number of ids; fewer if the range ends before.
	ReadListBound(ctx context.Context, q *ListQuery, entries int) ([]string, error)
	// ReadKeys returns the keys of at most MaxKeys ids (see KeysByID).
	ReadKeys(ctx context.Context, ids []int64) (map[int64]clock.Key, error)
	// ReadAlarmsOf returns the rows of the keys, at most MaxKeys, in any order.
	ReadAlarmsOf(ctx context.Context, keys []clock.Key) ([]Row, error)
	// ReadNextApplications returns, for each of at most maxNames names, the first application with alarms after it
	// (bytewise), or "" for none. It may answer the first names alone, at least one.
	ReadNextApplications(ctx context.Context, after []string) ([]string, error)
	// ReadStateCounts counts the application's first alarms by business id, at most limit.
	ReadStateCounts(ctx context.Context, application string, limit int) (clock.StateCounts, error)
	// ReadNextAttentionApplication returns the first application with expired, dead or paused alarms after the name, or
	// sql.ErrNoRows.
	ReadNextAttentionApplication(ctx context.Context, after string) (string, error)
	// ReadAttention returns the first business ids of the query's range whose alarms are in the state, which is one
	// of clock.AttentionStates, in order and at most q.Limit.
	ReadAttention(ctx context.Context, q *ListQuery, state clock.State) ([]string, error)
	// CountAttention counts the application's alarms in such a state, at most limit.
	CountAttention(ctx context.Context, application string, state clock.State, limit int) (int64, error)
}

// ListQuery asks for alarms of an application in a range of business ids.
type ListQuery struct {
	Application string
	States      []clock.State // not empty
	After       string        // begin of the range, exclusive; empty: no bound
	Prefix      string        // first bytes of the business ids; may be empty
	End         string        // end of the range, exclusive; not after the smallest string behind all business ids with the prefix
	Limit       int
	Repeating   bool // of the repeating alarms alone, whatever their states; an alarm that repeated once may be among them
}

// DueReads read the due index alone. They take no locks.
type DueReads interface {
	// ReadDue returns the entries that q asks for, at most q.Limit for each shard and in due order within a shard.
	ReadDue(ctx context.Context, q *store.DueQuery) ([]store.Due, error)
	// ReadDueEnds returns of each shard the entry that lies q.ScanLimit entries behind the first; none if the shard has
	// fewer entries.
	ReadDueEnds(ctx context.Context, q *store.DueQuery) ([]store.Due, error)
	// CountDueByTime counts the first due entries of one shard in the query's steps, at most limit, in the order of the
	// steps.
	CountDueByTime(ctx context.Context, q *clock.ForecastQuery, shard, limit int) ([]DueCount, error)
	// CountPending counts the entries of one shard by application.
	CountPending(ctx context.Context, shard int) (map[string]int64, error)
	// CountDue counts the due alarms up to limit, and finds the oldest.
	CountDue(ctx context.Context, now clock.Instant, shards []int, limit int) (store.Overdue, error)
}

// DueCount is the number of due entries of an application in one step of a forecast.
type DueCount struct {
	Number      int64  // number of the step, from 0
	Application string // empty: all that the query does not count by themselves
	Count       int64
}

// Upkeep finds alarms to end, and deletes alarms.
type Upkeep interface {
	// ListEnding lists the named alarms, which have one placement and are at least one, whose latest_ring_at is before
	// now, or that have rung max_rings times without an acknowledgement. It reads without a lock, and may list a row
	// that can still ring.
	ListEnding(ctx context.Context, now clock.Instant, ids []int64) ([]int64, error)
	// DeleteFinished deletes finished alarms and their attempts, in one transaction. It skips locked rows. It fails
	// with store.ErrOldBuild, or changes no row, if the database demands a newer build.
	DeleteFinished(ctx context.Context, p Purge) (int, error)
}

// Recovery prepares a database that was restored from a backup, while no node works on it.
type Recovery interface {
	// ReadIDs returns at most limit ids above after, in order.
	ReadIDs(ctx context.Context, after int64, limit int) ([]int64, error)
	// MarkRestored marks the named alarms, which have one placement and are at least one, in one transaction: due
	// alarms as in doubt, with the reason, and alarms that are neither due nor ringing, and do not repeat, by a higher
	// generation.
	MarkRestored(ctx context.Context, m RestoredMark) (store.RestoredCounts, error)
	// SkipIDs skips at least count ids of new alarms.
	SkipIDs(ctx context.Context, count int64) error
}

// RestoredMark says how to mark alarms of a restored database.
type RestoredMark struct {
	IDs    []int64
	Now    clock.Instant
	Reason string
	Raise  int64 // added to generations
}

// Purge says which finished alarms to delete.
type Purge struct {
	Before  clock.Instant // finished before this instant (exclusive)
	Settled clock.Instant // also finished before this instant, if the alarm rings at most once and is in doubt
	Limit   int           // most alarms, at most maxPurge
	Shards  int           // shard count of the database

	Placement int // number of the placement to delete from, as in Server.Placements
}

// Cluster reads and writes nodes and leases. Reads may hang, so leases have connections of their own.
type Cluster interface {
	// ReadCluster returns the rows of all nodes and leases, by shard and incarnation.
	ReadCluster(ctx context.Context) ([]ClusterRow, error)
	// AttendNode writes the node's row, with Started only into a new row. It extends all leases of the incarnation
	// until n.Expires, unless the database demands a newer build. It may be two transactions; then the row is written
	// first.
	AttendNode(ctx context.Context, n *store.Node) error
	// ForgetNodes deletes the nodes that expired before the instant.
	ForgetNodes(ctx context.Context, before clock.Instant) error
	// BeginCluster begins a transaction on nodes and leases.
	BeginCluster(ctx context.Context) (ClusterTx, error)
}

// ClusterTx is a transaction on nodes and leases. A method without a result may send its statement with the COMMIT.
type ClusterTx interface {
	Tx
	// TakeShards gives n the free and expired shards among the given ones. It skips locked rows. The result is in any
	// order.
	TakeShards(ctx context.Context, n *store.Node, now clock.Instant, shards []int) ([]int, error)
	// YieldShards frees the given shards that the incarnation owns.
	YieldShards(ctx context.Context, incarnation string, shards []int) error
	// YieldAllShards frees all shards of the incarnation.
	YieldAllShards(ctx context.Context, incarnation string) error
	// DeleteNode deletes the node's row, if there is one.
	DeleteNode(ctx context.Context, incarnation string) error
}

// Settings reads and writes the settings of applications, on the connections of leases.
type Settings interface {
	// ReadSettingCounter returns the number of changes of all settings.
	ReadSettingCounter(ctx context.Context) (int64, error)
	// ReadAllSettings returns the current settings of all applications, by application.
	ReadAllSettings(ctx context.Context) ([]SettingRow, error)
	// ReadSettings returns the current settings of the application, or sql.ErrNoRows.
	ReadSettings(ctx context.Context, application string) (SettingRow, error)
	SettingsHistory
	// BeginSettings begins a transaction that changes settings.
	BeginSettings(ctx context.Context) (SettingsTx, error)
}

// SettingsHistory reads the history of settings.
type SettingsHistory interface {
	// ReadSettingsHistory returns at most limit versions of the application's settings before a version (exclusive), the
	// newest first.
	ReadSettingsHistory(ctx context.Context, application string, before int64, limit int) ([]SettingRow, error)
}

// SettingsTx is a transaction that changes settings or manifests. CountChange must be called first.
type SettingsTx interface {
	Tx
	ActsTx
	// CountChange adds one to the number of changes, and returns the number of rows that it changed. Until the
	// transaction ends, CountChange of other transactions waits.
	CountChange(ctx context.Context) (int64, error)
	// ReadSettings returns the current settings of the application, or sql.ErrNoRows.
	ReadSettings(ctx context.Context, application string) (SettingRow, error)
	// PutSettings writes the row as the current settings of its application, and adds it to the history.
	PutSettings(ctx context.Context, row *SettingRow) error
	SettingsHistory
	// ReadManifests returns the row of the application, or sql.ErrNoRows.
	ReadManifests(ctx context.Context, application string) (ManifestRow, error)
	// PutManifests writes the row, in the place of its application's row.
	PutManifests(ctx context.Context, row *ManifestRow) error
	// RewriteSettings replaces the document of the row's version, if it is the current one.
	RewriteSettings(ctx context.Context, row *SettingRow) error
	// RewriteHistory replaces the document of the row's version in the history.
	RewriteHistory(ctx context.Context, row *SettingRow) error
}

// Tokens reads and writes access tokens, on the connections of leases.
type Tokens interface {
	// ReadTokenCounter returns the number of changes of all tokens.
	ReadTokenCounter(ctx context.Context) (int64, error)
	// ReadAllTokens returns all tokens, by id.
	ReadAllTokens(ctx context.Context) ([]TokenRow, error)
	// BeginTokens begins a transaction that changes tokens.
	BeginTokens(ctx context.Context) (TokenTx, error)
}

// TokenTx is a transaction that changes tokens. CountTokenChange must be called first, except before UseToken.
type TokenTx interface {
	Tx
	ActsTx
	// CountTokenChange adds one to the number of changes, and returns the number of rows that it changed. Until the
	// transaction ends, CountTokenChange of other transactions waits.
	CountTokenChange(ctx context.Context) (int64, error)
	// ReadToken returns the token, or sql.ErrNoRows.
	ReadToken(ctx context.Context, id string) (TokenRow, error)
	// AddToken inserts the row.
	AddToken(ctx context.Context, row *TokenRow) error
	// OpenSessions returns the ids of the open sessions of the parent and the maker, the oldest first.
	OpenSessions(ctx context.Context, parentID, maker string) ([]string, error)
	// DeleteSessions deletes the sessions that have ended or expired at an instant.
	DeleteSessions(ctx context.Context, at clock.Instant) error
	// UseToken writes the last use of a token, if it is later than the stored one.
	UseToken(ctx context.Context, id string, at clock.Instant) error
	// UpdateToken writes the secrets and the end of an existing row.
	UpdateToken(ctx context.Context, row *TokenRow) error
}

// Acts reads and deletes acts, on the connections of leases.
type Acts interface {
	// ReadActs returns acts, the newest first. BeforeID is given.
	ReadActs(ctx context.Context, q *clock.ActsQuery) ([]ActRow, error)
	// DeleteActs deletes the oldest acts from before an instant, at most limit, and returns how many it deleted.
	DeleteActs(ctx context.Context, before clock.Instant, limit int) (int, error)
}

// ActsTx is a transaction that records acts.
type ActsTx interface {
	// AddActs inserts the rows, at least one.
	AddActs(ctx context.Context, rows []NewActRow) error
}

// Writes begins the transactions of groups of ops.
type Writes interface {
	// BeginWrite begins a transaction. The transaction fails with store.ErrOldBuild if the database demands a newer
	// build.
	BeginWrite(ctx context.Context, t WriteTry) (WriteTx, error)
}

// Snapshots begins snapshots for exports.
type Snapshots interface {
	// BeginSnapshot begins a transaction that only reads. No limit of the server ends it while it is idle.
	BeginSnapshot(ctx context.Context) (Snapshot, error)
}

// Numbers is implemented by drivers with Server.Placements. The Store makes the ids of new alarms from the numbers.
type Numbers interface {
	// TakeNumbers returns numbers that no other call returns in this database, in ascending order.
	TakeNumbers(ctx context.Context, count int) ([]int64, error)
}

// WriteTry describes one try to write a group.
type WriteTry struct {
	Wait      time.Duration // time that statements may wait for locked rows; 0: the engine's own short limit
	Number    int           // tries before this one
	LockFirst bool          // an earlier try waited in vain for a lock, so this one locks the keys first
	Shards    int           // shard count of the database
	Placement int           // number of the placement of all keys, as in Server.Placements
}

// Claims begins the transactions of claims and of their settlements. Both use connections of their own.
type Claims interface {
	// BeginClaim begins the transaction of a claim. All its ids have one placement. It is a HoldingTx if the engine
	// holds claims (Traits.HoldsClaims). The transaction fails with store.ErrOldBuild, or finds no row, if the database
	// demands a newer build.
	BeginClaim(ctx context.Context, r *store.ClaimRequest) (ClaimTx, error)
	// BeginSettle begins a transaction that settles or releases a committed claim (two-phase or at most once), or
	// settles awaited rings.
	BeginSettle(ctx context.Context, r *store.ClaimRequest) (SettleTx, error)
}

// Tx is an open transaction. Commit or Rollback ends it and gives back its connection.
type Tx interface {
	// Commit commits. After an error the transaction has been rolled back, except after clock.ErrUnconfirmed: then its
	// outcome is unknown.
	Commit(ctx context.Context) error
	// Rollback rolls back under a context of its own, because ctx may have ended.
	Rollback(ctx context.Context)
}
