package clock

import (
	"strconv"
	"strings"
	"time"
)

// Ring is one try to ring an alarm, as a claim took it and as a target delivers it.
type Ring struct {
	AlarmID int64
	Key
	Shard        int
	Generation   int64
	RingNo       int // the number this ring bears: confirmed rings + 1
	RetryTimes   int
	RingAt       Instant
	LatestRingAt Instant
	RungAt       Instant // when it was claimed
	ClaimID      string
	Payload      []byte
	PayloadKind  PayloadKind
	ContentType  string
	Retry        RetryPolicy
	AckTimeout   time.Duration
	MaxRings     int
	Priority     int
	Delivery     DeliveryMode
	Traceparent  string
	InDoubt      bool // a try before this one, of the same number, has no known outcome
}

// ID returns the ring's name.
func (r *Ring) ID() RingID {
	return RingID{AlarmID: r.AlarmID, Generation: r.Generation, RingNo: r.RingNo}
}

// MessageID returns "<id>.<generation>.<ring_no>": the same for every copy of one ring, never used for another.
func (r *Ring) MessageID() string {
	return r.ID().String()
}

// OutcomeKind is what became of one try. The numbers are stored with attempts.
type OutcomeKind int8

// The outcomes.
const (
	Confirmed OutcomeKind = 1 // the target has it
	Returned  OutcomeKind = 2 // no queue is bound for the application: counted
	Nacked    OutcomeKind = 3 // the broker or the receiver refused it: counted
	Doubtful  OutcomeKind = 4 // handed over, no answer: not counted, the same ring again
	Refused   OutcomeKind = 5 // the target cannot take this message at all: counted
	Unsent    OutcomeKind = 6 // no byte of it left this process: as if never tried
	Untaken   OutcomeKind = 7 // as Unsent, because its receiver, and only that one, does not take rings up

	// Not of a try, but of a confirmed ring that waited for its acknowledgement; kept with the attempts.
	Released       OutcomeKind = 8  // answered: ring again later
	Buried         OutcomeKind = 9  // answered: dead
	Unacknowledged OutcomeKind = 10 // not answered in time
)

var outcomeNames = [...]string{
	Confirmed: "confirmed", Returned: "returned", Nacked: "nacked", Doubtful: "in_doubt", Refused: "refused", Unsent: "unsent",
	Untaken: "untaken", Released: "released", Buried: "buried", Unacknowledged: "unacknowledged",
}

// OutcomeKinds returns all outcomes of a try in the order of their numbers.
func OutcomeKinds() []OutcomeKind {
	return []OutcomeKind{Confirmed, Returned, Nacked, Doubtful, Refused, Unsent, Untaken}
}

// String returns the outcome's name as metrics, reports and answers use it.
func (k OutcomeKind) String() string {
	if k < Confirmed || k > Unacknowledged {
		return "outcome(" + strconv.Itoa(int(k)) + ")"
	}
	return outcomeNames[k]
}

// MarshalText writes the outcome's name.
func (k OutcomeKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Outcome is what became of one try, with the reason where it is not Confirmed.
type Outcome struct {
	Kind   OutcomeKind
	Reason string
}

// Fate is how an alarm leaves a claim: what a store writes to its row.
type Fate struct {
	Outcome     Outcome
	State       State
	NextTryTime Instant
	RetryTimes  int
	LastError   string // empty: what is stored stays
	InDoubt     bool
	FinishedAt  Instant
}

// MaxReason bounds last_error, in bytes.
const MaxReason = 500

// Settle returns the fate of a ring after its try; now is the database's time after it. Doubtful and unsent rings are
// due again at once, as soon as the target is usable. The next try never lies beyond LatestRingAt, even when that has passed:
// the next claim then ends the alarm as expired. A ring of AtMostOnce that may have arrived is over, in doubt, and never tried
// again.
func Settle(r *Ring, o Outcome, now Instant) Fate {
	f := Fate{Outcome: o, State: Scheduled, RetryTimes: r.RetryTimes, InDoubt: r.InDoubt, FinishedAt: NoInstant}
	f.LastError = bounded(o.Reason)
	switch {
	case o.Kind == Confirmed:
		f.InDoubt = false
		f.State, f.NextTryTime, f.FinishedAt = Rung, NoInstant, r.RungAt
		if r.AckTimeout > 0 {
			f.State, f.NextTryTime, f.FinishedAt = Ringing, r.RungAt.Add(r.AckTimeout), NoInstant
		}
	case r.Delivery == AtMostOnce && o.mayHaveArrived():
		f.State, f.NextTryTime, f.FinishedAt, f.InDoubt = Rung, NoInstant, r.RungAt, true
	case o.Kind == Doubtful:
		f.InDoubt = true
		f.NextTryTime = now
	case o.Kind == Unsent, o.Kind == Untaken:
		f.NextTryTime = now
	default:
		f.RetryTimes++
		if r.Retry.Exhausted(f.RetryTimes) {
			f.State, f.NextTryTime, f.FinishedAt = Dead, NoInstant, now
			return f
		}
		f.NextTryTime = now.Add(r.Retry.draw(f.RetryTimes))
	}
	if r.LatestRingAt != NoInstant && f.NextTryTime > r.LatestRingAt && f.State == Scheduled {
		f.NextTryTime = r.LatestRingAt
	}
	return f
}

// mayHaveArrived reports whether the receiver may have the ring although nobody confirmed it: a broker may refuse a message
// after it gave it to a queue.
func (o Outcome) mayHaveArrived() bool {
	return o.Kind == Doubtful || o.Kind == Nacked || o.Kind == Refused
}

// bounded cuts s to MaxReason bytes of valid UTF-8 without NUL, which not every engine stores.
func bounded(s string) string { return cut(s, MaxReason) }

// cut is bounded for any limit, in bytes.
func cut(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}
