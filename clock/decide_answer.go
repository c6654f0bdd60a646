package clock

import "fmt"

// maxBy bounds answered_by, in bytes.
const maxBy = 128

// decideAnswer judges an answer to a ring. Accepted is what names the latest ring, as long as nobody rang it again: the
// one that waits for its acknowledgement, also past its time, or the one in doubt, which the answer proves.
func decideAnswer(row *Alarm, a *Answer, now Instant) Decision {
	if row == nil || row.ID != a.Ring.AlarmID || a.Key.Application != row.Application {
		return refuseUnknownRing(row, a.Ring)
	}
	latest := RingID{AlarmID: row.ID, Generation: row.Generation, RingNo: row.RingNo}
	next := latest
	next.RingNo++
	switch {
	case a.Ring == next && row.Claimed():
		return Decision{Verdict: Wait, Alarm: *row}
	case a.Ring == next && row.State == Scheduled && row.InDoubt && row.AckTimeout > 0:
		proven := *row
		proven.RingNo, proven.InDoubt, proven.RungAt = next.RingNo, false, now
		return answered(proven, a, now)
	case a.Ring == latest && row.State == Ringing && !row.Claimed():
		return answered(*row, a, now)
	case a.Ring.Generation > row.Generation, a.Ring.Generation == row.Generation && a.Ring.RingNo > next.RingNo,
		a.Ring == next && !row.InDoubt:
		return refuseUnknownRing(row, a.Ring)
	}
	return refuse(row, ErrConflict, CodeStaleRing, staleDetail(row, a.Ring))
}

// refuseUnknownRing says nothing of the row, which may be another application's.
func refuseUnknownRing(row *Alarm, r RingID) Decision {
	d := Decision{Verdict: Refuse, Err: unknownRing(r)}
	if row != nil {
		d.Alarm = *row
	}
	return d
}

func unknownRing(r RingID) error {
	return &Error{Kind: ErrNotFound, Code: CodeUnknownRing, Detail: fmt.Sprintf("the application has no ring %s", r)}
}

// staleDetail tells why the ring cannot be answered any more.
func staleDetail(row *Alarm, r RingID) string {
	switch {
	case r.Generation < row.Generation:
		return fmt.Sprintf("the alarm was set anew: it has generation %d", row.Generation)
	case r.RingNo < row.RingNo:
		return fmt.Sprintf("the alarm has rung again: ring %d is the latest", row.RingNo)
	case row.Answer == NoAnswer:
		return fmt.Sprintf("the ring waits for no answer: the alarm is %s", row.State)
	}
	return fmt.Sprintf("the ring waits for no answer: the alarm is %s, the last answer was %s at %s", row.State, row.Answer, row.AnsweredAt)
}

// answered returns what an accepted answer makes of the row.
func answered(row Alarm, a *Answer, now Instant) Decision {
	row.Answer, row.AnsweredBy, row.AnsweredAt, row.UpdateTime = a.Kind, cut(a.By, maxBy), now, now
	d := Decision{Verdict: Amend}
	switch a.Kind {
	case Release:
		row.State, row.NextTryTime = Scheduled, now.Add(a.Delay.Span)
		if row.LatestRingAt != NoInstant && row.NextTryTime > row.LatestRingAt {
			row.NextTryTime = row.LatestRingAt
		}
		if a.Reason != "" {
			row.LastError = bounded("released: " + a.Reason)
		}
		d.Attempt = answerAttempt(&row, a, Released, now)
	case Bury:
		row.State, row.NextTryTime, row.FinishedAt, row.LastError = Dead, NoInstant, now, "buried"
		if a.Reason != "" {
			row.LastError = bounded("buried: " + a.Reason)
		}
		d.Attempt = answerAttempt(&row, a, Buried, now)
	case Touch:
		row.State, row.NextTryTime = Ringing, now.Add(a.more(&row))
	case Ack, NoAnswer:
		row.State, row.NextTryTime, row.FinishedAt = Rung, NoInstant, now
	}
	d.Alarm = row
	return d
}

func answerAttempt(row *Alarm, a *Answer, kind OutcomeKind, now Instant) *Attempt {
	return &Attempt{
		Generation: row.Generation, RingNo: row.RingNo, ClaimID: row.ClaimID, Time: now, Outcome: kind, Error: bounded(a.Reason), By: row.AnsweredBy,
	}
}
