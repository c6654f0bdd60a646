package clock

import "fmt"

// State is the stage of an alarm's life. The numbers are stored and must never change.
type State int8

// The states. Scheduled and ringing alarms have a next_try_time. A paused alarm waits for a resume. Alarms in the other
// states are finished.
const (
	Scheduled State = 1 // waits for its first ring or for a further try
	Ringing   State = 2 // its ring waits for the acknowledgement, or (rung_at empty) a two-phase claim has taken it
	Rung      State = 3 // rung, and acknowledged if it has an ack_timeout
	Expired   State = 4 // latest_ring_at passed before a ring was confirmed; last_error has the reason, also for a ring in doubt
	Dead      State = 5 // retries or rings are used up, or it was buried; last_error has the reason
	Cancelled State = 6
	Paused    State = 7
)

var stateNames = [...]string{
	Scheduled: "scheduled", Ringing: "ringing", Rung: "rung", Expired: "expired",
	Dead: "dead", Cancelled: "cancelled", Paused: "paused",
}

// States returns all states in the order of their numbers.
func States() []State { return []State{Scheduled, Ringing, Rung, Expired, Dead, Cancelled, Paused} }

// ParseState returns the state with this name.
func ParseState(name string) (State, error) {
	for _, s := range States() {
		if stateNames[s] == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("state %q is none of scheduled, ringing, rung, expired, dead, cancelled, paused", name)
}

// String returns the state's name.
func (s State) String() string {
	if s < Scheduled || s > Paused {
		return fmt.Sprintf("state(%d)", int8(s))
	}
	return stateNames[s]
}

// MarshalText writes the state's name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Known reports whether s is a defined state. A row that another program has written may have an unknown state.
func (s State) Known() bool { return s >= Scheduled && s <= Paused }

// AttentionStates returns the states of alarms that wait for a person.
func AttentionStates() []State { return []State{Expired, Dead, Paused} }

// Attention reports whether an alarm in the state waits for a person.
func (s State) Attention() bool { return s == Expired || s == Dead || s == Paused }

// Over reports whether the alarm is finished: it does not ring unless it is armed again.
func (s State) Over() bool { return s == Rung || s == Expired || s == Dead || s == Cancelled }
