package clock

import "fmt"

// decideKick judges a kick: what died or expired is due at once, with all its tries before it. ring_no stays, for a message
// id is never used twice, and so does last_error: it is why somebody kicked.
func decideKick(row *Alarm, k *Kick, now Instant) Decision {
	if d, refused := refuseUnlessDead(row, k.Key, k.If); refused {
		return d
	}
	a := *row
	a.State, a.NextTryTime, a.RetryTimes, a.UpdateTime, a.FinishedAt = Scheduled, now, 0, now, NoInstant
	if a.LatestRingAt <= now {
		a.LatestRingAt = NoInstant // or it would expire in place of ringing
	}
	return Decision{Verdict: Amend, Alarm: a}
}

// decideDiscard judges a discard: nobody will kick the alarm.
func decideDiscard(row *Alarm, x *Discard, now Instant) Decision {
	if row != nil && row.State == Cancelled && x.If.meets(row) {
		return Decision{Verdict: Keep, Alarm: *row}
	}
	if d, refused := refuseUnlessDead(row, x.Key, x.If); refused {
		return d
	}
	a := *row
	a.State, a.UpdateTime, a.FinishedAt = Cancelled, now, now
	return Decision{Verdict: Amend, Alarm: a}
}

func refuseUnlessDead(row *Alarm, k Key, c Condition) (d Decision, refused bool) {
	switch {
	case row == nil:
		return refuseUnknown(k), true
	case !c.meets(row):
		return refuseGeneration(row, c.Generation), true
	case row.State != Dead && row.State != Expired:
		return refuse(row, ErrConflict, CodeNotDead, fmt.Sprintf("the alarm is %s, neither dead nor expired", row.State)), true
	}
	return Decision{}, false
}

// meets reports whether the row has the generation that the condition demands, if it demands one.
func (c Condition) meets(row *Alarm) bool {
	return c.Kind != AtGeneration || c.Generation == row.Generation
}
