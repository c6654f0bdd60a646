package clock

import (
	"cmp"
	"fmt"
)

// maxBy bounds answered_by, in bytes.
const maxBy = 128

// decideAnswer judges an answer to a ring. It accepts an answer to the latest ring while that ring waits for its
// acknowledgement, also after ack_timeout, as long as no claim has taken the alarm again, and if the alarm was paused
// meanwhile. It also accepts an answer to the ring in doubt of a scheduled alarm with ack_timeout, because the answer proves that the ring arrived.
func decideAnswer(row *Alarm, answer *Answer, now Instant) Decision {
	if row == nil || row.ID != answer.Ring.AlarmID || answer.Key.Application != row.Application {
		return refuseUnknownRing(row, answer.Ring)
	}
	latest, next := row.latestRing(), row.nextRing()
	switch {
	case answer.Ring == next && row.Claimed():
		return Decision{Verdict: Locked, Alarm: *row}
	case answer.Ring == next && row.State == Scheduled && row.InDoubt && row.AckTimeout > 0:
		proven := *row
		proven.RingNo, proven.InDoubt, proven.DoubtTarget, proven.RungAt = next.RingNo, false, NoTarget, now
		if proven.Progress.Repeats() {
			proven.Repetition().noteRing(&proven.RingRow)
		}
		return acceptAnswer(proven, answer, now)
	case answer.Ring == latest && (row.State == Ringing && !row.Claimed() || row.State == Paused && row.Progress.UnansweredUntil != 0):
		return acceptAnswer(*row, answer, now)
	case answer.Ring.Generation > row.Generation, answer.Ring.Generation == row.Generation &&
		answer.Ring.RingNo > next.RingNo,
		answer.Ring == next && !row.InDoubt:
		return refuseUnknownRing(row, answer.Ring)
	}
	return refuse(row, ErrConflict, CodeStaleRing, staleDetail(row, answer.Ring))
}

// refuseUnknownRing keeps the row out of the error, because the row may belong to another application.
func refuseUnknownRing(row *Alarm, ring RingID) Decision {
	d := Decision{Verdict: Refuse, Err: unknownRing(ring)}
	if row != nil {
		d.Alarm = *row
	}
	return d
}

func unknownRing(ring RingID) error {
	return &Error{Kind: ErrNotFound, Code: CodeUnknownRing, Detail: fmt.Sprintf("the application has no ring %s", ring)}
}

// staleDetail explains why the ring can no longer be answered.
func staleDetail(row *Alarm, ring RingID) string {
	switch {
	case ring.Generation < row.Generation:
		return fmt.Sprintf("the alarm was set again: it has generation %d", row.Generation)
	case ring.RingNo < row.RingNo && row.Repeat != nil && ring.RingNo <= row.Progress.RingsBefore:
		return fmt.Sprintf("the ring is over: the alarm goes on with occurrence %d", row.Progress.Current.Number)
	case ring.RingNo < row.RingNo:
		return fmt.Sprintf("the alarm has rung again: ring %d is the latest", row.RingNo)
	case row.Answer == NoAnswer:
		return fmt.Sprintf("the ring waits for no answer: the alarm is %s", row.State)
	}
	return fmt.Sprintf("the ring waits for no answer: the alarm is %s, the last answer was %s at %s", row.State,
		row.Answer, row.AnsweredAt)
}

// acceptAnswer returns the decision for an accepted answer. A paused alarm stays paused, unless it is over.
func acceptAnswer(row Alarm, answer *Answer, now Instant) Decision {
	paused, reason := row.State == Paused, row.pauseReason()
	row.Answer, row.AnsweredBy, row.AnsweredAt, row.UpdateTime = answer.Kind, cut(answer.By, maxBy), now, now
	d := Decision{Verdict: Amend}
	switch answer.Kind {
	case Release:
		row.State, row.NextTryTime = Scheduled, nextTry(now.Add(answer.Delay.Span), row.Latest(), now)
		if answer.Reason != "" {
			row.LastError = bounded("released: " + answer.Reason)
		}
		d.Attempt = answerAttempt(&row, answer, Released, now)
	case Bury:
		row.State, row.NextTryTime, row.FinishedAt, row.LastError = Dead, NoInstant, now, "buried"
		if answer.Reason != "" {
			row.LastError = bounded("buried: " + answer.Reason)
		}
		d.Attempt = answerAttempt(&row, answer, Buried, now)
	case Touch:
		row.State, row.NextTryTime = Ringing, now.Add(answer.extension(&row))
	case Ack, NoAnswer:
		row.State, row.NextTryTime, row.FinishedAt = Rung, NoInstant, now
	}
	if row.Progress.Repeats() && row.State.Over() {
		before := row.Progress.OccurrenceCounts
		row.Repetition().endOccurrence(&row.RingRow, true, now)
		d.Counted = row.Progress.Since(before)
	}
	switch {
	case paused && !row.State.Over():
		row.pause(now)
		row.LastError = cmp.Or(reason, row.LastError)
	case paused && row.LastError == reason:
		row.LastError = ""
	}
	d.Alarm = row
	return d
}

func answerAttempt(row *Alarm, answer *Answer, kind OutcomeKind, now Instant) *Attempt {
	return &Attempt{
		Generation: row.Generation, RingNo: row.RingNo, ClaimID: row.ClaimID, Time: now, Outcome: kind,
		Error: bounded(answer.Reason), By: row.AnsweredBy,
	}
}
