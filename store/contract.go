package store

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/manifest"
	"github.com/clockd/clockd/clock/settings"
)

// Due is the due index's entry of a scheduled or ringing alarm.
type Due struct {
	ID          int64
	NextTryTime clock.Instant
	Rank        int // due_rank; see Rank
	Shard       int
	Application string
}

// Addressee returns the addressee of the alarm's rings.
func (d Due) Addressee() Addressee { return Addressee{d.Application, NamedOfRank(d.Rank)} }

// NamedOf returns what the alarms name, as ClaimRequest has it.
func NamedOf(rows []Due) map[int64]Named {
	named := map[int64]Named{}
	for i := range rows {
		if n := NamedOfRank(rows[i].Rank); n != (Named{}) {
			named[rows[i].ID] = n
		}
	}
	return named
}

// Position returns the alarm's place in the order of the due index.
func (d Due) Position() Position { return Position{Time: d.NextTryTime, Rank: d.Rank, ID: d.ID} }

// ShareOf returns the index of the share that holds a shard, of that many shares. Loaders and the heap divide the
// shards alike.
func ShareOf(shard, shares int) int { return shard % shares }

// Position is a place in the due order of a set of shards: by time, then by rank, then by id. The zero Position is
// before all alarms.
type Position struct {
	Time clock.Instant
	Rank int
	ID   int64
}

// Before reports whether p comes before q.
func (p Position) Before(q Position) bool { return p.Compare(q) < 0 }

// Compare returns a negative number if p comes before q, a positive number if p comes after q, and 0 if they are equal.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Time, q.Time), cmp.Compare(p.Rank, q.Rank), cmp.Compare(p.ID, q.ID))
}

// DueQuery asks for alarms in due order.
type DueQuery struct {
	Shards []int    // at least one
	From   Position // inclusive
	Until  Position // exclusive
	Limit  int      // most rows of each shard, at least 1
	// Only lists the addressees to read, Except the addressees to leave out, with at most MaxDueNames elements.
	// Application reads all alarms of an application. Only a single field of the three is set.
	Only, Except []Addressee
	Application  string
	ScanLimit    int // index entries of each shard to read past with any of the three, then at least 1; else ignored
}

// AllShards returns the numbers of count shards.
func AllShards(count int) []int {
	shards := make([]int, count)
	for i := range shards {
		shards[i] = i
	}
	return shards
}

// MaxDueNames is the highest number of addressees that a DueQuery may name.
const MaxDueNames = 64

// Filtered reports whether the query leaves out some alarms.
func (q *DueQuery) Filtered() bool { return len(q.Only)+len(q.Except) > 0 || q.Application != "" }

// Admits reports whether the query asks for alarms of the addressee.
func (q *DueQuery) Admits(a Addressee) bool {
	return !slices.Contains(q.Except, a) && (len(q.Only) == 0 || slices.Contains(q.Only, a)) &&
		(q.Application == "" || q.Application == a.Application)
}

// EndBefore ends the query before the earliest of the entries. Each entry lies ScanLimit entries behind the first entry
// of its shard.
func (q *DueQuery) EndBefore(entries []Due) {
	for i := range entries {
		if p := entries[i].Position(); p.Before(q.Until) {
			q.Until = p
		}
	}
}

// DuePage is the result of a DueQuery: its rows from From (inclusive) to CompleteUntil (exclusive), in due order.
// CompleteUntil is Until if no shard had more rows than Limit or more index entries than ScanLimit.
type DuePage struct {
	Rows          []Due
	CompleteUntil Position
}

// Loader reads due alarms from the due index alone. It takes no locks and writes nothing.
type Loader interface {
	Due(ctx context.Context, q DueQuery) (DuePage, error)
}

// ClaimRequest names the alarms that a claim takes for one round of rings.
type ClaimRequest struct {
	IDs     []int64       // alarms to take, at least 1; in any order, no id twice
	Now     clock.Instant // a row is due when its next_try_time <= Now
	ClaimID string        // unique for every claim
	// MaxBytes is the limit of all payloads together. The first ring is taken whatever its size. A distributed database
	// gives each server's alarms a part of the limit, and takes the first ring of each part.
	MaxBytes int
	// AtMostOnce takes only alarms with clock.AtMostOnce. Without it, the claim leaves such alarms and returns their
	// ids in Claim.AtMostOnce.
	AtMostOnce bool
	// ServerClock makes the claim read the database's own clock too. A row that is not due by that clock is skipped,
	// and no row expires before latest_ring_at has passed by it. Now can be ahead of that clock while a clock is
	// slewed, or after a clock was set back.
	ServerClock bool
	// Named has what alarms of IDs name, as far as the caller knows it. An id that is missing names nothing. The claim
	// passes over a row that names something else: a set has changed it.
	Named map[int64]Named
	// Target is where the rings go. It is written to rows of rings whose outcome is unknown. NoTarget: not known.
	Target clock.TargetKind
	// OtherTargets are targets of other claims. The claim leaves a row to them if a try of it went there and its
	// outcome is unknown.
	OtherTargets []clock.TargetKind
	// InDoubtOnly leaves all rows except rows whose last try went to Target and has an unknown outcome.
	InDoubtOnly bool
	// Timeout is the time from Now after which a two-phase claim ends. 0: the claim is held. It has no meaning with
	// AtMostOnce.
	Timeout time.Duration
	// EndOnly takes no row for a ring. The claim ends rows that may not ring any more, moves such rows of repeating
	// alarms to a later occurrence, and leaves all other rows as they are. It uses the connections of the upkeep, and
	// must be a two-phase claim.
	EndOnly bool
}

// ClaimKind says when a claim commits, and the state of its rows from then on.
type ClaimKind uint8

// The kinds of claims.
const (
	// Held claims keep their transaction open until Settle. It has written the rows of confirmed rings.
	Held ClaimKind = iota
	// TwoPhase claims commit claimed rows before their rings are handed over. A later claim may take the rows from
	// ClaimEnd on.
	TwoPhase
	// Once claims commit, before their rings are handed over, that the rows have rung and are in doubt. No later claim
	// may take the rows.
	Once
)

// Kind returns the kind of the claim.
func (r *ClaimRequest) Kind() ClaimKind {
	switch {
	case r.AtMostOnce:
		return Once
	case r.Timeout > 0:
		return TwoPhase
	}
	return Held
}

// ClaimEnd returns the instant at which a two-phase claim ends.
func (r *ClaimRequest) ClaimEnd() clock.Instant { return r.Now.Add(r.Timeout) }

// Elsewhere is an alarm that a claim leaves to another target.
type Elsewhere struct {
	ID     int64
	Target clock.TargetKind // one of ClaimRequest.OtherTargets; NoTarget: the target of the alarm's application
}

// Claim is the result of a ClaimRequest. The five lists hold only due alarms whose rows no other transaction locked.
type Claim struct {
	Rings []clock.Ring // rings to deliver, in due order
	// Ended has expired alarms, past latest_ring_at, and dead ones, out of rings or unreadable. Their end is committed.
	// The end or the pause of a repeating alarm is committed with the claim or its settlement.
	Ended      []EndedAlarm
	Deferred   []int64     // alarms that the claim left because of MaxBytes; offer them again
	AtMostOnce []int64     // alarms with clock.AtMostOnce; claim them with ClaimRequest.AtMostOnce
	Elsewhere  []Elsewhere // alarms that the claim leaves to another target
	Moved      []Due       // repeating alarms that wait for a later occurrence without a ring; committed with the claim or its settlement
	// Counted has the occurrences that the claim ended without a ring. They are committed with the claim or its
	// settlement.
	Counted clock.OccurrenceCounts
	// Settler finishes the claim. It is nil when Rings is empty, because all outcomes are then committed.
	Settler Settler
}

// EndedAlarm is an alarm that ended without a ring, or a repeating alarm that pauses because its occurrences failed.
type EndedAlarm struct {
	clock.Key
	ID     int64
	State  clock.State // Expired, Dead or Paused
	Reason string
}

// Settler finishes one claim. The caller calls either Settle or Release. It settles a held claim once, and again only
// for awaited rings. A two-phase claim it may settle or release again after an error, until the claim ends.
type Settler interface {
	// Settle writes the row and the attempts (FateAttempts) of each fate, and commits. fates has one fate for each
	// ring, in the order of Claim.Rings, as clock.FateOf returns it. now is the database's time. After ErrUnavailable
	// nothing was written; after ErrUnconfirmed the outcomes may have been written. Rows without a written outcome are
	// due again: at once, or when a two-phase claim ends. Those of a Once claim stay rung and in doubt.
	//
	// If some fates are clock.Awaited, the claim goes on for the rings with these fates alone, in their order. The
	// caller may call Settle again, any number of times, with fates of clock.LateFateOf: an Awaited fate postpones the
	// time at which the ring is due again, and an equal Awaited fate writes nothing. A row that has changed otherwise
	// meanwhile stays as it is. The caller may stop at any time.
	Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error
	// Release undoes the claim of all rings. The caller has handed none of them over.
	Release(ctx context.Context) error
}

// Claimer takes due alarms.
//
// Claim locks the rows of IDs and never waits for a row that another transaction locks. It ends rows past their
// latest_ring_at, and rows that have rung max_rings times without an acknowledgement. It takes the rest.
//
// Claim writes ClaimRequest.RowAfterClaim to a taken row. Settle writes the rows whose fate is another row
// (ClaimRequest.Settlements). A set or cancel of a claimed row waits. Claim skips rows that are gone, not due, finished
// or paused, and does not report them.
//
// After an error the Claim is nil, or has Ended alone: the ends that were committed before the failure.
//
// Held claims use a connection pool of their own, so requests never wait for rings.
type Claimer interface {
	Claim(ctx context.Context, r ClaimRequest) (*Claim, error)
}

// Expirer ends alarms that may not ring any more while no worker claims them.
type Expirer interface {
	// Expire looks at the first limit due rows of the shards, in due order, from position from (inclusive). It ends the
	// rows whose latest_ring_at is before now, and the rows that have rung max_rings times without an acknowledgement.
	// It skips locked rows.
	Expire(ctx context.Context, now clock.Instant, shards []int, from Position, limit int) (ExpiredPage, error)
}

// ExpiredPage is the result of a call of Expirer.Expire.
type ExpiredPage struct {
	Ended   []EndedAlarm
	Moved   []Due                  // repeating alarms that now wait for a later occurrence
	Counted clock.OccurrenceCounts // occurrences that ended
	Next    Position               // position to continue from; zero at the end
}

// Purger deletes finished alarms.
type Purger interface {
	// Purge deletes at most limit alarms whose finished_at is before the given instant (exclusive), with their
	// attempts. It takes the oldest alarms of each shard first and returns how many it deleted. An alarm that rings at
	// most once and is in doubt must also have finished_at before settled: until then its claim may still be settled.
	// Purge never waits for a locked row.
	Purge(ctx context.Context, before, settled clock.Instant, limit int) (int, error)
}

// Overdue says how far rings are behind their due times.
type Overdue struct {
	Count  int           // alarms due at the given instant, counted up to a limit
	Oldest clock.Instant // earliest next_try_time among them; NoInstant if Count is 0
}

// OverdueCounter counts overdue alarms.
type OverdueCounter interface {
	Overdue(ctx context.Context, now clock.Instant, shards []int, limit int) (Overdue, error)
}

// Settings stores the settings of applications in versions. It does not look into the documents.
type Settings interface {
	// SettingChanges returns the number of changes of all settings so far. It rises with every change. A reader that
	// first reads this number and then the settings has at least these changes.
	SettingChanges(ctx context.Context) (int64, error)
	// AllSettings returns the current settings of all applications that ever had settings, by application.
	AllSettings(ctx context.Context) ([]settings.Version, error)
	// Settings returns the current settings of the application, with Version 0 if it never had settings.
	Settings(ctx context.Context, application string) (settings.Version, error)
	// SettingsHistory returns at most limit versions of the application's settings, the newest first. The first is the
	// current one.
	SettingsHistory(ctx context.Context, application string, limit int) ([]settings.Version, error)
	// ChangeSettings writes the next version of an application's settings and returns it. It returns
	// clock.ErrPrecondition, and changes nothing, if IfVersion does not hold. Changes of all settings take place one
	// after the other.
	ChangeSettings(ctx context.Context, change settings.Change) (settings.Version, error)
	// RewriteSettings replaces the documents of all versions of an application's settings, and returns how many differ
	// from before. The versions stay. It counts as one change of settings, unless nothing differs.
	RewriteSettings(ctx context.Context, rewrite settings.Rewrite) (documents int, err error)
}

// TokenChange is a change of a token, with what the audit says of it.
type TokenChange struct {
	Action string // "token_rotate" or "token_revoke"
	At     clock.Instant
	By     clock.Actor
	// Change changes the token. After an error the token stays as it was. It may be called again if the transaction is
	// repeated.
	Change func(t *access.Token) error
}

// Tokens stores access tokens.
type Tokens interface {
	// TokenChanges returns the number of changes of all tokens so far. It rises with every change. A reader that first
	// reads this number and then the tokens has at least these changes.
	TokenChanges(ctx context.Context) (int64, error)
	// AllTokens returns all tokens and sessions by id, revoked and expired ones too. One that cannot be read has Unreadable
	// set.
	AllTokens(ctx context.Context) ([]access.Token, error)
	// AddToken adds a token. It reports false, and changes nothing, if the id exists.
	AddToken(ctx context.Context, t *access.Token) (bool, error)
	// ChangeToken changes the secrets or the end of a token, and returns the token. It returns clock.ErrNotFound for an
	// unknown id, and clock.ErrConflict if change returns an error. Changes of all tokens take place one after the
	// other.
	ChangeToken(ctx context.Context, id string, change TokenChange) (access.Token, error)
	// UseTokens writes the last uses of tokens. A later use that is stored stays, and an unknown id is left out. It is
	// no change of a token.
	UseTokens(ctx context.Context, uses []access.Use) error
	// AddSession adds a session, and deletes the ended ones. If its parent and maker have more than the most open
	// sessions then, the oldest ones end. It returns access.ErrParentEnded if the parent has ended.
	AddSession(ctx context.Context, session *access.Token, most int, by clock.Actor) error
	// EndSession ends an open session. It returns a clock.ErrNotFound for any other id.
	EndSession(ctx context.Context, id string, at clock.Instant, by clock.Actor) error
}

// Zones finds the alarms that depend on the data of a time zone, and stores the state of their recomputation. It does
// not look into the state. Write and Restore note the time zones of alarms. It has no alarms in UTC.
type Zones interface {
	// ZonedAlarms returns at most limit ids of alarms of the time zone, above after, in order. An alarm may have left
	// the time zone, or be gone.
	ZonedAlarms(ctx context.Context, timeZone string, after int64, limit int) ([]int64, error)
	// ZoneState returns the state, empty at first, and its revision.
	ZoneState(ctx context.Context) (revision int64, document string, err error)
	// ChangeZoneState writes the state, unless it was written since the revision.
	ChangeZoneState(ctx context.Context, revision int64, document string) (written bool, err error)
}

// Audit has the acts of people: kicks, discards, pauses and resumes of alarms, and changes of settings and tokens. They
// are recorded in the transactions of these changes.
type Audit interface {
	// Acts returns acts, the newest first.
	Acts(ctx context.Context, q clock.ActsQuery) ([]clock.Act, error)
	// AddActs adds acts that are of no transaction of their own. After clock.ErrUnconfirmed they may have been added.
	AddActs(ctx context.Context, acts []clock.Act) error
	// PurgeActs deletes acts from before an instant (exclusive), the oldest first and at most limit. It returns how
	// many it deleted.
	PurgeActs(ctx context.Context, before clock.Instant, limit int) (int, error)
}

// Jobs stores jobs that change many alarms (package clock/bulk).
type Jobs interface {
	// AddJob stores a new job, with Revision 1, and the act of its start.
	AddJob(ctx context.Context, j clock.JobRecord, act clock.Act) error
	// Job returns a job, or clock.ErrNotFound.
	Job(ctx context.Context, id string) (clock.JobRecord, error)
	// OpenJobs returns at most limit jobs that have not ended, the oldest first.
	OpenJobs(ctx context.Context, limit int) ([]clock.JobRecord, error)
	// Jobs returns at most limit jobs, the newest first.
	Jobs(ctx context.Context, limit int) ([]clock.JobRecord, error)
	// ChangeJob writes EndedAt, Owner, LeaseUntil and Document of a job, adds one to its revision, and stores the acts
	// that led to this. It writes nothing, and returns false, if the job has another revision than j.Revision.
	ChangeJob(ctx context.Context, j clock.JobRecord, acts ...clock.Act) (written bool, err error)
	// DeleteJobs deletes the jobs that ended before the instant (exclusive).
	DeleteJobs(ctx context.Context, before clock.Instant) error
}

// NodeSteps stores what the nodes did in steps of time (package clock/stats). It does not look into the figures.
type NodeSteps interface {
	// AddSteps adds steps. A step that a node has added before gets the new figures.
	AddSteps(ctx context.Context, steps []clock.NodeStep) error
	// Steps returns steps of all nodes, in the order of their begin, also of nodes that have ended. It leaves out
	// figures longer than clock.MaxStepFigures.
	Steps(ctx context.Context, q clock.StepsQuery) ([]clock.NodeStep, error)
	// DeleteSteps deletes steps of a length that began before the instant (exclusive), the oldest first and at most
	// limit. It returns how many it deleted.
	DeleteSteps(ctx context.Context, length time.Duration, before clock.Instant, limit int) (int, error)
}

// Sightings stores when applications were last seen (package clock/stats).
type Sightings interface {
	// AddSightings stores when applications were seen, by name. It leaves a later time of an application as it is.
	AddSightings(ctx context.Context, seen map[string]clock.Instant) error
	// Sightings returns when some applications were seen last, by name. It leaves out the others.
	Sightings(ctx context.Context, applications []string) (map[string]clock.Instant, error)
	// DeleteSightings deletes sightings from before the instant (exclusive), the oldest first and at most limit. It
	// returns how many it deleted.
	DeleteSightings(ctx context.Context, before clock.Instant, limit int) (int, error)
}

// Manifests stores what the manifests of applications have made. It does not look into the documents.
type Manifests interface {
	// Manifests returns the record of the application, with Version 0 if it never had a manifest.
	Manifests(ctx context.Context, application string) (manifest.Stored, error)
	// NextManifests returns the records of the applications after the given one, by application and at most limit.
	NextManifests(ctx context.Context, after string, limit int) ([]manifest.Stored, error)
	// ChangeManifests writes the next version of an application's record, with an act of the audit. It returns
	// clock.ErrPrecondition, and changes nothing, if IfVersion does not hold.
	ChangeManifests(ctx context.Context, change manifest.Change) (manifest.Stored, error)
}

// Store is the whole contract: engine.Store implements it, above the driver of an engine, and cmd hands out its parts.
type Store interface {
	clock.Store
	clock.Directory
	clock.StateCounter
	clock.RepeatingReader
	clock.WriteProber
	clock.Forecaster
	clock.PendingCounter
	clock.TimeSource
	Loader
	Claimer
	Expirer
	Purger
	OverdueCounter
	Leaser
	Settings
	Tokens
	Audit
	Zones
	DurabilityChecker
	Jobs
	NodeSteps
	Sightings
	Manifests

	// Migrate brings the schema up to date under a lock, so several processes may start at once. It sets the shard
	// count of a new database.
	Migrate(ctx context.Context) error
	// Check compares the schema with the schema this build needs, and reads the shard count. It must succeed once
	// before any other method except Migrate is called.
	Check(ctx context.Context) error
	// ShardCount returns the shard count that Check has read.
	ShardCount() int
	// HoldsClaims reports whether a claim may hold a transaction on the server that Check has read. If false, callers
	// must request two-phase claims only.
	HoldsClaims() bool
	// Engine returns engine and version for people, like "mariadb 10.11.19", as Check has read them.
	Engine() string
	Close() error
}
