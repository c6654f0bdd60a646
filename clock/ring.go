package clock

import (
	"strconv"
	"strings"
	"time"
)

// Ring is one try to ring an alarm. A claim makes it from the alarm's row, and a target delivers it.
type Ring struct {
	AlarmID int64
	Key
	Shard        int
	Generation   int64
	RingNo       int // this ring's number: confirmed rings + 1
	RetryTimes   int
	RingAt       Instant
	LatestRingAt Instant
	RungAt       Instant // time of the claim
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
	InDoubt      bool // an earlier try with the same number has an unknown outcome
}

// ID returns the ring's id.
func (r *Ring) ID() RingID {
	return RingID{AlarmID: r.AlarmID, Generation: r.Generation, RingNo: r.RingNo}
}

// MessageID returns "<alarm id>.<generation>.<ring_no>". All copies of one ring have the same message id, and no other ring has it.
func (r *Ring) MessageID() string {
	return r.ID().String()
}

// OutcomeKind is the outcome of one try. The numbers are stored with attempts.
type OutcomeKind int8

// The outcomes of a try. A counted outcome is a failed try: it uses up one retry.
const (
	Confirmed OutcomeKind = 1 // the target has the ring
	Returned  OutcomeKind = 2 // no queue is bound for the application; counted
	Nacked    OutcomeKind = 3 // the broker or the receiver did not accept the ring; counted
	Doubtful  OutcomeKind = 4 // handed over, outcome unknown; not counted, the same ring is tried again
	Refused   OutcomeKind = 5 // the target cannot take this message at all; counted
	Unsent    OutcomeKind = 6 // no byte of the ring left this process; not counted, as if never tried
	Untaken   OutcomeKind = 7 // as Unsent, because this application's receiver takes no rings while others do

	// Outcomes of a confirmed ring that waited for its acknowledgement. They are kept with the attempts.
	Released       OutcomeKind = 8  // answered with release
	Buried         OutcomeKind = 9  // answered with bury
	Unacknowledged OutcomeKind = 10 // not answered in time
)

// NotSent reports whether no byte of the ring left this process: the ring is as if never tried.
func (k OutcomeKind) NotSent() bool { return k == Unsent || k == Untaken }

var outcomeNames = [...]string{
	Confirmed: "confirmed", Returned: "returned", Nacked: "nacked", Doubtful: "in_doubt", Refused: "refused", Unsent: "unsent",
	Untaken: "untaken", Released: "released", Buried: "buried", Unacknowledged: "unacknowledged",
}

// OutcomeKinds returns all outcomes of a try in the order of their numbers.
func OutcomeKinds() []OutcomeKind {
	return []OutcomeKind{Confirmed, Returned, Nacked, Doubtful, Refused, Unsent, Untaken}
}

// String returns the outcome's name, as metrics, reports and responses use it.
func (k OutcomeKind) String() string {
	if k < Confirmed || k > Unacknowledged {
		return "outcome(" + strconv.Itoa(int(k)) + ")"
	}
	return outcomeNames[k]
}

// MarshalText writes the outcome's name.
func (k OutcomeKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Outcome is the outcome of one try, with the reason unless it is Confirmed.
type Outcome struct {
	Kind   OutcomeKind
	Reason string
}

// Fate is an alarm's state after its ring is settled. A store writes it to the row.
type Fate struct {
	Outcome     Outcome
	State       State
	NextTryTime Instant
	RetryTimes  int
	LastError   string // empty: the stored last_error stays
	InDoubt     bool
	FinishedAt  Instant
}

// MaxReason is the longest last_error, in bytes.
const MaxReason = 500

// Settle returns the fate of a ring's alarm after the try; now is the database's time after the try. Doubtful, unsent and untaken
// rings are due again at once, and ring as soon as the target is usable. The next try never lies beyond LatestRingAt. Once
// LatestRingAt has passed, the next try is now, and the next claim ends the alarm as expired. With AtMostOnce a ring that may have
// arrived is not tried again: its alarm is rung, in doubt.
func Settle(ring *Ring, outcome Outcome, now Instant) Fate {
	fate := Fate{Outcome: outcome, State: Scheduled, RetryTimes: ring.RetryTimes, InDoubt: ring.InDoubt, FinishedAt: NoInstant}
	fate.LastError = bounded(outcome.Reason)
	switch {
	case outcome.Kind == Confirmed:
		fate.InDoubt = false
		fate.State, fate.NextTryTime, fate.FinishedAt = Rung, NoInstant, ring.RungAt
		if ring.AckTimeout > 0 {
			fate.State, fate.NextTryTime, fate.FinishedAt = Ringing, ring.RungAt.Add(ring.AckTimeout), NoInstant
		}
	case ring.Delivery == AtMostOnce && outcome.mayHaveArrived():
		fate.State, fate.NextTryTime, fate.FinishedAt, fate.InDoubt = Rung, NoInstant, ring.RungAt, true
	case outcome.Kind == Doubtful:
		fate.InDoubt = true
		fate.NextTryTime = now
	case outcome.Kind.NotSent():
		fate.NextTryTime = now
	default:
		fate.RetryTimes++
		if ring.Retry.Exhausted(fate.RetryTimes) {
			fate.State, fate.NextTryTime, fate.FinishedAt = Dead, NoInstant, now
			return fate
		}
		fate.NextTryTime = now.Add(ring.Retry.draw(fate.RetryTimes))
	}
	if fate.State == Scheduled {
		fate.NextTryTime = nextTry(fate.NextTryTime, ring.LatestRingAt, now)
	}
	return fate
}

// nextTry returns at, but not after latest (unless that is NoInstant) and never before now.
func nextTry(at, latest, now Instant) Instant {
	if latest != NoInstant {
		at = min(at, latest)
	}
	return max(at, now)
}

// mayHaveArrived reports whether the receiver may have the ring although it was not confirmed. A broker may nack a message after it
// has put the message into a queue.
func (o Outcome) mayHaveArrived() bool {
	return o.Kind == Doubtful || o.Kind == Nacked || o.Kind == Refused
}

// bounded cuts s to MaxReason bytes, see cut.
func bounded(s string) string { return cut(s, MaxReason) }

// cut cuts s to the limit, in bytes, and removes invalid UTF-8 and NUL, which not every engine stores.
func cut(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}
