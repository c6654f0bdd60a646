package clock

import "time"

// Set asks that an alarm has this content. Decide creates, keeps or changes the alarm.
type Set struct {
	Key
	Content           // RingAt is NoInstant until Delay is resolved
	Delay       Delay // alternative to RingAt
	Traceparent string
	If          Condition
}

// Delay is a time span that begins when the request arrives, by the database's clock.
type Delay struct {
	Given bool
	Span  time.Duration
}

// Cancel asks that an alarm does not ring.
type Cancel struct {
	Key
	If    Condition // AnyRow or AtGeneration
	Brief bool      // the caller reads only key, id, shard, state and generation of the alarm: a store may leave out the rest
}

// ConditionKind is the kind of condition under which a request takes effect.
type ConditionKind int8

// The kinds of conditions.
const (
	AnyRow       ConditionKind = iota // no condition
	Absent                            // the key has no row, not even a finished alarm's
	Earlier                           // a set may move a scheduled or paused alarm only to an earlier time
	Later                             // a set may move a scheduled or paused alarm only to a later time
	AtGeneration                      // the row has this generation
)

// Condition is a request's condition. Generation is for AtGeneration.
type Condition struct {
	Kind       ConditionKind
	Generation int64
}

// Op is one request to change an alarm. Exactly one pointer is not nil.
type Op struct {
	Set     *Set
	Cancel  *Cancel
	Answer  *Answer
	Kick    *Kick
	Discard *Discard
	Brief   bool // the caller does not read the payload of the decision's alarm, so Pending drops it
}

// Key returns the key of the op's alarm.
func (o Op) Key() Key {
	switch {
	case o.Set != nil:
		return o.Set.Key
	case o.Cancel != nil:
		return o.Cancel.Key
	case o.Answer != nil:
		return o.Answer.Key
	case o.Kick != nil:
		return o.Kick.Key
	default:
		return o.Discard.Key
	}
}

// Name returns the op's name for metrics: set, cancel, kick, discard, or the name of the answer's kind.
func (o Op) Name() string {
	switch {
	case o.Set != nil:
		return "set"
	case o.Cancel != nil:
		return "cancel"
	case o.Answer != nil:
		return o.Answer.Kind.String()
	case o.Kick != nil:
		return "kick"
	default:
		return "discard"
	}
}

// Size returns the op's approximate size in memory, in bytes.
func (o Op) Size() int {
	const fixed = 512
	if o.Set != nil {
		return fixed + len(o.Set.Payload)
	}
	return fixed
}

// Verdict is the effect of an op on its row.
type Verdict int8

// The verdicts. Wait and Postpone mean that the op cannot be judged yet.
const (
	Create   Verdict = iota + 1 // a set inserts the row
	Keep                        // nothing changes
	Replace                     // a set changes an unfinished alarm, generation+1
	Rearm                       // a set arms a finished alarm again, generation+1
	Stop                        // a cancel ends the alarm
	Amend                       // an answer, kick or discard changes the alarm, but not its generation
	Refuse                      // nothing changes; the decision has an error
	Wait                        // the row is locked or claimed: the op is judged again later
	Postpone                    // the transaction has loaded MaxLoad bytes for other ops: the op goes into the next group
)

var verdictNames = [...]string{
	Create: "created", Keep: "kept", Replace: "replaced", Rearm: "rearmed", Stop: "cancelled", Amend: "amended", Refuse: "refused", Wait: "waiting", Postpone: "postponed",
}

// String returns the verdict's name, as metrics use it.
func (v Verdict) String() string { return verdictNames[v] }

// Decision is a verdict on an op, with the row after it.
type Decision struct {
	Verdict Verdict
	Alarm   Alarm    // row to write if Writes; else the unchanged row, zero if there is none
	Attempt *Attempt // attempt to store with the row; nil: none
	Err     error    // an *Error with Refuse; else nil
}

// Writes reports whether the decision changes the row.
func (d *Decision) Writes() bool {
	return d.Verdict == Create || d.Verdict == Replace || d.Verdict == Rearm || d.Verdict == Stop || d.Verdict == Amend
}
