package store

import (
	"cmp"
	"context"
	"time"

	"github.com/clockd/clockd/clock"
)

// Due is what the due index holds of a scheduled or ringing alarm.
type Due struct {
	ID          int64
	NextTryTime clock.Instant
	Rank        int // 9 - priority
	Shard       int
	Application string
}

// Position returns where the alarm stands in the order of the due index.
func (d Due) Position() Position { return Position{Time: d.NextTryTime, Rank: d.Rank, ID: d.ID} }

// Rank returns where a priority stands in the due order of one instant: the highest first.
func Rank(priority int) int { return clock.MaxPriority - priority }

// Position is a place in the due order of a set of shards: by time, then by rank, then by id. The zero Position is before
// everything.
type Position struct {
	Time clock.Instant
	Rank int
	ID   int64
}

// Before reports whether p comes before q.
func (p Position) Before(q Position) bool { return p.Compare(q) < 0 }

// Compare returns a negative number where p comes before q, a positive one where it comes after.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Time, q.Time), cmp.Compare(p.Rank, q.Rank), cmp.Compare(p.ID, q.ID))
}

// DueQuery asks for alarms in due order.
type DueQuery struct {
	Shards []int    // at least one
	From   Position // inclusive
	Until  Position // exclusive
	Limit  int      // rows a shard, at least 1
}

// DuePage is an answer to a DueQuery: rows in due order, every row of the shards from From up to Complete (exclusive).
// Complete is Until where no shard had more rows than Limit.
type DuePage struct {
	Rows     []Due
	Complete Position
}

// Loader reads what is due, from the due index alone, without a lock and without writing.
type Loader interface {
	Due(ctx context.Context, q DueQuery) (DuePage, error)
}

// ClaimRequest asks to take alarms for one round of ringing.
type ClaimRequest struct {
	IDs      []int64       // at least 1; in any order, no id twice
	Now      clock.Instant // a row is due when its next_try_time <= Now
	ClaimID  string        // fresh for every claim
	MaxBytes int           // of payloads; at least one ring is taken whatever its size
	// Once takes only alarms of clock.AtMostOnce, and commits that they have rung, in doubt, before they are handed over; else
	// those come back in Claim.Once.
	Once  bool
	Lease time.Duration // 0: hold a transaction until Settle; else two-phase: commit the claim, which ends at Now+Lease
}

// LeaseEnd returns when a two-phase claim ends.
func (r *ClaimRequest) LeaseEnd() clock.Instant { return r.Now.Add(r.Lease) }

// Claim is what a ClaimRequest took.
type Claim struct {
	Rings []clock.Ring // to be delivered, in due order
	Ended []Ended      // due but past latest_ring_at (expired) or out of rings (dead): over, committed, not to be delivered
	Left  []int64      // asked for, free and due, but left for MaxBytes' sake; never nil-and-lost: offer them again
	Once  []int64      // asked for, free and due, but AtMostOnce: claim them with ClaimRequest.Once
	// Settler finishes the claim; nil when Rings is empty, for then all is committed.
	Settler Settler
}

// Ended is an alarm that ended without a ring.
type Ended struct {
	clock.Key
	ID     int64
	State  clock.State // Expired or Dead
	Reason string
}

// Settler finishes one claim: exactly one of its methods is called; once where a transaction is held, and for a two-phase
// claim again after an error, while the claim lasts.
type Settler interface {
	// Settle writes what became of each ring (one fate a ring, in the order of Claim.Rings; now is the database's time)
	// and commits. Fates that are not Silent add an attempt. After ErrUnconfirmed or ErrUnavailable it is
	// unknown or certain, respectively, that nothing was written: the rows are then due again (at once, or when a
	// two-phase claim ends).
	Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error
	// Release gives the rings back as if they had not been claimed: nothing of them was handed over.
	Release(ctx context.Context) error
}

// Claimer takes alarms that are due.
//
// Claim locks what is free of IDs (never waiting for a row that is locked elsewhere), ends the rows past their
// latest_ring_at and those that have rung max_rings times unacknowledged, and takes the rest. A taken row is written at
// once as the confirmed outcome (or, with a Lease, as claimed: state ringing, rung_at NULL, next_try_time at
// the claim's end); Settle corrects the rows of which it did not come true. A set or cancel of these rows waits.
// Rows that are gone, not due, over or paused are passed over without a word.
//
// Transactional claims use connections of a pool of their own, so that requests never wait for rings.
type Claimer interface {
	Claim(ctx context.Context, r ClaimRequest) (*Claim, error)
}

// Expirer ends what can no longer ring while nothing is claimed.
type Expirer interface {
	// Expire ends as expired those of at most limit due rows of the shards, in due order from position from
	// (inclusive), whose latest_ring_at lies before now, skipping locked ones. next is where to go on, the zero Position
	// when the end was reached.
	Expire(ctx context.Context, now clock.Instant, shards []int, from Position, limit int) (ended []Ended, next Position, err error)
}

// Purger deletes what is over.
type Purger interface {
	// Purge deletes at most limit alarms with finished_at before the instant (exclusive), of each shard the oldest first, with
	// their attempts, and returns how many. It never waits for a locked row.
	Purge(ctx context.Context, before clock.Instant, limit int) (int, error)
}

// Overdue is how far ringing is behind.
type Overdue struct {
	Count  int           // alarms due at the asked instant, counted up to a limit
	Oldest clock.Instant // the earliest next_try_time of them; NoInstant when there is none
}

// Gauge looks at what is due.
type Gauge interface {
	Overdue(ctx context.Context, now clock.Instant, shards []int, limit int) (Overdue, error)
}

// Store is all of it: what an adapter implements, and what cmd hands out in parts.
type Store interface {
	clock.Store
	clock.TimeSource
	Loader
	Claimer
	Expirer
	Purger
	Gauge
	Leaser
	Auditor

	// Migrate brings the schema up to date under a lock, so that any number of processes may start at once, and fixes
	// the shard count of a new database.
	Migrate(ctx context.Context) error
	// Check compares the schema with what this build needs and reads the shard count. It must succeed once before the
	// other methods are used.
	Check(ctx context.Context) error
	// ShardCount returns what Check read.
	ShardCount() int
	// HoldsClaims reports whether a claim may hold a transaction; false: ask for two-phase claims only.
	HoldsClaims() bool
	// Engine names engine and version for people, like "mariadb 10.11.19", as Check read it.
	Engine() string
	Close() error
}
