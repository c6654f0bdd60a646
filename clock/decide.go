package clock

import (
	"fmt"
	"time"
)

// heldRetryAfter is longer than a ring transaction without trouble.
const heldRetryAfter = time.Second

// Decide judges an op against the row of its key, nil if there is none. It is the whole meaning of every op, the same
// for every engine. now is the database's time; a Set's delay must have been resolved, an Answer's key found.
func (o Op) Decide(row *Alarm, now Instant) Decision {
	switch {
	case o.Set != nil:
		return decideSet(row, o.Set, now)
	case o.Cancel != nil:
		return decideCancel(row, o.Cancel, now)
	case o.Answer != nil:
		return decideAnswer(row, o.Answer, now)
	case o.Kick != nil:
		return decideKick(row, o.Kick, now)
	default:
		return decideDiscard(row, o.Discard, now)
	}
}

func decideSet(row *Alarm, s *Set, now Instant) Decision {
	if row == nil {
		if s.If.Kind == AtGeneration {
			return refuse(nil, ErrPrecondition, CodeConditionFailed, "there is no alarm, so it does not have the generation asked for")
		}
		return Decision{Verdict: Create, Alarm: armed(nil, s, now)}
	}
	if d, done := decideCondition(row, s); done {
		return d
	}
	same := row.Same(&s.Content)
	switch {
	case same && row.State != Cancelled:
		return Decision{Verdict: Keep, Alarm: *row}
	case row.Claimed():
		return Decision{Verdict: Wait, Alarm: *row}
	case row.InDoubt && !row.State.Over():
		return refuseInDoubt(row)
	case row.State.Over():
		return Decision{Verdict: Rearm, Alarm: armed(row, s, now)}
	default:
		return Decision{Verdict: Replace, Alarm: armed(row, s, now)}
	}
}

// decideCondition judges a set's condition against an existing row; done is false when the set goes on without it.
func decideCondition(row *Alarm, s *Set) (d Decision, done bool) {
	switch s.If.Kind {
	case Absent:
		return refuse(row, ErrPrecondition, CodeConditionFailed, fmt.Sprintf("the alarm exists: it is %s", row.State)), true
	case Earlier, Later:
		if row.State != Scheduled && row.State != Paused {
			return Decision{}, false
		}
		if s.RingAt == row.RingAt {
			return Decision{Verdict: Keep, Alarm: *row}, true
		}
		if (s.RingAt < row.RingAt) != (s.If.Kind == Earlier) {
			return refuse(row, ErrPrecondition, CodeConditionFailed, fmt.Sprintf("the alarm is set to %s, and %s is not %s",
				row.RingAt, s.RingAt, s.If.Kind)), true
		}
	case AtGeneration:
		if row.Generation == s.If.Generation+1 && row.Same(&s.Content) {
			return Decision{Verdict: Keep, Alarm: *row}, true // the caller's own set, repeated
		}
		if row.Generation != s.If.Generation {
			return refuseGeneration(row, s.If.Generation), true
		}
	case AnyRow:
	}
	return Decision{}, false
}

// String returns the condition as a set's "if" names it.
func (k ConditionKind) String() string {
	return [...]string{AnyRow: "", Absent: "absent", Earlier: "earlier", Later: "later", AtGeneration: "generation"}[k]
}

// armed returns the row that s makes of row, or of nothing.
func armed(row *Alarm, s *Set, now Instant) Alarm {
	a := Alarm{
		Key: s.Key, State: Scheduled, Generation: 1, Content: s.Content, Traceparent: s.Traceparent,
		NextTryTime: s.RingAt, AnsweredAt: NoInstant, RungAt: NoInstant, CreateTime: now, UpdateTime: now, FinishedAt: NoInstant,
	}
	if row == nil {
		return a
	}
	a.ID, a.Shard, a.CreateTime = row.ID, row.Shard, row.CreateTime
	a.Generation = row.Generation + 1
	if row.State == Paused {
		a.State, a.NextTryTime = Paused, NoInstant
	}
	return a
}

func decideCancel(row *Alarm, c *Cancel, now Instant) Decision {
	if row == nil {
		return refuseUnknown(c.Key)
	}
	if !c.If.meets(row) {
		return refuseGeneration(row, c.If.Generation)
	}
	switch {
	case row.State == Cancelled:
		return Decision{Verdict: Keep, Alarm: *row}
	case row.State == Expired:
		return refuse(row, ErrConflict, CodeAlreadyExpired, "the alarm expired before it could be rung")
	case row.State == Dead:
		return refuse(row, ErrConflict, CodeAlreadyDead, "the alarm is dead: "+row.LastError)
	case row.State == Rung:
		return refuse(row, ErrConflict, CodeAlreadyRung, "the alarm has rung")
	case row.Claimed():
		return Decision{Verdict: Wait, Alarm: *row}
	case row.State == Ringing:
		return refuse(row, ErrConflict, CodeAlreadyRung, "the alarm was handed over and waits for its acknowledgement")
	case row.InDoubt:
		return refuseInDoubt(row)
	}
	a := *row
	a.State, a.NextTryTime, a.UpdateTime, a.FinishedAt = Cancelled, NoInstant, now, now
	return Decision{Verdict: Stop, Alarm: a}
}

// Held returns the refusal of an op whose row a claim held for as long as it was ready to wait.
func (o Op) Held(row *Alarm) error {
	switch {
	case row == nil || !row.Claimed():
	case o.Answer != nil: // whose sender knows that the ring arrived
		return &Error{
			Kind: ErrUnavailable, Code: CodeUnavailable, RetryAfter: heldRetryAfter,
			Detail: "the ring is not yet known as delivered; repeat the answer",
		}
	default:
		return refuseInDoubt(row).Err
	}
	return &Error{
		Kind: ErrUnavailable, Code: CodeUnavailable, RetryAfter: heldRetryAfter,
		Detail: "the alarm is being rung right now and the outcome took too long; repeat the request",
	}
}

func refuseUnknown(k Key) Decision {
	return refuse(nil, ErrNotFound, CodeUnknownAlarm, fmt.Sprintf("application %q has no alarm %q", k.Application, k.BusinessID))
}

func refuseInDoubt(row *Alarm) Decision {
	return refuse(row, ErrConflict, CodeRingInDoubt, "a ring of the alarm was handed over without an answer: it may have arrived")
}

func refuseGeneration(row *Alarm, want int64) Decision {
	return refuse(row, ErrPrecondition, CodeConditionFailed, fmt.Sprintf("the alarm has generation %d, not %d", row.Generation, want))
}

func refuse(row *Alarm, kind error, code, detail string) Decision {
	e := &Error{Kind: kind, Code: code, Detail: detail}
	d := Decision{Verdict: Refuse, Err: e}
	if row != nil {
		d.Alarm = *row
		stands := *row
		e.Alarm = &stands
	}
	return d
}
