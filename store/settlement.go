package store

import (
	"math"

	"github.com/clockd/clockd/clock"
)

// Settlement is a row to write for one ring of a claim. A store writes it only while the row is as the claim, or its
// last settlement, wrote it.
type Settlement struct {
	ID            int64
	Generation    int64
	Claimed       clock.RingRow // row as the claim or its last settlement wrote it
	clock.RingRow               // row to write
}

// Unchanged reports whether the row to write is the row that is stored. It may need attempts all the same.
func (s *Settlement) Unchanged() bool { return s.RingRow == s.Claimed }

// Ring returns the ring that the claim makes of a candidate. The caller adds the fields that Candidate lacks: shard,
// ring_at, payload, content type, priority, traceparent and own receiver.
func (r *ClaimRequest) Ring(c *Candidate) clock.Ring {
	before := c.RingRow
	before.FinishedAt = clock.NoInstant // a due alarm is not finished, so LockDue does not read the column
	return clock.Ring{
		AlarmID: c.ID, Key: c.Key, Generation: c.Generation, RingNo: min(c.RingNo, math.MaxInt32-1) + 1,
		LatestRingAt: c.LatestRingAt,
		RungAt:       r.Now, ClaimID: r.ClaimID, Retry: c.Retry, AckTimeout: c.AckTimeout, MaxRings: c.MaxRings,
		Delivery: c.Delivery, Before: before, Repetition: c.Repetition,
		NamedTarget: NamedOfRank(c.Rank).Target, Destination: NamedOfRank(c.Rank).Destination, Target: r.Target,
	}
}

// RowAfterClaim returns the row that the claim writes for a ring. A held claim writes the confirmed row without its
// progress (statement TakeHeld). A claim of at-most-once alarms writes the row of a ring in doubt (statement TakeOnce).
// Any other two-phase claim writes a claimed row (statement TakeTwoPhase).
func (r *ClaimRequest) RowAfterClaim(ring *clock.Ring) clock.RingRow {
	switch r.Kind() {
	case Once:
		return clock.FateOf(ring, clock.Outcome{Kind: clock.Doubtful}, r.Now).RingRow
	case TwoPhase:
		row := ring.Before
		row.State, row.NextTryTime, row.RungAt, row.InDoubt, row.UpdateTime = clock.Ringing, r.ClaimEnd(), clock.NoInstant, ring.InDoubt(), r.Now
		row.KeepDoubtTarget(r.Target)
		return row
	default:
		row := clock.ConfirmedRow(ring)
		row.Progress = clock.Progress{} // the claim does not write it, so the settlement always writes the progress of a repeating alarm
		return row
	}
}

func settlement(ring *clock.Ring, claimed, row clock.RingRow) Settlement {
	return Settlement{ID: ring.AlarmID, Generation: ring.Generation, Claimed: claimed, RingRow: row}
}

// RowsAfterClaim returns RowAfterClaim of each ring.
func (r *ClaimRequest) RowsAfterClaim(rings []clock.Ring) []clock.RingRow {
	rows := make([]clock.RingRow, len(rings))
	for i := range rings {
		rows[i] = r.RowAfterClaim(&rings[i])
	}
	return rows
}

// Settlements returns the rows to write for the fates: each row whose fate differs from the stored row, and the rows of
// the alarms in always. claimed has the rows as the claim or its last settlement wrote them.
func Settlements(rings []clock.Ring, claimed []clock.RingRow, fates []clock.Fate, always map[int64]bool) []Settlement {
	var settlements []Settlement
	for i := range rings {
		if s := settlement(&rings[i], claimed[i], fates[i].RingRow); !s.Unchanged() || always[s.ID] {
			settlements = append(settlements, s)
		}
	}
	return settlements
}

// Restorations returns the rows to write when a committed claim is released: each row as it was before the claim.
func (r *ClaimRequest) Restorations(rings []clock.Ring) []Settlement {
	return r.settlementsOf(rings, (*clock.Ring).Untried)
}

// Moves returns the rows of repeating alarms that a claim writes right after it has taken the rows, in the same
// transaction: the rows of Candidate.Moved, and in a two-phase claim the chosen occurrences, so that a copy after the
// death of the node has the same occurrence.
func (r *ClaimRequest) Moves(taken []*Candidate) []Settlement {
	var moves []Settlement
	for _, c := range taken {
		if c.Moved == nil && (!c.Chosen || r.Kind() != TwoPhase) {
			continue
		}
		ring := r.Ring(c)
		claimed := r.RowAfterClaim(&ring)
		row := claimed
		if c.Moved != nil {
			row = *c.Moved
		}
		claimed.Progress = clock.Progress{} // so that the settlement is never Unchanged
		moves = append(moves, settlement(&ring, claimed, row))
	}
	return moves
}

// Confirmations returns the rows to write when all rings of a two-phase claim are confirmed.
func (r *ClaimRequest) Confirmations(rings []clock.Ring) []Settlement {
	return r.settlementsOf(rings, clock.ConfirmedRow)
}

func (r *ClaimRequest) settlementsOf(rings []clock.Ring, row func(*clock.Ring) clock.RingRow) []Settlement {
	settlements := make([]Settlement, len(rings))
	for i := range rings {
		settlements[i] = settlement(&rings[i], r.RowAfterClaim(&rings[i]), row(&rings[i]))
	}
	return settlements
}

// ConfirmsAtOnce reports whether the statement ConfirmAlarms may settle the claim. ConfirmAlarms finds the rows of a
// two-phase claim that are not at-most-once, and writes clock.ConfirmedRow to them without attempts.
func (r *ClaimRequest) ConfirmsAtOnce(rings []clock.Ring, fates []clock.Fate, attempts []AlarmAttempt) bool {
	if r.Kind() != TwoPhase || len(attempts) > 0 {
		return false
	}
	for i := range rings {
		if fates[i].RingRow != clock.ConfirmedRow(&rings[i]) {
			return false
		}
	}
	return true
}

// AlarmAttempt is an attempt together with the id of its alarm.
type AlarmAttempt struct {
	AlarmID int64
	clock.Attempt
}

// FateAttempts returns the attempts that the fates of the rings add, in the order to keep them. A ring adds at most
// two. The first records the previous ring as unacknowledged, because this ring was sent or no ring is left. The second
// records the outcome of this ring, unless the target has the ring, nothing was sent, or the reply is still awaited.
func FateAttempts(rings []clock.Ring, fates []clock.Fate, now clock.Instant) []AlarmAttempt {
	var attempts []AlarmAttempt
	for i := range fates {
		ring, outcome := &rings[i], fates[i].Outcome
		if ring.Before.Unacknowledged() && closesPreviousRing(outcome.Kind) {
			attempts = append(attempts, AlarmAttempt{AlarmID: ring.AlarmID, Attempt: clock.Attempt{
				Generation: ring.Generation, RingNo: ring.Before.RingNo, ClaimID: ring.Before.ClaimID,
				Time: ring.RungAt, Outcome: clock.Unacknowledged,
			}})
		}
		switch outcome.Kind {
		case clock.Confirmed, clock.Unsent, clock.Untaken, clock.TooLate, clock.Unacknowledged, clock.Awaited:
			continue
		case clock.Unreadable:
			outcome.Kind = clock.Refused
		default:
		}
		attempts = append(attempts, AlarmAttempt{AlarmID: ring.AlarmID, Attempt: clock.Attempt{
			Generation: ring.Generation, RingNo: ring.RingNo, ClaimID: ring.ClaimID, Time: now, Outcome: outcome.Kind,
			Error: outcome.Reason,
		}})
	}
	return attempts
}

// closesPreviousRing reports whether the outcome shows that the previous ring stays unacknowledged.
func closesPreviousRing(k clock.OutcomeKind) bool {
	return !k.NotSent() && k != clock.TooLate && k != clock.Unreadable && k != clock.Awaited
}

// Attempted returns the ids of the alarms with attempts.
func Attempted(attempts []AlarmAttempt) map[int64]bool {
	ids := make(map[int64]bool, len(attempts))
	for i := range attempts {
		ids[attempts[i].AlarmID] = true
	}
	return ids
}

// AttemptsOf returns the attempts of the alarms with these ids, in the same order.
func AttemptsOf(attempts []AlarmAttempt, ids map[int64]bool) []AlarmAttempt {
	var found []AlarmAttempt
	for _, a := range attempts {
		if ids[a.AlarmID] {
			found = append(found, a)
		}
	}
	return found
}
