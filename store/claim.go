package store

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

// reasonExpired is last_error of an alarm that ended as expired and had no other reason to tell.
const reasonExpired = "latest_ring_at passed before it could be rung"

// Candidate is a row that a claim has locked: what decides whether it is rung, and what Settle restores.
type Candidate struct {
	ID int64
	clock.Key
	State         clock.State
	Generation    int64
	RingNo        int // confirmed so far
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
}

// Claimed reports whether a two-phase claim, which must have ended, had taken the row: that ring may have arrived.
func (c *Candidate) Claimed() bool { return c.State == clock.Ringing && c.RungAt == clock.NoInstant }

// unacknowledged reports whether the row is a confirmed ring that nobody answered in time.
func (c *Candidate) unacknowledged() bool {
	return c.State == clock.Ringing && c.RungAt != clock.NoInstant
}

// attempt returns what is kept of a ring that nobody answered in time, noticed at now.
func (c *Candidate) attempt(now clock.Instant) Attempted {
	return Attempted{AlarmID: c.ID, Attempt: clock.Attempt{
		Generation: c.Generation, RingNo: c.RingNo, ClaimID: c.ClaimID, Time: now, Outcome: clock.Unacknowledged,
	}}
}

// Position returns where the row stands in the due order.
func (c *Candidate) Position() Position { return Position{Time: c.NextTryTime, Rank: c.Rank, ID: c.ID} }

// Judged is what a claim does with its candidates, each in due order.
type Judged struct {
	Taken []Candidate // to be rung
	Ended []Ended     // over
	Left  []int64     // for MaxBytes' sake
	Once  []int64     // clock.AtMostOnce, where ClaimRequest.Once was not asked for

	Attempts []Attempted // of Ended: the last ring of each that is dead
}

// Judge decides over the candidates of a claim: those that are not due or not pending are passed over, and with Once those
// that are not clock.AtMostOnce.
func (r *ClaimRequest) Judge(candidates []Candidate) Judged {
	slices.SortFunc(candidates, func(a, b Candidate) int {
		return a.Position().Compare(b.Position())
	})
	var j Judged
	size := 0
	for _, c := range candidates {
		if c.NextTryTime == clock.NoInstant || c.NextTryTime > r.Now || c.State != clock.Scheduled && c.State != clock.Ringing {
			continue
		}
		if e, over := c.ends(r.Now); over {
			j.Ended = append(j.Ended, e)
			if e.State == clock.Dead {
				j.Attempts = append(j.Attempts, c.attempt(r.Now))
			}
			continue
		}
		if once := c.Delivery == clock.AtMostOnce; once != r.Once {
			if once {
				j.Once = append(j.Once, c.ID)
			}
			continue
		}
		if len(j.Left) > 0 || len(j.Taken) > 0 && size+c.PayloadLength > r.MaxBytes {
			j.Left = append(j.Left, c.ID)
			continue
		}
		size += c.PayloadLength
		j.Taken = append(j.Taken, c)
	}
	return j
}

// ends returns how the row ends where it cannot ring any more.
func (c *Candidate) ends(now clock.Instant) (Ended, bool) {
	e := Ended{Key: c.Key, ID: c.ID}
	switch {
	case c.LatestRingAt != clock.NoInstant && c.LatestRingAt < now:
		e.State, e.Reason = clock.Expired, ExpiredReason(c.LastError)
	case c.unacknowledged() && c.RingNo >= c.MaxRings:
		e.State, e.Reason = clock.Dead, fmt.Sprintf("not acknowledged after %d rings", c.RingNo)
	default:
		return Ended{}, false
	}
	return e, true
}

// ExpiredReason returns last_error of an alarm that expires: what it was if it says something.
func ExpiredReason(lastError string) string { return cmp.Or(lastError, reasonExpired) }

// Settlement is what Settle writes to the row of one ring.
type Settlement struct {
	ID          int64
	Generation  int64
	State       clock.State
	NextTryTime clock.Instant
	RingNo      int
	RetryTimes  int
	LastError   string // empty: what is stored stays
	InDoubt     bool
	ClaimID     string
	RungAt      clock.Instant
	FinishedAt  clock.Instant
}

// Settled returns what the fate of a ring writes to its row, which was before when it was claimed. Of what was not sent an
// unacknowledged ring stays one, which may still be answered; what rings at most once keeps what its claim has written.
func Settled(r *clock.Ring, before *Candidate, f *clock.Fate) Settlement {
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
	case before.unacknowledged() && unsent(f.Outcome.Kind):
		s.State = clock.Ringing
	}
	return s
}

// Undone returns what makes the row of a ring what it was before its claim.
func Undone(r *clock.Ring, before *Candidate) Settlement {
	return Settlement{
		ID: r.AlarmID, Generation: r.Generation, State: before.State, NextTryTime: before.NextTryTime, RingNo: before.RingNo,
		RetryTimes: r.RetryTimes, InDoubt: before.InDoubt, ClaimID: before.ClaimID, RungAt: before.RungAt, FinishedAt: clock.NoInstant,
	}
}

// Left is how a two-phase claim leaves a row: what it must still be when it is settled.
type Left struct {
	State       clock.State
	NextTryTime clock.Instant
	RungAt      clock.Instant
	ClaimID     string
}

// LeftBy returns how a two-phase claim leaves a row.
func LeftBy(r *ClaimRequest, before *Candidate) Left {
	if r.Once {
		return Left{State: clock.Rung, NextTryTime: clock.NoInstant, RungAt: r.Now, ClaimID: r.ClaimID}
	}
	return Left{State: clock.Ringing, NextTryTime: r.LeaseEnd(), RungAt: clock.NoInstant, ClaimID: before.ClaimID}
}

// AllConfirmed reports whether every ring was confirmed without a word.
func AllConfirmed(fates []clock.Fate) bool {
	return !slices.ContainsFunc(fates, func(f clock.Fate) bool { return f.Outcome.Kind != clock.Confirmed || f.LastError != "" })
}

// Attempted is an attempt with the alarm that it belongs to.
type Attempted struct {
	AlarmID int64
	clock.Attempt
}

// Silent reports whether an outcome leaves no attempt: the target has the ring, or no byte of it was sent.
func Silent(k clock.OutcomeKind) bool { return k == clock.Confirmed || unsent(k) }

// unsent reports whether no byte of the ring was sent: it is as if it had not been tried.
func unsent(k clock.OutcomeKind) bool { return k == clock.Unsent || k == clock.Untaken }

// Attempts returns the attempts that the fates of the rings add, in the order in which they are to be kept: at most two a ring,
// that nobody answered the ring before, which is over as soon as another was sent, and what became of this one.
func Attempts(rings []clock.Ring, before []Candidate, fates []clock.Fate, now clock.Instant) []Attempted {
	var attempts []Attempted
	for i, f := range fates {
		r := &rings[i]
		if before[i].unacknowledged() && !unsent(f.Outcome.Kind) {
			attempts = append(attempts, before[i].attempt(r.RungAt))
		}
		if Silent(f.Outcome.Kind) {
			continue
		}
		attempts = append(attempts, Attempted{AlarmID: r.AlarmID, Attempt: clock.Attempt{
			Generation: r.Generation, RingNo: r.RingNo, ClaimID: r.ClaimID, Time: now, Outcome: f.Outcome.Kind, Error: f.LastError,
		}})
	}
	return attempts
}
