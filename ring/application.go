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
	held                  // nothing gets through: one probe at a time; the rest waits in the database
	absent                // the target does not accept it: everything waits in the database
)

// String returns the health's name as logs and readiness use it.
func (h health) String() string {
	return [...]string{healthy: "healthy", suspect: "suspect", held: "held", absent: "absent"}[h]
}

const (
	// lostBeforeHold is how many rounds in a row are returned or not answered, and nothing of them is confirmed, before an
	// application is held.
	lostBeforeHold = 3
	// fruitlessPause is how long a suspect waits after a round of which nothing was confirmed; it doubles, up to the probe's.
	fruitlessPause = 50 * time.Millisecond
	// maxParked bounds the due entries kept for one suspect application; the others are left in the database meanwhile.
	maxParked = 1024
	// maxProbes is the same for a held one: those that are tried next.
	maxProbes = 16
)

// application is one that is not healthy.
type application struct {
	name      unique.Handle[string]
	health    health
	reason    string    // of the last failure
	batch     int       // rows a batch, at most: halved while the target refuses, doubled when all is well
	lost      int       // rounds in a row with a return or without an answer, and without a confirmation
	fruitless int       // rounds in a row without a confirmation
	busy      bool      // a batch of it is on its way
	turn      uint64    // of the ward, when it last had a batch
	parked    []entry   // due, in flight as the heap sees it, waiting for a batch
	closed    bool      // the heap leaves its rows out
	next      time.Time // when to try again
	asked     time.Time // held: when rows to probe with were asked for
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
	return (a.health == suspect || a.health == held) && !now.Before(a.next)
}

// pause returns how long to wait after a round that failed.
func (a *application) pause(probe time.Duration) time.Duration {
	switch {
	case a.health == held:
		return probe
	case a.fruitless == 0:
		return 0
	default:
		return min(probe, fruitlessPause<<min(a.fruitless-1, 10))
	}
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
	confirmed, failed int // failed: all that were tried and not confirmed
	lost              int // of the failed: returned, or not answered
	refused           int // of the failed: one message may be to blame for all
	reason            string
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
	a.lost, a.fruitless = a.lost+1, a.fruitless+1
	if f.lost == 0 || f.confirmed > 0 {
		a.lost = 0
	}
	if f.refused > 0 || f.confirmed > 0 {
		a.fruitless = 0
	}
	if a.health == suspect && a.lost >= lostBeforeHold {
		a.health = held
	}
	a.next = now.Add(a.pause(probe))
	return false
}
