package clock

import "fmt"

// decideBackfill judges a backfill: the alarm rings once for each occurrence of the range, in order, besides its current
// occurrence, whether they rang before or not. The rings have the times of their occurrences, but no numbers. The next
// one is due Pace after the end of the one before, and waits while an occurrence is due. Overlap holds for occurrences
// that come due while it lasts. The backfill ends with the alarm, and with its generation.
//
// Too many occurrences are refused: a part of them would look like all of them.
func decideBackfill(row *Alarm, backfill *Backfill, now Instant) Decision {
	switch d, refused := refuseUnmet(row, backfill.Key, backfill.If); {
	case refused:
		return d
	case row.Repeat == nil:
		return refuse(row, ErrConflict, CodeRingsOnce, "the alarm rings once: it has no occurrences to ring for")
	}
	switch d, refused := refuseStopped(row); {
	case refused:
		return d
	case row.State.Over():
		return refuseOver(row)
	case row.Progress.Backfill.Left > 0:
		return refuse(row, ErrConflict, CodeBackfillRuns,
			fmt.Sprintf("a backfill of the alarm has %d rings left; end it first", row.Progress.Backfill.Left))
	}
	if d, done := decideUnknownOutcome(row); done {
		return d
	}
	first, count, refusal := backfill.find(row, now)
	if refusal != nil {
		return Decision{Verdict: Refuse, Alarm: *row, Err: refusal}
	}
	alarm := *row
	p := &alarm.Progress
	p.Backfill = BackfillProgress{
		At: first, Label: row.Repeat.Label(first), DueAt: int64(now), Pace: backfill.Pace.Milliseconds(), Left: int64(count),
	}
	alarm.UpdateTime = now
	if !alarm.begun() && p.TriggeredAt == 0 {
		alarm.Repetition().await(&alarm.RingRow, now)
	}
	return Decision{Verdict: Amend, Alarm: alarm}
}

// find returns the first occurrence of the range, and their number.
func (b *Backfill) find(row *Alarm, now Instant) (first int64, count int, refusal *Error) {
	until := now
	if b.Until != NoInstant {
		until = min(b.Until, now)
	}
	limit := b.Limit
	if limit == 0 {
		limit = row.Repeat.MissedLimit()
	}
	if b.From > now {
		return 0, 0, invalid(CodeOutOfRange, "from", fmt.Sprintf("from is in the future: it is %s now", now))
	}
	first, count = row.Repeat.Between(max(int64(b.From), 1), int64(until), limit)
	switch {
	case count == 0:
		return 0, 0, invalid(CodeOutOfRange, "from", fmt.Sprintf("the rule has no occurrence from %s until %s", b.From, until))
	case count > limit:
		return 0, 0, invalid(CodeOutOfRange, "limit",
			fmt.Sprintf("the range has more than %d occurrences; shorten it, or give a limit of up to %d", limit, MaxBackfill))
	}
	return first, count, nil
}

// decideEndBackfill judges the end of a backfill. A ring that waits for its acknowledgement goes on, as the last one.
func decideEndBackfill(row *Alarm, end *EndBackfill, now Instant) Decision {
	switch d, refused := refuseUnmet(row, end.Key, end.If); {
	case refused:
		return d
	case row.Progress.Backfill.Left == 0 || row.State.Over():
		return Decision{Verdict: Keep, Alarm: *row}
	}
	if d, done := decideUnknownOutcome(row); done {
		return d
	}
	alarm := *row
	p := &alarm.Progress
	alarm.UpdateTime = now
	if p.Backfill.Rings && (alarm.State == Ringing || p.UnansweredUntil != 0) {
		p.Backfill.Left = 1
		return Decision{Verdict: Amend, Alarm: alarm}
	}
	waited := p.Backfill.Rings
	if waited {
		alarm.giveUpUnplanned()
	}
	p.Backfill = p.Backfill.ended()
	if waited {
		alarm.Repetition().await(&alarm.RingRow, now)
	}
	return Decision{Verdict: Amend, Alarm: alarm}
}
