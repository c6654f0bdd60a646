package clock

import (
	"time"

	"github.com/clockd/clockd/clock/repeat"
)

// Ring is one try to ring an alarm. A claim makes it from the alarm's row, and a target delivers it.
type Ring struct {
	AlarmID int64
	Key
	Shard        int
	Generation   int64
	RingNo       int // this ring's number: confirmed rings + 1
	RingAt       Instant
	LatestRingAt Instant // like RingAt, of the occurrence if the alarm repeats
	RungAt       Instant // time of the claim
	ClaimID      string
	Message      *Message // that an alarm of MessagePayload holds; else nil
	Payload      []byte   // with a Message its body
	PayloadKind  PayloadKind
	ContentType  string
	Retry        RetryPolicy
	AckTimeout   time.Duration
	MaxRings     int
	Priority     int
	Delivery     DeliveryMode
	Traceparent  string
	NamedTarget  TargetKind  // target that the alarm names; NoTarget: it names none
	Destination  int         // number of the destination that the alarm names, or of its own receiver; 0: it names none
	Own          OwnReceiver // what the alarm brings of its receiver itself
	Target       TargetKind  // where this try goes; NoTarget: not known
	Repetition   Repetition  // of a repeating alarm; else zero
	Before       RingRow     // the row as the claim found it, with the occurrence that the claim chose
}

// SetPayload sets the payload from a row. If it is a message, Payload is the body of the message, and its kind is
// Binary. If a message cannot be unpacked, the ring keeps the kind MessagePayload, without a Message.
func (r *Ring) SetPayload(kind PayloadKind, payload []byte) error {
	r.Message, r.Payload, r.PayloadKind = nil, payload, kind
	if kind != MessagePayload {
		return nil
	}
	var err error
	if r.Message, err = UnpackMessage(payload); err != nil {
		return err
	}
	r.Payload, r.PayloadKind = r.Message.Body, Binary
	return nil
}

// Occurrence returns the occurrence that rings. It is zero if the alarm rings once, and for a triggered ring. The
// occurrence of a backfill has a time, but no number.
func (r *Ring) Occurrence() repeat.Occurrence {
	p := &r.Before.Progress
	switch {
	case p.Backfill.Rings:
		return repeat.Occurrence{At: p.Backfill.At}
	case p.TriggeredAt != 0:
		return repeat.Occurrence{}
	}
	return p.Current
}

// OccurrencesBeside returns the times of the occurrences before and after the one that rings, as Repetition.Beside does.
func (r *Ring) OccurrencesBeside() (previous, next Instant) {
	p := &r.Before.Progress
	if !p.Backfill.Rings {
		return r.Repetition.Beside(p)
	}
	next = NoInstant
	if following, ok := r.Repetition.afterBackfilled(&p.Backfill); ok {
		next = Instant(following.At)
	}
	return instantOrNone(r.Repetition.Rule.Previous(p.Backfill.At)), next
}

// OccurrenceNames are a target's names for the numbers of an occurrence.
type OccurrenceNames struct {
	Number, At, PreviousAt, NextAt string
}

// EachOccurrenceNumber calls do with what a ring says of its occurrence: its number, its time, and the times of the
// occurrences before and after it, in milliseconds since the epoch. It leaves out the absent ones: all of them for an
// alarm that rings once and for a triggered ring, the number for a backfill.
func (r *Ring) EachOccurrenceNumber(names *OccurrenceNames, do func(name string, n int64)) {
	o := r.Occurrence()
	if o.At == 0 {
		return
	}
	if o.Number != 0 {
		do(names.Number, o.Number)
	}
	do(names.At, o.At)
	previous, next := r.OccurrencesBeside()
	if previous != NoInstant {
		do(names.PreviousAt, int64(previous))
	}
	if next != NoInstant {
		do(names.NextAt, int64(next))
	}
}

// Untried returns the row as if the claim had not been. Of a repeating alarm the missed occurrences stay counted, and
// the next claim decides again which occurrence rings, unless occurrences after the current one have been skipped for
// it.
func (r *Ring) Untried() RingRow {
	row := r.Before
	row.undecide()
	return row
}

// Receiver returns the ring's receiver, as ReceiverOf does.
func (r *Ring) Receiver() string { return ReceiverOf(r.Application, r.Destination) }

// RetryTimes returns the number of failed tries before this one.
func (r *Ring) RetryTimes() int { return r.Before.RetryTimes }

// FirstTry reports whether this is the first try of the alarm, or of its current occurrence. Its lateness shows how
// punctual clockd is.
func (r *Ring) FirstTry() bool {
	return r.RingNo == r.Before.Progress.RingsBefore+1 && !r.Before.begun()
}

// InDoubt reports whether an earlier try with the same number has an unknown outcome.
func (r *Ring) InDoubt() bool { return r.Before.InDoubt || r.Before.Claimed() }

// ID returns the ring's id.
func (r *Ring) ID() RingID {
	return RingID{AlarmID: r.AlarmID, Generation: r.Generation, RingNo: r.RingNo}
}

// MessageID returns "<alarm id>.<generation>.<ring_no>". All copies of one ring have the same message id, and no other
// ring has it.
func (r *Ring) MessageID() string {
	return r.ID().String()
}

// removedReason is the reason of rings whose destination was removed.
const removedReason = "the settings of the application no longer have the destination that the alarm names"

// NoReceiver returns the outcome of a ring whose receiver the settings of its application do not name. missing tells
// what they lack, such as "endpoint". Alarms that name no destination wait. Others are dead after a second try: at the
// first one this process may not know yet that the destination was made again.
func NoReceiver(r *Ring, missing string) Outcome {
	if r.Destination == 0 {
		return Outcome{Kind: Unsent, Reason: "the application has no " + missing}
	}
	return Withdrawn(r, removedReason)
}

// Withdrawn returns the outcome of a ring to a receiver that the settings of its application do not have any more. The
// reason says so, in the same words at each try. The second try ends the alarm; see NoReceiver. A try after a kick is a
// first one again.
func Withdrawn(r *Ring, reason string) Outcome {
	isSecond := r.Before.LastError == reason && r.RungAt >= r.Before.UpdateTime.Add(withdrawnRetry)
	return Outcome{Kind: Nacked, Reason: reason, Withdrawn: true, RetryAfter: withdrawnRetry, Final: isSecond}
}

// withdrawnRetry is the time before the second try: longer than settings take to reach every node.
const withdrawnRetry = 2 * time.Second
