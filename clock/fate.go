package clock

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"
)

// Reasons of expired alarms, written to last_error. The statements that expire many rows at once take them as
// parameters.
const (
	// ReasonExpired is the reason of an alarm that was never handed over and has no last_error.
	ReasonExpired = "latest_ring_at passed before it could be rung"
	// ReasonInDoubt is the reason of an alarm in doubt. A last_error follows it.
	ReasonInDoubt = "in doubt: a ring was handed over and its outcome is unknown, then latest_ring_at passed"
	// ReasonUnacknowledged is the reason of an alarm that rang and waited for its acknowledgement.
	ReasonUnacknowledged = "latest_ring_at passed before a ring was acknowledged"
)

// Fate is the outcome of a ring, and the row after it.
type Fate struct {
	Outcome Outcome // its Reason has at most MaxReason bytes
	RingRow
}

// FateOf returns the fate of a ring's alarm. now is the database's time after the try, or the claim's time for an alarm
// that ends without a ring. FateOf is a pure function and the only definition of an outcome's effect. Statements that
// write an outcome themselves write exactly this row; package storetest compares them. Released and Buried are answers:
// Op.Decide defines their effect.
//
//   - A confirmed ring gets ConfirmedRow. If its confirm is also its acknowledgement (Acknowledged), its alarm is rung.
//   - A ring in doubt, or a ring that was not sent, is due again at once. A ring in doubt that counts (Counted) has
//     failed.
//   - A ring in doubt remembers its target, where it is repeated.
//   - An awaited ring is in doubt too, but due again only after AwaitTimeout. With AtMostOnce its row stays as the
//     claim wrote it.
//   - Any other try has failed. It is tried again after a wait, up to the retry limit. The wait is the retry policy's,
//     or RetryAfter (at most maxRetryWait) if that is longer. The next try never lies beyond LatestRingAt. Once
//     LatestRingAt has passed, the next try is now, and the next claim ends the alarm as expired.
//   - After a final failure (Final) there is no next try: the alarm is dead.
//   - A ring that the settings send nowhere (Withdrawn) is tried once more, and that uses up no retry.
//   - With AtMostOnce a ring that may have arrived is not tried again: its alarm is rung, in doubt. A final failure
//     ends it as dead.
//   - An unacknowledged ring whose repetition was not sent stays unacknowledged, so the application can still answer
//     it.
//   - An occurrence of a repeating alarm has the fate of an alarm that rings once. When it is over, the row moves to
//     the next occurrence (Repetition.endOccurrence); the alarm is over after the last one.
func FateOf(ring *Ring, outcome Outcome, now Instant) Fate {
	fate := fateOfOccurrence(ring, outcome, now)
	if !ring.Before.Progress.Repeats() {
		return fate
	}
	if outcome.Kind == Confirmed {
		ring.Repetition.noteRing(&fate.RingRow)
	}
	if fate.State.Over() && outcome.Kind != Unreadable {
		ring.Repetition.endOccurrence(&fate.RingRow, ring.Before.begun(), now)
	}
	return fate
}

// fateOfOccurrence is FateOf without the move to the next occurrence.
func fateOfOccurrence(ring *Ring, outcome Outcome, now Instant) Fate {
	outcome.Reason = bounded(outcome.Reason)
	if outcome.Kind == Awaited && ring.Delivery == AtMostOnce {
		return Fate{Outcome: outcome, RingRow: fateOfOccurrence(ring, Outcome{Kind: Doubtful}, ring.RungAt).RingRow}
	}
	fate := Fate{Outcome: outcome, RingRow: ring.Before}
	fate.InDoubt, fate.UpdateTime, fate.FinishedAt = ring.InDoubt(), now, NoInstant
	fate.LastError = cmp.Or(outcome.Reason, fate.LastError)
	switch {
	case outcome.Kind == Confirmed:
		fate.RingRow = ConfirmedRow(ring)
		if outcome.Acknowledged {
			fate.finish(Rung, ring.RungAt)
		}
	case outcome.Kind == TooLate:
		fate.finish(Expired, now)
		fate.LastError = expiredReason(&ring.Before)
	case outcome.Kind == Unacknowledged:
		fate.finish(Dead, now)
		fate.LastError = fmt.Sprintf("not acknowledged after %d rings", fate.RingNo-fate.Progress.RingsBefore)
	case outcome.Kind == Unreadable:
		fate.finish(Dead, now)
	case outcome.Kind == Nacked && outcome.Final:
		fate.RetryTimes++
		fate.finish(Dead, now)
	case outcome.Withdrawn:
		if !fate.Unacknowledged() {
			fate.State = Scheduled
		}
		fate.NextTryTime = nextTry(now.Add(outcome.RetryAfter), ring.LatestRingAt, now)
	case ring.Delivery == AtMostOnce && outcome.mayHaveArrived():
		fate.finish(Rung, ring.RungAt)
		fate.InDoubt, fate.ClaimID, fate.RungAt = true, ring.ClaimID, ring.RungAt
	case outcome.Kind == Doubtful && outcome.Counted:
		fate.InDoubt = true
		fate.countFailure(ring, outcome.RetryAfter, now)
	case outcome.Kind == Doubtful:
		fate.State, fate.InDoubt, fate.NextTryTime = Scheduled, true, now
	case outcome.Kind == Awaited:
		fate.State, fate.InDoubt, fate.LastError = Scheduled, true, ring.Before.LastError
		fate.NextTryTime = nextTry(now.Add(AwaitTimeout), afterLatest(ring.LatestRingAt), now)
	case outcome.Kind.NotSent():
		if !fate.Unacknowledged() {
			fate.State = Scheduled
		}
		fate.NextTryTime = now
		fate.Progress = ring.Untried().Progress
	default:
		fate.countFailure(ring, outcome.RetryAfter, now)
	}
	if outcome.Kind == Doubtful || outcome.Kind == Awaited {
		fate.KeepDoubtTarget(ring.Target)
	} else {
		fate.KeepDoubtTarget(ring.Before.DoubtTarget)
	}
	return fate
}

// LateFateOf returns the fate of a ring whose fate was Awaited before. It is the fate that the ring would have had in
// time, but its UpdateTime is now, because the row has changed meanwhile, and the time to acknowledge a confirmed ring
// begins now.
func LateFateOf(ring *Ring, outcome Outcome, now Instant) Fate {
	fate := FateOf(ring, outcome, now)
	if outcome.Kind == Confirmed {
		fate.UpdateTime = now
	}
	if fate.Unacknowledged() && outcome.Kind == Confirmed {
		fate.NextTryTime = now.Add(ring.AckTimeout)
	}
	return fate
}

// ConfirmedRow returns the row of a confirmed ring: rung, or ringing until the end of its ack_timeout. A held claim
// writes it before the ring is delivered. Its UpdateTime is the claim's time, so it does not depend on when the confirm
// came.
func ConfirmedRow(ring *Ring) RingRow {
	row := ring.Before
	row.RingNo, row.InDoubt, row.ClaimID, row.RungAt, row.UpdateTime = ring.RingNo, false, ring.ClaimID, ring.RungAt, ring.RungAt
	row.DoubtTarget = NoTarget
	if ring.AckTimeout > 0 {
		row.State, row.NextTryTime, row.FinishedAt = Ringing, ring.RungAt.Add(ring.AckTimeout), NoInstant
		return row
	}
	row.finish(Rung, ring.RungAt)
	return row
}

// finish ends the alarm in a state at an instant.
func (r *RingRow) finish(state State, at Instant) {
	r.State, r.NextTryTime, r.FinishedAt = state, NoInstant, at
}

// countFailure counts a failed try. The alarm waits for the next try, at least for retryAfter, or it is dead.
func (r *RingRow) countFailure(ring *Ring, retryAfter time.Duration, now Instant) {
	r.RetryTimes++
	if ring.Retry.Exhausted(r.RetryTimes) {
		r.finish(Dead, now)
		return
	}
	wait := max(ring.retryWait(r.RetryTimes), min(retryAfter, maxRetryWait))
	r.State, r.NextTryTime = Scheduled, nextTry(now.Add(wait), ring.LatestRingAt, now)
}

// retryWait returns the wait after the given number of failed tries. Its random part depends only on alarm and number,
// so FateOf is a function. Rings that failed together are still not tried together again.
func (r *Ring) retryWait(failed int) time.Duration {
	random := rand.New(rand.NewPCG(uint64(r.AlarmID), uint64(failed)))
	return r.Retry.Wait(failed, random.Float64())
}

// afterLatest returns the first instant at which an alarm is late for its LatestRingAt. An awaited ring must not be due
// before it.
func afterLatest(latest Instant) Instant {
	if latest == NoInstant {
		return NoInstant
	}
	return latest + 1
}

// nextTry returns at, but not after latest (unless that is NoInstant) and never before now.
func nextTry(at, latest, now Instant) Instant {
	if latest != NoInstant {
		at = min(at, latest)
	}
	return max(at, now)
}

// expiredReason returns the last_error of an expired alarm. A ring that may have arrived is more important than the
// previous last_error.
func expiredReason(before *RingRow) string {
	switch {
	case (before.InDoubt || before.Claimed()) && before.LastError != "":
		return fmt.Sprintf("%.*s", MaxReason, ReasonInDoubt+"; last error: "+before.LastError)
	case before.InDoubt || before.Claimed():
		return ReasonInDoubt
	case before.Unacknowledged():
		return ReasonUnacknowledged
	}
	return cmp.Or(before.LastError, ReasonExpired)
}
