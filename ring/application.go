package ring

import (
	"time"
	"unique"
)

// health is how an application's rings fare. Only applications that are not healthy are remembered.
type health int8

const (
	healthy health = iota // rings in batches shared with others
	suspect               // rings in batches of its own, one at a time
	held                  // unroutable: one probe at a time; the rest waits in the database
	absent                // the target does not accept it: everything waits in the database
)

// String returns the health's name as logs and readiness use it.
func (h health) String() string {
	return [...]string{healthy: "healthy", suspect: "suspect", held: "held", absent: "absent"}[h]
}

const (
	// returnsBeforeHold is how many rounds in a row end with a return and no confirmation before an application is held.
	returnsBeforeHold = 3
	// maxParked bounds the due entries kept for one suspect application; the others are left in the database meanwhile.
	maxParked = 1024
	// maxProbes is the same for a held one: those that are tried next.
	maxProbes = 16
)

// application is one that is not healthy.
type application struct {
	name    unique.Handle[string]
	health  health
	reason  string    // of the last failure
	batch   int       // rows a batch, at most: halved while the target refuses, doubled when all is well
	returns int       // rounds in a row with a return and without a confirmation
	busy    bool      // a batch of it is on its way
	turn    uint64    // of the ward, when it last had a batch
	parked  []entry   // due, in flight as the heap sees it, waiting for a batch
	closed  bool      // the heap leaves its rows out
	next    time.Time // held: when to probe
	asked   time.Time // held: when rows to probe with were asked for
}

// room returns how many entries more can be parked; less than none where some have to go.
func (a *application) room() int {
	switch a.health {
	case suspect:
		return maxParked - len(a.parked)
	case held:
		return maxProbes - len(a.parked)
	default:
		return -len(a.parked)
	}
}

// park keeps e for a batch of the application's own, or reports that it has to be let go.
func (a *application) park(e entry) bool {
	if a.room() <= 0 {
		return false
	}
	a.parked = append(a.parked, e)
	return true
}

// spare removes what is parked beyond the room.
func (a *application) spare() []entry {
	kept := len(a.parked) + min(a.room(), 0)
	spare := append([]entry(nil), a.parked[kept:]...)
	a.parked = a.parked[:kept]
	return spare
}

// ready reports whether a batch of the application may go now.
func (a *application) ready(now time.Time) bool {
	if a.busy || len(a.parked) == 0 {
		return false
	}
	return a.health == suspect || a.health == held && !now.Before(a.next)
}

// take removes the next batch from what is parked.
func (a *application) take() []entry {
	n := min(len(a.parked), a.batch)
	if a.health == held {
		n = 1
	}
	batch := append([]entry(nil), a.parked[:n]...)
	a.parked = append(a.parked[:0], a.parked[n:]...)
	a.busy = true
	return batch
}

// fared is how the rings of one application fared in one round.
type fared struct {
	confirmed, returned, failed, refused int // failed: all that were tried and not confirmed, the returned and refused included
	reason                               string
}

// judge updates the application after a round of its own or one that it shared. It reports whether all was well.
func (a *application) judge(f fared, now time.Time, probe time.Duration, own bool) bool {
	if f.failed == 0 {
		return f.confirmed > 0 && own
	}
	a.reason = f.reason
	if f.refused > 1 {
		a.batch = max(1, f.refused/2)
	}
	if f.returned == 0 || f.confirmed > 0 {
		a.returns = 0
	} else {
		a.returns++
	}
	if a.health == suspect && a.returns >= returnsBeforeHold {
		a.health = held
	}
	a.next = now.Add(probe)
	return false
}
