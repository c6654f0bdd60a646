package clock

// decideTrigger judges a trigger. The alarm is due at once:
//
//   - An alarm that rings once is set again, to now, with its content. So it has the next generation, and its former
//     time is gone. A rung, expired or dead alarm rings again that way, also if its last ring is in doubt. A
//     latest_ring_at that has passed is dropped.
//   - A repeating alarm rings once besides its occurrences, which keep their times and numbers (Progress.TriggeredAt),
//     and comes before an occurrence that is due. While that ring is not over, the rule's overlap holds for occurrences
//     that come due. A further trigger while it waits changes nothing.
//   - An occurrence that waits for a further try is tried now.
//
// A trigger is refused where a ring of an unfinished alarm may have arrived, as a cancel is. It is refused for a
// cancelled alarm and a paused one, because the person who stopped the alarm wants no ring, and for a repeating alarm
// that is over: a set makes it ring again.
func decideTrigger(row *Alarm, trigger *Trigger, now Instant) Decision {
	if d, refused := refuseUnmet(row, trigger.Key, trigger.If); refused {
		return d
	}
	switch d, refused := refuseStopped(row); {
	case refused:
		return d
	case row.State.Over() && row.Repeat != nil:
		return refuseOver(row)
	case row.State.Over():
		return Decision{Verdict: Rearm, Alarm: armed(row, row.setForNow(now), now)}
	}
	if d, done := decideInFlight(row); done {
		return d
	}
	if row.Repeat == nil {
		return Decision{Verdict: Replace, Alarm: armed(row, row.setForNow(now), now)}
	}
	if waits := row.begun() || row.Progress.TriggeredAt != 0; waits && row.NextTryTime <= now {
		return Decision{Verdict: Keep, Alarm: *row}
	}
	alarm := *row
	alarm.NextTryTime, alarm.UpdateTime = now, now
	if !alarm.begun() {
		alarm.Progress.TriggeredAt, alarm.Progress.Backfill.Rings = int64(now), false
	}
	return Decision{Verdict: Amend, Alarm: alarm}
}

// refuseStopped refuses to ring an alarm that a person has stopped.
func refuseStopped(row *Alarm) (d Decision, refused bool) {
	switch row.State {
	case Cancelled:
		return refuse(row, ErrConflict, CodeAlreadyCancelled, "the alarm is cancelled; a set makes it ring again"), true
	case Paused:
		return refuse(row, ErrConflict, CodePaused, "the alarm is paused; resume it first"), true
	default:
		return Decision{}, false
	}
}

// setForNow returns the set that lets an alarm that rings once ring now, with the content that it has.
func (a *Alarm) setForNow(now Instant) *Set {
	set := a.setAt(now)
	if set.LatestRingAt < now {
		set.LatestRingAt = NoInstant
	}
	return set
}
