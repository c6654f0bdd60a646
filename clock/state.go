package clock

import "fmt"

// State says where an alarm is in its life. The numbers are stored; never renumber them.
type State int8

// The states. Scheduled and Ringing have a next_try_time; Paused waits for a person; the others are over.
const (
	Scheduled State = 1 // waits for its time, for its first ring or a further try
	Ringing   State = 2 // handed over and waiting for an acknowledgement, or (rung_at empty) in a two-phase claim
	Rung      State = 3 // rung, and acknowledged where it asked for that
	Expired   State = 4 // latest_ring_at passed before it could be rung
	Dead      State = 5 // out of tries or out of rings; last_error says why
	Cancelled State = 6
	Paused    State = 7
)

var stateNames = [...]string{
	Scheduled: "scheduled", Ringing: "ringing", Rung: "rung", Expired: "expired",
	Dead: "dead", Cancelled: "cancelled", Paused: "paused",
}

// States returns all states in the order of their numbers.
func States() []State { return []State{Scheduled, Ringing, Rung, Expired, Dead, Cancelled, Paused} }

// ParseState returns the state of that name.
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

// Over reports whether the alarm will not ring any more unless it is armed again.
func (s State) Over() bool { return s == Rung || s == Expired || s == Dead || s == Cancelled }
