package rabbit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
)

// flow knows when the broker last confirmed rings of which application, over all lanes. It notes confirms only while a late delivery needs
// them. Any goroutine may call its methods.
type flow struct {
	late atomic.Int32 // late deliveries

	mu         sync.Mutex
	confirmed  map[string]time.Time // last confirm, by application
	latest     string               // application of the latest confirm
	latestTime time.Time            // its time
	othersTime time.Time            // time of the latest confirm of any other application
}

// begin is called for each late delivery.
func (f *flow) begin() { f.late.Add(1) }

// end is called once for each call of begin. Without a late delivery the flow forgets everything.
func (f *flow) end() {
	if f.late.Add(-1) > 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.confirmed, f.latest, f.latestTime, f.othersTime = nil, "", time.Time{}, time.Time{}
}

// note notes the confirmed rings of a delivery. known[i] reports whether ring i was confirmed earlier. An empty known means
// that none was.
func (f *flow) note(d *delivery, known []bool) {
	if f.late.Load() == 0 {
		return
	}
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.confirmed == nil {
		f.confirmed = map[string]time.Time{}
	}
	for i := range d.states {
		if d.states[i].outcome.Kind != clock.Confirmed || i < len(known) && known[i] {
			continue
		}
		application := d.rings[i].Application
		f.confirmed[application] = now
		if application != f.latest {
			f.othersTime, f.latest = f.latestTime, application
		}
		f.latestTime = now
	}
}

// silentSince reports whether the broker has confirmed no ring of the application since a time, but rings of another application more than
// stuckAfter later.
func (f *flow) silentSince(application string, since time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	others := f.latestTime
	if f.latest == application {
		others = f.othersTime
	}
	return !f.confirmed[application].After(since) && others.Sub(since) > stuckAfter
}
