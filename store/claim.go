package store

import (
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

// Candidate is a row that a claim has locked. It holds the values that decide whether the row rings, and the row that a
// release restores. FinishedAt is not read.
type Candidate struct {
	ID int64
	clock.Key
	Generation int64
	clock.RingRow
	MaxRings      int
	AckTimeout    time.Duration
	Delivery      clock.DeliveryMode
	LatestRingAt  clock.Instant
	Rank          int
	PayloadLength int
	Retry         clock.RetryPolicy
	Repetition    clock.Repetition // of a repeating alarm; its LatestRingAt is NoInstant until Judge has chosen an occurrence
	Unreadable    string           // why the row cannot be read; empty for a readable row

	Chosen  bool                   // Judge has chosen another occurrence than the stored one, or counted missed occurrences
	Moved   *clock.RingRow         // row to write instead of a ring: no occurrence rings now; nil: the row rings
	Counted clock.OccurrenceCounts // occurrences that Judge has ended
}

// Addressee returns the addressee of the row's rings.
func (c *Candidate) Addressee() Addressee { return Addressee{c.Application, NamedOfRank(c.Rank)} }

// Position returns the row's place in the due order.
func (c *Candidate) Position() Position { return Position{Time: c.NextTryTime, Rank: c.Rank, ID: c.ID} }

// Judgment is what a claim decides about its candidates. Each list is in due order.
type Judgment struct {
	Taken      []Candidate // rows that the claim writes: rows to ring, and repeating rows whose occurrence does not ring (Candidate.Moved; such a row may be finished)
	Ended      []Ending    // rows that end without another ring
	Deferred   []int64     // ids that the claim leaves because of MaxBytes
	Elsewhere  []Elsewhere // rows that the claim leaves to another target
	PassedOver int         // rows in none of the lists: not due, or with another target; a claim on an engine that holds claims gives up their locks
	AtMostOnce []int64     // ids with clock.AtMostOnce, when ClaimRequest.AtMostOnce is false

	Attempts      []AlarmAttempt // attempts of the rows in Ended
	MovedAttempts []AlarmAttempt // attempts of the rows with Candidate.Moved
}

// Ending is a row that ends without another ring, and its fate.
type Ending struct {
	Candidate
	Fate clock.Fate // TooLate, Unacknowledged or Unreadable
}

// EndedAlarms returns the ended rows as the claim reports them.
func (j *Judgment) EndedAlarms() []EndedAlarm {
	var ended []EndedAlarm
	for i := range j.Ended {
		e := &j.Ended[i]
		ended = append(ended, EndedAlarm{Key: e.Key, ID: e.ID, State: e.Fate.State, Reason: e.Fate.LastError})
	}
	return ended
}

// Judge sorts the candidates by due order, in place, and decides about each. server is the database's clock as this
// claim has read it; it counts only when ServerClock is set. Unreadable rows end as dead. Rows that may not ring any
// more end. Rows of the other delivery mode appear in AtMostOnce, or nowhere if r.AtMostOnce is set. Judge lists a
// readable row only if it is scheduled or ringing, due both at Now and by the database's clock, and names what
// Named has.
func (r *ClaimRequest) Judge(candidates []Candidate, server clock.Instant) Judgment {
	now := r.decisionTime(server)
	slices.SortFunc(candidates, func(a, b Candidate) int {
		return a.Position().Compare(b.Position())
	})
	j := Judgment{Taken: make([]Candidate, 0, len(candidates))}
	size := 0
	for _, c := range candidates {
		if c.Unreadable != "" {
			j.end(r, &c, clock.Outcome{Kind: clock.Unreadable, Reason: c.Unreadable})
			continue
		}
		if c.NextTryTime == clock.NoInstant || c.NextTryTime > now ||
			c.State != clock.Scheduled && c.State != clock.Ringing || !r.names(&c) {
			j.PassedOver++
			continue
		}
		c.chooseOccurrence(now)
		if c.LatestRingAt != clock.NoInstant && now <= c.LatestRingAt && c.LatestRingAt < r.Now {
			j.PassedOver++
			continue // latest_ring_at has passed by Now, but not by the database's clock: a later claim decides
		}
		outcome, mayNotRing := c.ends(now)
		switch {
		case c.Progress.Repeats() && (mayNotRing || c.Moved != nil):
			j.move(r, &c, outcome)
			continue
		case mayNotRing:
			j.end(r, &c, outcome)
			continue
		}
		if r.EndOnly {
			j.PassedOver++
			continue
		}
		if once := c.Delivery == clock.AtMostOnce; once != r.AtMostOnce {
			if once {
				j.AtMostOnce = append(j.AtMostOnce, c.ID)
			}
			continue
		}
		if target, leaves := r.leavesTo(&c); leaves {
			j.Elsewhere = append(j.Elsewhere, Elsewhere{ID: c.ID, Target: target})
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

// names reports whether the row names what the caller knows.
func (r *ClaimRequest) names(c *Candidate) bool { return NamedOfRank(c.Rank) == r.Named[c.ID] }

// leavesTo reports whether the claim leaves the row to another target, and to which one.
func (r *ClaimRequest) leavesTo(c *Candidate) (target clock.TargetKind, leaves bool) {
	inDoubt := c.InDoubt || c.Claimed()
	switch {
	case inDoubt && slices.Contains(r.OtherTargets, c.DoubtTarget):
		return c.DoubtTarget, true
	case r.InDoubtOnly && (!inDoubt || c.DoubtTarget != r.Target):
		return clock.NoTarget, true
	}
	return clock.NoTarget, false
}

// decisionTime returns the instant that decides which rows are due and which have expired: Now, or the database's clock
// if that counts and is earlier.
func (r *ClaimRequest) decisionTime(server clock.Instant) clock.Instant {
	if r.ServerClock {
		return min(r.Now, server)
	}
	return r.Now
}

// PassesOverAny reports whether Judge would pass over a candidate that is due at Now, because it is not due by the
// database's clock or names another target than the caller knows. Claims that take rows before Judge sees them need it.
func (r *ClaimRequest) PassesOverAny(candidates []Candidate, server clock.Instant) bool {
	now := r.decisionTime(server)
	for i := range candidates {
		if candidates[i].NextTryTime > now || !r.names(&candidates[i]) {
			return true
		}
	}
	return false
}

// end adds a row that ends with the outcome.
func (j *Judgment) end(r *ClaimRequest, c *Candidate, outcome clock.Outcome) {
	ring := r.Ring(c)
	fate := clock.FateOf(&ring, outcome, r.Now)
	j.Ended = append(j.Ended, Ending{Candidate: *c, Fate: fate})
	j.Attempts = append(j.Attempts, FateAttempts([]clock.Ring{ring}, []clock.Fate{fate}, r.Now)...)
}

// chooseOccurrence decides which occurrence of a repeating alarm rings.
func (c *Candidate) chooseOccurrence(now clock.Instant) {
	if !c.Progress.Repeats() {
		return
	}
	stored := c.RingRow
	row, rings := c.Repetition.ChooseOccurrence(c.RingRow, now)
	c.Counted = row.Progress.Since(stored.Progress.OccurrenceCounts)
	if !rings {
		c.Moved = &row
		return
	}
	c.RingRow, c.Chosen = row, row != stored
	c.LatestRingAt = c.Repetition.Latest(&row.Progress)
}

// move adds a repeating alarm whose current occurrence does not ring: its row moves to a later occurrence, or ends.
// Without Moved, the outcome ends the current occurrence.
func (j *Judgment) move(r *ClaimRequest, c *Candidate, outcome clock.Outcome) {
	if c.Moved == nil {
		ring := r.Ring(c)
		fate := clock.FateOf(&ring, outcome, r.Now)
		c.Moved = &fate.RingRow
		c.Counted.Add(fate.Progress.Since(c.Progress.OccurrenceCounts))
		j.MovedAttempts = append(j.MovedAttempts, FateAttempts([]clock.Ring{ring}, []clock.Fate{fate}, r.Now)...)
	}
	c.Moved.UpdateTime = r.Now
	if c.Moved.NextTryTime != clock.NoInstant {
		c.Moved.NextTryTime = max(c.Moved.NextTryTime, r.Now)
	}
	j.Taken = append(j.Taken, *c)
}

// ends returns the outcome with which the row ends, and true if the row may not ring any more.
func (c *Candidate) ends(now clock.Instant) (clock.Outcome, bool) {
	switch {
	case c.LatestRingAt != clock.NoInstant && c.LatestRingAt < now:
		return clock.Outcome{Kind: clock.TooLate}, true
	case c.Unacknowledged() && c.RingNo-c.Progress.RingsBefore >= c.MaxRings:
		return clock.Outcome{Kind: clock.Unacknowledged}, true
	}
	return clock.Outcome{}, false
}
