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
	RingNo        int // confirmed so far
	MaxRings      int
	AckTimeout    time.Duration
	LatestRingAt  clock.Instant
	NextTryTime   clock.Instant
	LastError     string
	InDoubt       bool
	ClaimID       string
	RungAt        clock.Instant
	UpdateTime    clock.Instant
	PayloadLength int
}

// Claimed reports whether a two-phase claim, which must have ended, had taken the row: that ring may have arrived.
func (c *Candidate) Claimed() bool { return c.State == clock.Ringing && c.RungAt == clock.NoInstant }

// Judged is what a claim does with its candidates, each in due order.
type Judged struct {
	Taken []Candidate // to be rung
	Ended []Ended     // over
	Left  []int64     // for MaxBytes' sake
}

// Judge decides over the candidates of a claim: those that are not due or not pending are passed over.
func (r *ClaimRequest) Judge(candidates []Candidate) Judged {
	slices.SortFunc(candidates, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(a.NextTryTime, b.NextTryTime), cmp.Compare(a.ID, b.ID))
	})
	var j Judged
	size := 0
	for _, c := range candidates {
		if c.NextTryTime == clock.NoInstant || c.NextTryTime > r.Now || c.State != clock.Scheduled && c.State != clock.Ringing {
			continue
		}
		if e, over := c.ends(r.Now); over {
			j.Ended = append(j.Ended, e)
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
	case c.State == clock.Ringing && c.AckTimeout > 0 && c.RingNo >= c.MaxRings:
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

// Settled returns what the fate of a ring writes to its row, which was before when it was claimed.
func Settled(r *clock.Ring, before *Candidate, f *clock.Fate) Settlement {
	s := Settlement{
		ID: r.AlarmID, Generation: r.Generation, State: f.State, NextTryTime: f.NextTryTime, RetryTimes: f.RetryTimes,
		LastError: f.LastError, InDoubt: f.InDoubt, FinishedAt: f.FinishedAt,
		RingNo: r.RingNo - 1, ClaimID: before.ClaimID, RungAt: before.RungAt,
	}
	if f.Outcome.Kind == clock.Confirmed {
		s.RingNo, s.ClaimID, s.RungAt = r.RingNo, r.ClaimID, r.RungAt
	}
	return s
}

// Attempted is an attempt with the alarm that it belongs to.
type Attempted struct {
	AlarmID int64
	clock.Attempt
}

// Silent reports whether an outcome leaves no attempt: the target has the ring, or no byte of it was sent.
func Silent(k clock.OutcomeKind) bool {
	return k == clock.Confirmed || k == clock.Unsent || k == clock.Untaken
}

// Attempts returns the attempts that the fates of the rings add.
func Attempts(rings []clock.Ring, fates []clock.Fate, now clock.Instant) []Attempted {
	var attempts []Attempted
	for i, f := range fates {
		if Silent(f.Outcome.Kind) {
			continue
		}
		r := &rings[i]
		attempts = append(attempts, Attempted{AlarmID: r.AlarmID, Attempt: clock.Attempt{
			Generation: r.Generation, RingNo: r.RingNo, ClaimID: r.ClaimID, Time: now, Outcome: f.Outcome.Kind, Error: f.LastError,
		}})
	}
	return attempts
}
