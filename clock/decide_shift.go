package clock

import "fmt"

// decideShift judges a shift. It has the effect of a set with another ring_at: the alarm has the next generation, and
// its tries count from zero. A latest_ring_at moves along. A local time becomes an instant. A repeating alarm follows
// its rule, so its time cannot be shifted.
func decideShift(row *Alarm, shift *Shift, now Instant) Decision {
	switch {
	case row == nil:
		return refuseUnknown(shift.Key)
	case row.UpdateTime > shift.UnchangedSince:
		return refuse(row, ErrPrecondition, CodeConditionFailed,
			fmt.Sprintf("the alarm has changed since %s", shift.UnchangedSince))
	case row.State == Cancelled:
		return refuse(row, ErrConflict, CodeAlreadyCancelled, "the alarm is cancelled")
	case row.State.Over():
		return refuseOver(row)
	case row.Repeat != nil:
		return refuse(row, ErrConflict, CodeRepeats, "the alarm repeats: its rule says when it rings")
	}
	if d, done := decideInFlight(row); done {
		return d
	}
	set := row.setAt(row.RingAt.Add(shift.By))
	if set.LatestRingAt != NoInstant {
		set.LatestRingAt = set.LatestRingAt.Add(shift.By)
	}
	if set.LatestRingAt != NoInstant && set.LatestRingAt < now {
		return refuse(row, ErrConflict, CodeOutOfRange, "latest_ring_at would have passed")
	}
	return Decision{Verdict: Replace, Alarm: armed(row, set, now)}
}

// setAt returns the set that lets an alarm that rings once ring at another time, with the content that it has.
func (a *Alarm) setAt(at Instant) *Set {
	set := &Set{Key: a.Key, Content: a.Content, Traceparent: a.Traceparent}
	set.Local, set.RingAt = nil, at
	return set
}
