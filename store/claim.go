package store

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

// Reasons of expired alarms, written to last_error. The statements that expire many rows at once take them as parameters.
const (
	// ReasonExpired is the reason of an alarm that was never handed over and has no last_error.
	ReasonExpired = "latest_ring_at passed before it could be rung"
	// ReasonInDoubt is the reason of an alarm in doubt. A last_error follows it.
	ReasonInDoubt = "in doubt: a ring was handed over and its outcome is unknown, then latest_ring_at passed"
	// ReasonUnacknowledged is the reason of an alarm that rang and waited for its acknowledgement.
	ReasonUnacknowledged = "latest_ring_at passed before a ring was acknowledged"
)

// Candidate is a row that a claim has locked. It holds the values that decide whether the row rings, and the values that Settle
// restores.
type Candidate struct {
	ID int64
	clock.Key
	State         clock.State
	Generation    int64
	RingNo        int // confirmed rings of this generation
	RetryTimes    int
	MaxRings      int
	AckTimeout    time.Duration
	Delivery      clock.DeliveryMode
	LatestRingAt  clock.Instant
	NextTryTime   clock.Instant
	Rank          int
	LastError     string
	InDoubt       bool
	ClaimID       string
	RungAt        clock.Instant
	UpdateTime    clock.Instant
	PayloadLength int
	Retry         clock.RetryPolicy
	Unreadable    string // why the row cannot be read; empty for a readable row
}

// Claimed reports whether an earlier two-phase claim took the row and ended without a settlement. The ring of that claim may have
// arrived.
func (c *Candidate) Claimed() bool { return c.State == clock.Ringing && c.RungAt == clock.NoInstant }

// unacknowledged reports whether the row is a confirmed ring whose answer did not come in time.
func (c *Candidate) unacknowledged() bool {
	return c.State == clock.Ringing && c.RungAt != clock.NoInstant
}

// unacknowledgedAttempt returns the attempt that records a ring without an answer. now is when the claim notices that none came.
func (c *Candidate) unacknowledgedAttempt(now clock.Instant) AlarmAttempt {
	return AlarmAttempt{AlarmID: c.ID, Attempt: clock.Attempt{
		Generation: c.Generation, RingNo: c.RingNo, ClaimID: c.ClaimID, Time: now, Outcome: clock.Unacknowledged,
	}}
}

// Position returns the row's place in the due order.
func (c *Candidate) Position() Position { return Position{Time: c.NextTryTime, Rank: c.Rank, ID: c.ID} }

// Judgment is what a claim decides about its candidates. Each list is in due order.
type Judgment struct {
	Taken      []Candidate  // rows to ring
	Ended      []EndedAlarm // alarms that end without another ring
	EndedRows  []Candidate  // rows of the alarms in Ended, in the same order
	Deferred   []int64      // ids that the claim leaves because of MaxBytes
	PassedOver int          // rows that are not due by the database's clock; a held claim gives up their locks
	AtMostOnce []int64      // ids with clock.AtMostOnce, when ClaimRequest.AtMostOnce is false

	Attempts []AlarmAttempt // one for each alarm in Ended that dies: its last ring, or the reason why its row cannot be read
}

// Judge sorts the candidates by due order, in place, and decides about each. server is the database's clock as this claim has read it;
// it counts only when ServerClock is set. Unreadable rows end as dead. Rows that may not ring any more end. Rows of the other delivery
// mode appear in AtMostOnce, or nowhere if r.AtMostOnce is set. No list contains a readable row that is not due at Now, that is not due
// by the database's clock, or that is neither scheduled nor ringing.
func (r *ClaimRequest) Judge(candidates []Candidate, server clock.Instant) Judgment {
	now := r.decisionTime(server)
	slices.SortFunc(candidates, func(a, b Candidate) int {
		return a.Position().Compare(b.Position())
	})
	j := Judgment{Taken: make([]Candidate, 0, len(candidates))}
	size := 0
	for _, c := range candidates {
		if c.Unreadable != "" {
			j.bury(r, &c)
			continue
		}
		if c.NextTryTime == clock.NoInstant || c.NextTryTime > now || c.State != clock.Scheduled && c.State != clock.Ringing {
			j.PassedOver++
			continue
		}
		if c.LatestRingAt != clock.NoInstant && now <= c.LatestRingAt && c.LatestRingAt < r.Now {
			j.PassedOver++
			continue // latest_ring_at has passed by Now, but not by the database's clock: a later claim decides
		}
		if e, mayNotRing := c.ends(now); mayNotRing {
			j.Ended, j.EndedRows = append(j.Ended, e), append(j.EndedRows, c)
			if e.State == clock.Dead {
				j.Attempts = append(j.Attempts, c.unacknowledgedAttempt(r.Now))
			}
			continue
		}
		if once := c.Delivery == clock.AtMostOnce; once != r.AtMostOnce {
			if once {
				j.AtMostOnce = append(j.AtMostOnce, c.ID)
			}
			continue
		}
		if len(j.Deferred) > 0 || len(j.Taken) > 0 && size+c.PayloadLength > r.MaxBytes {
			j.Deferred = append(j.Deferred, c.ID)
			continue
		}
		size += c.PayloadLength
		j.Taken = append(j.Taken, c)
	}
	return j
}

// decisionTime returns the instant that decides which rows are due and which have expired: Now, or the database's clock if that counts
// and is earlier.
func (r *ClaimRequest) decisionTime(server clock.Instant) clock.Instant {
	if r.ServerClock {
		return min(r.Now, server)
	}
	return r.Now
}

// HasEarlyCandidate reports whether a candidate is not due by the database's clock. Claims that take rows before Judge sees them need
// it.
func (r *ClaimRequest) HasEarlyCandidate(candidates []Candidate, server clock.Instant) bool {
	now := r.decisionTime(server)
	for i := range candidates {
		if candidates[i].NextTryTime > now {
			return true
		}
	}
	return false
}

// bury ends a row that cannot be read as dead. Its attempt records a ring that was never sent.
func (j *Judgment) bury(r *ClaimRequest, c *Candidate) {
	j.Ended, j.EndedRows = append(j.Ended, EndedAlarm{Key: c.Key, ID: c.ID, State: clock.Dead, Reason: c.Unreadable}), append(j.EndedRows, *c)
	j.Attempts = append(j.Attempts, AlarmAttempt{AlarmID: c.ID, Attempt: clock.Attempt{
		Generation: c.Generation, RingNo: min(c.RingNo, math.MaxInt32-1) + 1, ClaimID: r.ClaimID, Time: r.Now, Outcome: clock.Refused, Error: c.Unreadable,
	}})
}

// ends returns how the row ends, and true if the row may not ring any more.
func (c *Candidate) ends(now clock.Instant) (EndedAlarm, bool) {
	e := EndedAlarm{Key: c.Key, ID: c.ID}
	switch {
	case c.LatestRingAt != clock.NoInstant && c.LatestRingAt < now:
		e.State, e.Reason = clock.Expired, c.ExpiredReason()
	case c.unacknowledged() && c.RingNo >= c.MaxRings:
		e.State, e.Reason = clock.Dead, fmt.Sprintf("not acknowledged after %d rings", c.RingNo)
	default:
		return EndedAlarm{}, false
	}
	return e, true
}

// ExpiredReason returns the last_error of an expired alarm. A ring that may have arrived is more important than the previous
// last_error.
func (c *Candidate) ExpiredReason() string {
	switch {
	case (c.InDoubt || c.Claimed()) && c.LastError != "":
		return fmt.Sprintf("%.*s", clock.MaxReason, ReasonInDoubt+"; last error: "+c.LastError)
	case c.InDoubt || c.Claimed():
		return ReasonInDoubt
	case c.unacknowledged():
		return ReasonUnacknowledged
	}
	return cmp.Or(c.LastError, ReasonExpired)
}

// Settlement is the set of values that Settle writes to the row of one ring.
type Settlement struct {
	ID          int64
	Generation  int64
	State       clock.State
	NextTryTime clock.Instant
	RingNo      int
	RetryTimes  int
	LastError   string // empty: the stored text stays
	InDoubt     bool
	ClaimID     string
	RungAt      clock.Instant
	FinishedAt  clock.Instant
}

// RingSettlement returns what Settle writes for the fate of a ring. before is the row as the claim found it.
//
// An unacknowledged ring whose repetition was not sent stays unacknowledged, so the application can still answer it. An alarm that
// rings at most once keeps the values that its claim has written.
func RingSettlement(r *clock.Ring, before *Candidate, f *clock.Fate) Settlement {
	s := Settlement{
		ID: r.AlarmID, Generation: r.Generation, State: f.State, NextTryTime: f.NextTryTime, RetryTimes: f.RetryTimes,
		LastError: f.LastError, InDoubt: f.InDoubt, FinishedAt: f.FinishedAt,
		RingNo: r.RingNo - 1, ClaimID: before.ClaimID, RungAt: before.RungAt,
	}
	switch {
	case f.Outcome.Kind == clock.Confirmed:
		s.RingNo, s.ClaimID, s.RungAt = r.RingNo, r.ClaimID, r.RungAt
	case f.State == clock.Rung:
		s.ClaimID, s.RungAt = r.ClaimID, r.RungAt
	case before.unacknowledged() && f.Outcome.Kind.NotSent():
		s.State = clock.Ringing
	}
	return s
}

// ReleaseSettlement returns the values that restore the row of a ring to its state before the claim.
func ReleaseSettlement(r *clock.Ring, before *Candidate) Settlement {
	return Settlement{
		ID: r.AlarmID, Generation: r.Generation, State: before.State, NextTryTime: before.NextTryTime, RingNo: before.RingNo,
		RetryTimes: r.RetryTimes, InDoubt: before.InDoubt, ClaimID: before.ClaimID, RungAt: before.RungAt, FinishedAt: clock.NoInstant,
	}
}

// ClaimedRow holds what a two-phase claim wrote to a row. The settlement is valid only while the row still has these values.
type ClaimedRow struct {
	State       clock.State
	NextTryTime clock.Instant
	RungAt      clock.Instant
	ClaimID     string
}

// RowAfterClaim returns what a two-phase claim writes to a row.
func RowAfterClaim(r *ClaimRequest, before *Candidate) ClaimedRow {
	if r.AtMostOnce {
		return ClaimedRow{State: clock.Rung, NextTryTime: clock.NoInstant, RungAt: r.Now, ClaimID: r.ClaimID}
	}
	return ClaimedRow{State: clock.Ringing, NextTryTime: r.LeaseEnd(), RungAt: clock.NoInstant, ClaimID: before.ClaimID}
}

// AllConfirmed reports whether every ring was confirmed and left no error text.
func AllConfirmed(fates []clock.Fate) bool {
	return !slices.ContainsFunc(fates, func(f clock.Fate) bool { return f.Outcome.Kind != clock.Confirmed || f.LastError != "" })
}

// AlarmAttempt is an attempt together with the id of its alarm.
type AlarmAttempt struct {
	AlarmID int64
	clock.Attempt
}

// LeavesNoAttempt reports whether an outcome adds no attempt: the target has the ring, or no byte of the ring was sent.
func LeavesNoAttempt(k clock.OutcomeKind) bool { return k == clock.Confirmed || k.NotSent() }

// FateAttempts returns the attempts that the fates of the rings add, in the order to keep them. A ring adds at most two. The first
// records the previous ring as unanswered, because this ring was sent. The second records the outcome of this ring.
func FateAttempts(rings []clock.Ring, before []Candidate, fates []clock.Fate, now clock.Instant) []AlarmAttempt {
	var attempts []AlarmAttempt
	for i, f := range fates {
		r := &rings[i]
		if before[i].unacknowledged() && !f.Outcome.Kind.NotSent() {
			attempts = append(attempts, before[i].unacknowledgedAttempt(r.RungAt))
		}
		if LeavesNoAttempt(f.Outcome.Kind) {
			continue
		}
		attempts = append(attempts, AlarmAttempt{AlarmID: r.AlarmID, Attempt: clock.Attempt{
			Generation: r.Generation, RingNo: r.RingNo, ClaimID: r.ClaimID, Time: now, Outcome: f.Outcome.Kind, Error: f.LastError,
		}})
	}
	return attempts
}
