package bulk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/clockd/clockd/clock"
)

// Action is what a job does to alarms.
type Action string

// The actions.
const (
	Cancel  Action = "cancel"
	Kick    Action = "kick"
	Discard Action = "discard"
	Pause   Action = "pause"
	Resume  Action = "resume"
	Shift   Action = "shift"
)

// Actions lists all actions.
var Actions = []Action{Cancel, Kick, Discard, Pause, Resume, Shift}

// actionStates has the states of alarms that each action may change. A repeating alarm is stopped while its ring waits
// for the acknowledgement; any other ringing alarm refuses.
var actionStates = map[Action][]clock.State{
	Cancel:  {clock.Scheduled, clock.Paused, clock.Ringing},
	Kick:    {clock.Dead, clock.Expired},
	Discard: {clock.Dead, clock.Expired},
	Pause:   {clock.Scheduled, clock.Ringing},
	Resume:  {clock.Paused},
	Shift:   {clock.Scheduled, clock.Paused},
}

// Filter selects the alarms of a job, and says what happens to them.
type Filter struct {
	Application string
	Action      Action
	States      []clock.State // empty: all states that the action may change
	Prefix      string        // first bytes of the business ids
	DueAfter    clock.Instant // only due then or later (clock.ListQuery); NoInstant: no bound
	DueBefore   clock.Instant // only due before this instant; NoInstant: no bound
	ShiftMillis int64         // with Shift: milliseconds by which ring_at moves; negative: earlier
	FrozenAt    clock.Instant // alarms that were created later are left; NoInstant: now
	Note        string        // the reason; a paused alarm has it in its last_error
}

// Validate returns an ErrInvalid that names the first offending field, or nil. It fills empty States.
func (f *Filter) Validate() error {
	allowed, known := actionStates[f.Action]
	switch {
	case !known:
		return clock.Invalid(clock.CodeInvalidValue, "action", fmt.Sprintf("action must be one of %s", joined(Actions)))
	case (f.ShiftMillis != 0) != (f.Action == Shift):
		return clock.Invalid(clock.CodeInvalidValue, "shift",
			"a shift, and no other action, needs a time to shift by (shift; on the command line --later or --earlier)")
	}
	if len(f.States) == 0 {
		f.States = allowed
	}
	for _, s := range f.States {
		if !slices.Contains(allowed, s) {
			return clock.Invalid(clock.CodeInvalidValue, "state", fmt.Sprintf("%s changes no %s alarm", f.Action, s))
		}
	}
	q := f.list(clock.ListPosition{})
	return cmp.Or(clock.CheckNote(f.Note), q.Validate())
}

func joined(actions []Action) string {
	names := make([]string, len(actions))
	for i, a := range actions {
		names[i] = string(a)
	}
	return strings.Join(names, ", ")
}

// list returns the query of the page behind a position.
func (f *Filter) list(after clock.ListPosition) clock.ListQuery {
	return clock.ListQuery{
		Application: f.Application, States: f.States, DueAfter: f.DueAfter, DueBefore: f.DueBefore, Prefix: f.Prefix,
		After: after, Limit: pageAlarms,
	}
}

// lasting reports whether an alarm that the filter selects stays selected until its op decides, whatever changes
// meanwhile. So it may be read some time before.
func (f *Filter) lasting() bool {
	return f.Action == Shift || !f.byDue() && len(f.States) == len(actionStates[f.Action])
}

// byDue reports whether the filter has a due range.
func (f *Filter) byDue() bool { return f.DueAfter != clock.NoInstant || f.DueBefore != clock.NoInstant }

// admits reports whether the filter selects a listed alarm.
func (f *Filter) admits(a *clock.Alarm) bool {
	if f.Action == Shift {
		return a.UpdateTime <= f.FrozenAt
	}
	return a.CreateTime <= f.FrozenAt
}
