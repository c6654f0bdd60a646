package clock

import (
	"strconv"
	"strings"
	"time"
)

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
	Unacknowledged OutcomeKind = 10 // not answered in time; as an outcome of a claim: no ring is left, so the alarm is dead

	// Outcomes of a claim that ends the alarm without a ring. They are never stored.
	TooLate    OutcomeKind = 11 // latest_ring_at has passed
	Unreadable OutcomeKind = 12 // the row cannot be read; its attempt is stored as Refused

	// Awaited is no end of a try. The ring was handed over, its reply is late, and the target may still reply. Never
	// stored.
	Awaited OutcomeKind = 13
)

// NotSent reports whether no byte of the ring left this process: the ring is as if never tried.
func (k OutcomeKind) NotSent() bool { return k == Unsent || k == Untaken }

var outcomeNames = [...]string{
	Confirmed: "confirmed", Returned: "returned", Nacked: "nacked", Doubtful: "in_doubt", Refused: "refused",
	Unsent: "unsent", Untaken: "untaken", Released: "released", Buried: "buried", Unacknowledged: "unacknowledged",
	TooLate: "too_late", Unreadable: "unreadable", Awaited: "awaited",
}

// OutcomeKinds returns all outcomes that end a try, in the order of their numbers.
func OutcomeKinds() []OutcomeKind {
	return []OutcomeKind{Confirmed, Returned, Nacked, Doubtful, Refused, Unsent, Untaken}
}

// String returns the outcome's name, as metrics, reports and responses use it.
func (k OutcomeKind) String() string {
	if k < Confirmed || k > Awaited {
		return "outcome(" + strconv.Itoa(int(k)) + ")"
	}
	return outcomeNames[k]
}

// MarshalText writes the outcome's name.
func (k OutcomeKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Outcome is the outcome of one try, with the reason unless it is Confirmed. Targets whose receivers reply to each ring
// themselves fill in the other fields.
type Outcome struct {
	Kind   OutcomeKind
	Reason string
	// Acknowledged says that the reply to a Confirmed ring is also its acknowledgement: the alarm is rung, although it
	// has an AckTimeout.
	Acknowledged bool
	// Final says that the receiver of a Nacked ring wants no further try: the alarm is dead.
	Final bool
	// Withdrawn says that the settings have no receiver for a Nacked ring: no byte of it left this process, and the try
	// uses up no retry. The next one comes after RetryAfter.
	Withdrawn bool
	// Unstored says that the target has stored nothing of the batch in which a ring was Refused: the ring has certainly
	// not arrived.
	Unstored bool
	// Counted says that a Doubtful ring had all the time that its target gives for a reply. The try has failed: it is
	// counted, and the next try waits as the retry policy says.
	Counted bool
	// RetryAfter is the time after which the receiver of a failed ring wants the next try. A longer wait of the retry
	// policy wins. Zero: the policy alone decides.
	RetryAfter time.Duration
}

// mayHaveArrived reports whether the receiver may have the ring although it was not confirmed. A broker may nack a
// message after it has put the message into a queue.
func (o Outcome) mayHaveArrived() bool {
	return o.Kind == Doubtful || o.Kind == Nacked || o.Kind == Refused && !o.Unstored
}

// MaxReason is the longest last_error, in characters, as in the database's column. The reasons of outcomes and answers
// are cut to as many bytes, so they never have more characters. The last_error of an expired alarm is cut by
// characters.
const MaxReason = 500

// bounded cuts s to MaxReason bytes, see cut.
func bounded(s string) string { return cut(s, MaxReason) }

// cut cuts s to the limit, in bytes, and removes invalid UTF-8 and NUL, which not every engine stores.
func cut(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}
