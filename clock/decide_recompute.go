package clock

import "github.com/clockd/clockd/clock/repeat"

// decideRecompute judges a recomputation. It moves the next ring of an alarm whose time zone has other rules now. The
// generation, the content and the counts stay. A ring that has begun keeps its time, and so does an alarm that was
// kicked, released or resumed late: its time has come.
//
// A ring in flight or in doubt of a repeating alarm knows the next occurrence. So its alarm waits for the outcome, or
// is refused.
func decideRecompute(row *Alarm, recompute *Recompute, now Instant) Decision {
	switch {
	case row == nil:
		return refuseUnknown(recompute.Key)
	case row.State.Over() || row.Unreadable != "" || row.TimeZone() == "":
		return Decision{Verdict: Keep, Alarm: *row}
	case row.Repeat != nil && row.Claimed():
		return Decision{Verdict: Locked, Alarm: *row}
	case row.Repeat != nil && row.InDoubt:
		return refuseInDoubt(row)
	}
	alarm := *row
	if row.Repeat != nil {
		alarm.Repetition().recompute(&alarm.RingRow, now)
	} else {
		alarm.recomputeLocal()
	}
	if alarm.RingRow == row.RingRow && alarm.RingAt == row.RingAt {
		return Decision{Verdict: Keep, Alarm: *row}
	}
	if alarm.NextTryTime != NoInstant {
		alarm.NextTryTime = max(alarm.NextTryTime, now)
	}
	alarm.UpdateTime = now
	return Decision{Verdict: Amend, Alarm: alarm, RingAtBefore: row.NextRingAt()}
}

// recomputeLocal moves an alarm that waits for its local time.
func (a *Alarm) recomputeLocal() {
	at := Instant(a.Local.Instant())
	switch {
	case a.State == Paused:
		a.RingAt = at
	case a.State == Scheduled && a.NextTryTime == a.RingAt && !a.InDoubt && a.RetryTimes == 0:
		a.RingAt, a.NextTryTime = at, at
	}
}

// recompute moves the current occurrence of a repeating alarm, if it has not begun, and the next one. Occurrences that
// were decided to ring keep their times.
func (r Repetition) recompute(row *RingRow, now Instant) {
	p := &row.Progress
	after := int64(max(now, row.UpdateTime)) // an occurrence until the last write is over
	switch {
	case p.Kicked || p.Next.Number != 0 && int64(r.RingAt(p.Next)) <= p.DecidedUntil:
		return
	case p.Queued:
		if p.Next.Number != 0 {
			p.Next = r.Rule.Moved(p.Next, 0, after)
		}
		return
	}
	if (!row.begun() || p.unplannedAt() != 0) && int64(r.RingAt(p.Current)) > p.DecidedUntil {
		r.moveCurrent(row, after)
	}
	p.Next = repeat.Occurrence{}
	if next, ok := r.Rule.FollowingLabel(p.Current, p.Label); ok {
		p.Next = next
	}
}

// moveCurrent moves the current occurrence, which has not begun, with the due time of its row.
func (r Repetition) moveCurrent(row *RingRow, after int64) {
	p := &row.Progress
	before := r.RingAt(p.Current)
	p.Current = r.Rule.Moved(p.Current, p.Label, after)
	if p.Current.At <= p.PreviousAt { // by this data, its label came before the occurrence before it
		if at, ok := r.Rule.Next(p.PreviousAt); ok {
			p.Current.At, p.Label = at, 0
		}
	}
	if p.Label == 0 {
		p.Label = r.Rule.Label(p.Current.At)
	}
	waits := row.NextTryTime == before && p.unplannedAt() == 0 || p.Backfill.Rings && !row.begun()
	if row.State == Scheduled && waits && r.RingAt(p.Current) != before {
		r.await(row, Instant(after))
	}
}
