package clock

import "time"

// Set asks for an alarm: create it, keep it, or change it (Decide).
type Set struct {
	Key
	Content           // RingAt is NoInstant until a Delay is resolved
	Delay       Delay // in place of RingAt
	Traceparent string
	If          Condition
}

// Delay is a span counted from the database's clock at the request's arrival.
type Delay struct {
	Given bool
	Span  time.Duration
}

// Cancel asks that an alarm does not ring.
type Cancel struct {
	Key
	If    Condition // AnyRow or AtGeneration
	Brief bool      // who asks needs no more of the alarm than key, id, shard, state and generation: a store may leave out the rest
}

// ConditionKind is what a request demands of the row that it meets.
type ConditionKind int8

// The conditions.
const (
	AnyRow       ConditionKind = iota // none
	Absent                            // no row of the key is kept, a finished one included
	Earlier                           // a scheduled or paused alarm is only moved to an earlier time
	Later                             // a scheduled or paused alarm is only moved to a later time
	AtGeneration                      // the row has that generation
)

// Condition is a request's demand, with the generation for AtGeneration.
type Condition struct {
	Kind       ConditionKind
	Generation int64
}

// Op is one request to change an alarm: exactly one is not nil.
type Op struct {
	Set     *Set
	Cancel  *Cancel
	Answer  *Answer
	Kick    *Kick
	Discard *Discard
}

// Key returns the key that the op is about.
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

// Name returns what is asked for, as metrics use it: set, cancel, kick, discard, or the answer's name.
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

// Size returns what the op holds in memory, in bytes, roughly.
func (o Op) Size() int {
	const fixed = 512
	if o.Set != nil {
		return fixed + len(o.Set.Payload)
	}
	return fixed
}

// Verdict is what an op does to its row.
type Verdict int8

// The verdicts. Refuse comes with an error; Wait means that the row cannot be judged yet.
const (
	Create  Verdict = iota + 1 // there was no row
	Keep                       // nothing changes
	Replace                    // a pending alarm is changed, generation+1
	Rearm                      // a finished one is armed again, generation+1
	Stop                       // cancelled
	Amend                      // answered, kicked or discarded: neither content nor generation change
	Refuse
	Wait // held by a claim: judge it again when that is over
)

var verdictNames = [...]string{
	Create: "created", Keep: "kept", Replace: "replaced", Rearm: "rearmed", Stop: "cancelled", Amend: "amended", Refuse: "refused", Wait: "waiting",
}

// String returns the verdict's name as metrics use it.
func (v Verdict) String() string { return verdictNames[v] }

// Decision is a verdict with the row as it is after it: to be written for Create, Replace, Rearm, Stop and Amend; as it stands
// for the others (zero where there is none).
type Decision struct {
	Verdict Verdict
	Alarm   Alarm
	Attempt *Attempt // to be kept with the row; nil for none
	Err     error    // with Refuse: an *Error
}

// Writes reports whether the decision changes the row.
func (d *Decision) Writes() bool {
	return d.Verdict == Create || d.Verdict == Replace || d.Verdict == Rearm || d.Verdict == Stop || d.Verdict == Amend
}
