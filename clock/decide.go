package clock

import (
	"fmt"
	"time"
)

// lockRetryAfter is longer than a ring's transaction usually takes.
const lockRetryAfter = time.Second

// Decide judges an op against the row of its key, nil if there is none. It defines the whole effect of every op, for
// every engine. now is the database's time. A set must have its delay resolved, and an answer must have its key.
//
// A row that cannot be read would lose what is unknown of it. So only an op that replaces or ends its alarm changes it.
func (o Op) Decide(row *Alarm, now Instant) Decision {
	if row != nil && row.Unreadable != "" && o.Set == nil && o.Cancel == nil && o.Discard == nil && o.Recompute == nil {
		return refuse(row, ErrConflict, CodeUnreadable, row.Unreadable+"; set, cancel or discard the alarm")
	}
	switch {
	case o.Set != nil:
		return decideSet(row, o.Set.scheduled(row, now), now)
	case o.Cancel != nil:
		return decideCancel(row, o.Cancel, now)
	case o.Answer != nil:
		return decideAnswer(row, o.Answer, now)
	case o.Resend != nil:
		return decideResend(row, o.Resend, now)
	case o.Kick != nil:
		return decideKick(row, o.Kick, now)
	case o.Discard != nil:
		return decideDiscard(row, o.Discard, now)
	case o.Pause != nil:
		return decidePause(row, o.Pause, o.pauseReason(), now)
	case o.Resume != nil:
		return decideResume(row, o.Resume, now)
	case o.Trigger != nil:
		return decideTrigger(row, o.Trigger, now)
	case o.Backfill != nil:
		return decideBackfill(row, o.Backfill, now)
	case o.EndBackfill != nil:
		return decideEndBackfill(row, o.EndBackfill, now)
	case o.Shift != nil:
		return decideShift(row, o.Shift, now)
	default:
		return decideRecompute(row, o.Recompute, now)
	}
}

func decideSet(row *Alarm, set *Set, now Instant) Decision {
	if row == nil {
		if set.If.Kind == AtGeneration {
			return refuse(nil, ErrPrecondition, CodeConditionFailed,
				"there is no alarm, so it does not have the generation asked for")
		}
		if set.neverRings(now) {
			return refuseEnded(nil, set)
		}
		if full := set.takeRoom(); full != nil {
			return Decision{Verdict: Refuse, Err: full}
		}
		return Decision{Verdict: Create, Alarm: armed(nil, set, now)}
	}
	if set.Room != nil && !row.State.Over() {
		set.Room.GiveBack()
	}
	if d, done := decideCondition(row, set); done {
		return d
	}
	same := row.Same(&set.Content) || row.State.Over() && set.sameBesidesDefaults(row)
	switch {
	case same && row.State != Cancelled:
		return Decision{Verdict: Keep, Alarm: *row}
	case row.Claimed():
		return Decision{Verdict: Locked, Alarm: *row}
	case row.InDoubt && !row.State.Over():
		return refuseInDoubt(row)
	case set.neverRings(now):
		return refuseEnded(row, set)
	case row.State.Over():
		if full := set.takeRoom(); full != nil {
			return Decision{Verdict: Refuse, Alarm: *row, Err: full}
		}
		return Decision{Verdict: Rearm, Alarm: armed(row, set, now)}
	default:
		return Decision{Verdict: Replace, Alarm: armed(row, set, now), RepeatEnded: row.Repeat != nil && set.Repeat == nil}
	}
}

// takeRoom takes the room for a pending alarm. It returns why there is none, else nil.
func (s *Set) takeRoom() *Error {
	if s.Room == nil {
		return nil
	}
	return s.Room.Take()
}

// decideCondition judges a set's condition against an existing row. done is false if the condition does not decide the
// set.
func decideCondition(row *Alarm, set *Set) (d Decision, done bool) {
	switch set.If.Kind {
	case Absent:
		return refuse(row, ErrPrecondition, CodeConditionFailed, fmt.Sprintf("the alarm exists: it is %s", row.State)), true
	case Earlier, Later:
		if row.State != Scheduled && row.State != Paused {
			return Decision{}, false
		}
		if set.RingAt == row.RingAt {
			return Decision{Verdict: Keep, Alarm: *row}, true
		}
		if (set.RingAt < row.RingAt) != (set.If.Kind == Earlier) {
			return refuse(row, ErrPrecondition, CodeConditionFailed,
				fmt.Sprintf("the alarm is set to %s, and %s is not %s",
					row.RingAt, set.RingAt, set.If.Kind)), true
		}
	case AtGeneration:
		if row.Generation == set.If.Generation+1 && set.sameBesidesDefaults(row) {
			return Decision{Verdict: Keep, Alarm: *row}, true // a repeat of the caller's own set
		}
		if row.Generation != set.If.Generation {
			return refuseGeneration(row, set.If.Generation), true
		}
	case AnyRow:
	}
	return Decision{}, false
}

// armed returns the row after the set; row is the row before it, nil if there is none. An alarm that is set for the
// past is due now. next_try_time never lies before the write, so a read of the last seconds of the due index finds
// every recent write.
func armed(row *Alarm, set *Set, now Instant) Alarm {
	a := Alarm{
		Key: set.Key, Generation: 1, Content: set.Content, Traceparent: set.Traceparent, AnsweredAt: NoInstant,
		CreateTime: now,
		RingRow: RingRow{
			State: Scheduled, NextTryTime: max(set.RingAt, now), RungAt: NoInstant, UpdateTime: now,
			FinishedAt: NoInstant,
		},
	}
	if row != nil {
		a.Generation = row.Generation + 1
	}
	if repetition := RepetitionOf(set.Repeat, a.Key, a.Generation); set.Repeat != nil {
		a.Progress, _ = repetition.first(now)
		a.RingAt = repetition.RingAt(a.Progress.Current)
		a.NextTryTime = max(a.RingAt, now)
	}
	if row == nil {
		return a
	}
	a.ID, a.Shard, a.CreateTime, a.Past = row.ID, row.Shard, row.CreateTime, row.Past.with(row, now)
	if row.State == Paused {
		a.State, a.NextTryTime, a.LastError = Paused, NoInstant, row.pauseReason()
	}
	return a
}

func decideCancel(row *Alarm, cancel *Cancel, now Instant) Decision {
	if d, refused := refuseUnmet(row, cancel.Key, cancel.If); refused {
		return d
	}
	switch {
	case row.State == Cancelled:
		return Decision{Verdict: Keep, Alarm: *row}
	case row.State.Over():
		return refuseOver(row)
	}
	if d, done := decideStop(row); done {
		return d
	}
	a := *row
	a.State, a.NextTryTime, a.UpdateTime, a.FinishedAt = Cancelled, NoInstant, now, now
	return Decision{Verdict: Disarm, Alarm: a, Unscheduled: row.NextTryTime != NoInstant}
}

// LockTimeoutError returns the refusal of an op whose row stayed locked, by another transaction or a two-phase claim,
// for as long as the op may wait. row is the row as far as it could be read.
func (o Op) LockTimeoutError(row *Alarm) error {
	detail := "the alarm is being rung now, and the outcome is not known in time; repeat the request" // a held claim, or another write, has locked the row
	switch {
	case row != nil && row.ID == 0:
		detail = "another transaction on the database has inserted the alarm and has not ended yet; repeat the request"
	case row == nil || !row.Claimed():
	case o.Answer != nil, o.Resend != nil: // the sender of an answer knows that the ring arrived
		detail = "the ring is not yet known as delivered; repeat the request"
	default: // a two-phase claim has taken the row: its ring may have been handed over
		return refuseInDoubt(row).Err
	}
	return &Error{Kind: ErrUnavailable, Code: CodeUnavailable, RetryAfter: lockRetryAfter, Detail: detail,
		Cause: ErrRowLocked}
}

// refuseEnded refuses a set whose rule has no occurrence left.
func refuseEnded(row *Alarm, set *Set) Decision {
	if set.Repeat.Spec().Until == 0 {
		return refuseField(row, ErrInvalid, CodeInvalidValue, "repeat.cron", "the expression has no occurrence from now on")
	}
	return refuseField(row, ErrInvalid, CodeOutOfRange, "repeat.until",
		"the rule has no occurrence from now on until repeat.until")
}

// refuseUnmet refuses an op for an alarm that does not exist, or does not meet its condition.
func refuseUnmet(row *Alarm, key Key, condition Condition) (d Decision, refused bool) {
	switch {
	case row == nil:
		return refuseUnknown(key), true
	case !condition.meets(row):
		return refuseGeneration(row, condition.Generation), true
	}
	return Decision{}, false
}

func refuseUnknown(key Key) Decision {
	return Decision{Verdict: Refuse, Err: UnknownAlarm(key)}
}

// refuseOver refuses an op on a rung, expired or dead alarm.
func refuseOver(row *Alarm) Decision {
	code, detail := CodeAlreadyRung, "the alarm has rung"
	if row.State == Expired {
		code, detail = CodeAlreadyExpired, "the alarm has expired: "+row.LastError
	}
	if row.State == Dead {
		code, detail = CodeAlreadyDead, "the alarm is dead: "+row.LastError
	}
	if row.Repeat != nil {
		detail += "; it was its last occurrence, and a set with other content begins again"
	}
	return refuse(row, ErrConflict, code, detail)
}

// decideInFlight judges an op on an unfinished alarm whose ring may have arrived: it waits for the outcome, or is
// refused. done is false if no ring may have arrived.
func decideInFlight(row *Alarm) (d Decision, done bool) {
	if row.Unacknowledged() {
		return refuse(row, ErrConflict, CodeAlreadyRung, "the alarm was handed over and waits for its acknowledgement"), true
	}
	return decideUnknownOutcome(row)
}

// decideStop judges a cancel or a pause of an unfinished alarm: as decideInFlight, but the ring of a repeating alarm
// that waits for its acknowledgement leaves the other occurrences to stop.
func decideStop(row *Alarm) (d Decision, done bool) {
	if row.Repeat != nil || row.Unreadable != "" { // which may repeat
		return decideUnknownOutcome(row)
	}
	return decideInFlight(row)
}

// decideUnknownOutcome judges an op on an alarm whose last ring has no known outcome, as decideInFlight does.
func decideUnknownOutcome(row *Alarm) (d Decision, done bool) {
	switch {
	case row.Claimed():
		return Decision{Verdict: Locked, Alarm: *row}, true
	case row.InDoubt:
		return refuseInDoubt(row), true
	}
	return Decision{}, false
}

func refuseInDoubt(row *Alarm) Decision {
	return refuse(row, ErrConflict, CodeRingInDoubt,
		"a ring of the alarm was handed over, and its outcome is unknown: it may have arrived")
}

func refuseGeneration(row *Alarm, demanded int64) Decision {
	return refuse(row, ErrPrecondition, CodeConditionFailed,
		fmt.Sprintf("the alarm has generation %d, not %d", row.Generation, demanded))
}

func refuse(row *Alarm, kind error, code, detail string) Decision {
	return refuseField(row, kind, code, "", detail)
}

// refuseField refuses an op because of a field of its request.
func refuseField(row *Alarm, kind error, code, field, detail string) Decision {
	e := &Error{Kind: kind, Code: code, Field: field, Detail: detail}
	d := Decision{Verdict: Refuse, Err: e}
	if row != nil {
		d.Alarm = *row
		current := *row
		e.Alarm = &current
	}
	return d
}
