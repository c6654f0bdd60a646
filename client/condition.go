package client

import (
	"net/http"
	"strconv"
)

// Condition limits when a change is made. The zero value is no condition. A change whose condition does not hold is
// refused with CodeConditionFailed and the alarm.
type Condition struct {
	name         string // absent, earlier or later
	onGeneration bool   // whether generation is the condition
	generation   int64
}

// Conditions of a set.
var (
	Absent  = Condition{name: "absent"}  // no alarm has this id, not even a finished alarm that is kept
	Earlier = Condition{name: "earlier"} // the new time is earlier than the alarm's, or there is no pending alarm
	Later   = Condition{name: "later"}   // the new time is later than the alarm's, or there is no pending alarm
)

// AtGeneration is the condition that the alarm has this generation. A set that repeats itself keeps the alarm.
func AtGeneration(n int64) Condition { return Condition{onGeneration: true, generation: n} }

// ActOption is an option of Cancel, Pause, Resume, Trigger, Backfill, EndBackfill, Kick and Discard: a Condition with
// AtGeneration, or a Note.
type ActOption interface{ applyTo(*actOptions) }

// Note says why a person acts on an alarm, in at most 300 bytes. The audit has it, and a paused alarm has it in LastError.
type Note string

// actOptions are the options of an action on one alarm.
type actOptions struct {
	conditions []Condition
	note       Note
}

func actOptionsOf(options []ActOption) (asked actOptions) {
	for _, option := range options {
		option.applyTo(&asked)
	}
	return asked
}

func (c Condition) applyTo(o *actOptions) { o.conditions = append(o.conditions, c) }

func (n Note) applyTo(o *actOptions) { o.note = n }

// header returns the header of a condition on a generation, nil for another condition.
func (c Condition) header() http.Header {
	if !c.onGeneration {
		return nil
	}
	return http.Header{"If-Match": {strconv.Quote(strconv.FormatInt(c.generation, 10))}}
}

// onlyGeneration returns the header of the condition of a cancel, or of an action on one alarm. There is at most one,
// on a generation.
func onlyGeneration(conditions []Condition) (http.Header, *Error) {
	switch {
	case len(conditions) == 0:
		return nil, nil
	case len(conditions) > 1 || conditions[0].name != "":
		return nil, invalid("if", "only AtGeneration is a condition here, and only one")
	}
	return conditions[0].header(), nil
}
