package clock

// decideResend judges a resend. It takes back the confirmation of the alarm's latest ring: the ring is in doubt from
// then on, and due at once. So it rings again under the same message id, and no set or cancel changes the alarm until
// that is confirmed. An answer still counts.
//
// It leaves a ring that was answered, that rings at most once, that was delivered again since, or that would be late. A
// ring that is in doubt already is due at once.
func decideResend(row *Alarm, r *Resend, now Instant) Decision {
	if row == nil || row.ID != r.Ring.AlarmID || r.Key.Application != row.Application {
		return refuseUnknownRing(row, r.Ring)
	}
	latest, next := row.latestRing(), row.nextRing()
	switch {
	case r.Ring == next && row.Claimed():
		return Decision{Verdict: Locked, Alarm: *row}
	case r.Ring == next && row.State == Scheduled && row.InDoubt && row.Delivery != AtMostOnce:
		return dueAtOnce(row, now)
	case r.Ring == latest && row.ClaimID == r.ClaimID && row.mayResend(now):
		return takeBack(row, r, now)
	}
	return refuse(row, ErrConflict, CodeStaleRing,
		"the ring is not sent again: it was answered, rang again, or must not ring twice")
}

// mayResend reports whether the alarm's latest ring is confirmed, not answered, and may be sent again.
func (a *Alarm) mayResend(now Instant) bool {
	switch {
	case a.Delivery == AtMostOnce, a.Latest() != NoInstant && a.Latest() < now:
		return false
	case a.Progress.Repeats() && a.AckTimeout == 0: // the row has moved to the next occurrence, or has ended
		return false
	case a.AckTimeout > 0:
		return a.Unacknowledged() && a.AnsweredAt < a.RungAt
	}
	return a.State == Rung
}

// dueAtOnce makes a ring in doubt due now. A late reply to it is then not written (see store.Settler).
func dueAtOnce(row *Alarm, now Instant) Decision {
	if row.NextTryTime <= now {
		return Decision{Verdict: Keep, Alarm: *row}
	}
	alarm := *row
	alarm.NextTryTime, alarm.UpdateTime = now, now
	return Decision{Verdict: Amend, Alarm: alarm}
}

// takeBack makes the row's confirmed ring a ring in doubt. The time of the ring before is not known, so rung_at is
// empty.
func takeBack(row *Alarm, r *Resend, now Instant) Decision {
	alarm := *row
	alarm.State, alarm.NextTryTime, alarm.RingNo, alarm.InDoubt = Scheduled, now, row.RingNo-1, true
	alarm.RungAt, alarm.FinishedAt, alarm.UpdateTime, alarm.LastError = NoInstant, NoInstant, now, reasonResent
	alarm.KeepDoubtTarget(r.Target)
	return Decision{Verdict: Amend, Alarm: alarm, Attempt: &Attempt{
		Generation: row.Generation, RingNo: row.RingNo, ClaimID: row.ClaimID, Time: now, Outcome: Doubtful,
		Error: reasonResent,
	}}
}
