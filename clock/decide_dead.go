package clock

import "fmt"

// decideKick judges a kick. A dead or expired alarm becomes due at once, with all its retries left. ring_no stays,
// because a message id is never used twice. last_error stays too: it is the reason for the kick. The end goes to the past.
// Of a repeating alarm the occurrence that has ended it rings again.
func decideKick(row *Alarm, kick *Kick, now Instant) Decision {
	if d, refused := refuseUnlessDead(row, kick.Key, kick.If); refused {
		return d
	}
	alarm := *row
	alarm.State, alarm.NextTryTime, alarm.RetryTimes, alarm.UpdateTime, alarm.FinishedAt = Scheduled, now, 0, now, NoInstant
	alarm.Past = row.Past.with(row, now)
	if alarm.LatestRingAt <= now {
		alarm.LatestRingAt = NoInstant // otherwise the alarm would expire instead of ringing
	}
	if alarm.Progress.Repeats() {
		alarm.Progress.kick()
		alarm.Progress.Backfill = alarm.Progress.Backfill.ended()
	}
	return Decision{Verdict: Amend, Alarm: alarm}
}

// decideDiscard judges a discard. It cancels a dead or expired alarm. The end goes to the past.
func decideDiscard(row *Alarm, discard *Discard, now Instant) Decision {
	if row != nil && row.State == Cancelled && discard.If.meets(row) {
		return Decision{Verdict: Keep, Alarm: *row}
	}
	if d, refused := refuseUnlessDead(row, discard.Key, discard.If); refused {
		return d
	}
	alarm := *row
	alarm.State, alarm.UpdateTime, alarm.FinishedAt = Cancelled, now, now
	alarm.Past = row.Past.with(row, now)
	return Decision{Verdict: Amend, Alarm: alarm}
}

func refuseUnlessDead(row *Alarm, key Key, condition Condition) (d Decision, refused bool) {
	switch d, refused := refuseUnmet(row, key, condition); {
	case refused:
		return d, true
	case row.State != Dead && row.State != Expired:
		return refuse(row, ErrConflict, CodeNotDead, fmt.Sprintf("the alarm is %s, neither dead nor expired", row.State)), true
	}
	return Decision{}, false
}
