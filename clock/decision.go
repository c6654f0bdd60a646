package clock

import "errors"

// Verdict is the effect of an op on its row.
type Verdict int8

// The verdicts. Locked and Postpone mean that the op cannot be judged yet.
const (
	Create   Verdict = iota + 1 // a set inserts the row
	Keep                        // nothing changes
	Replace                     // a set or a shift changes an unfinished alarm, generation+1
	Rearm                       // a set arms a finished alarm again, generation+1
	Disarm                      // a cancel ends the alarm
	Amend                       // an answer, resend, kick, discard, pause, resume or recomputation changes the alarm, but not its generation
	Refuse                      // nothing changes; the decision has an error
	Locked                      // the row is locked or claimed: the op is judged again later
	Postpone                    // the transaction has loaded LoadBytes for other ops: the op goes into the next group
)

var verdictNames = [...]string{
	Create: "created", Keep: "kept", Replace: "replaced", Rearm: "rearmed", Disarm: "cancelled", Amend: "amended",
	Refuse: "refused", Locked: "waiting", Postpone: "postponed",
}

// String returns the verdict's name, as metrics use it.
func (v Verdict) String() string { return verdictNames[v] }

// Decision is a verdict on an op, with the row after it.
type Decision struct {
	Verdict Verdict
	Alarm   Alarm    // row to write if Writes; else the unchanged row, zero if there is none
	Attempt *Attempt // attempt to store with the row; nil: none
	Err     error    // an *Error with Refuse; else nil
	// RingAtBefore is when the alarm was to ring before a recomputation that changed it; 0 for other ops.
	RingAtBefore Instant
	Counted      OccurrenceCounts // occurrences that an answer has ended
	Unscheduled  bool             // a cancel has ended an alarm that would have rung
	RepeatEnded  bool             // a set without a rule has replaced one with a rule, whose alarm was not over
}

// Writes reports whether the decision changes the row.
func (d *Decision) Writes() bool {
	return d.Verdict == Create || d.Verdict == Replace || d.Verdict == Rearm || d.Verdict == Disarm ||
		d.Verdict == Amend
}

// dropPayload removes the payload from the decision and from its error.
func (d *Decision) dropPayload() {
	d.Alarm.Payload = nil
	e, is := errors.AsType[*Error](d.Err)
	if !is || e.Alarm == nil {
		return
	}
	brief, alarm := *e, *e.Alarm
	alarm.Payload, brief.Alarm = nil, &alarm
	d.Err = &brief
}
