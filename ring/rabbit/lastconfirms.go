package rabbit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
)

// lastConfirms knows when the broker last confirmed rings of which application, over all lanes, and how late its late confirms are. It notes
// confirms only while a late delivery needs them. Any goroutine may call its methods.
type lastConfirms struct {
	late atomic.Int32 // late deliveries

	mu         sync.Mutex
	confirmed  map[string]time.Time // last confirm, in time or late, by application
	latest     string               // application of the latest confirm in time
	latestTime time.Time            // its time
	othersTime time.Time            // time of the latest confirm in time of any other application
	mostLate   time.Duration        // longest time between the setting aside of a delivery and a confirm of it
}

// begin is called for each late delivery.
func (c *lastConfirms) begin() { c.late.Add(1) }

// end is called once for each call of begin. Without a late delivery everything is forgotten.
func (c *lastConfirms) end() {
	if c.late.Add(-1) > 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirmed, c.latest, c.latestTime, c.othersTime, c.mostLate = nil, "", time.Time{}, time.Time{}, 0
}

// note notes the rings of a delivery that were confirmed in time.
func (c *lastConfirms) note(d *delivery) {
	c.noteEach(d, nil, func(application string, now time.Time) {
		if application != c.latest {
			c.othersTime, c.latest = c.latestTime, application
		}
		c.latestTime = now
	})
}

// noteLate notes the newly confirmed rings of a delivery that was set aside at a time. known[i] reports whether ring i was confirmed before.
func (c *lastConfirms) noteLate(d *delivery, known []bool, setAside time.Time) {
	c.noteEach(d, known, func(_ string, now time.Time) { c.mostLate = max(c.mostLate, now.Sub(setAside)) })
}

func (c *lastConfirms) noteEach(d *delivery, known []bool, note func(application string, now time.Time)) {
	if c.late.Load() == 0 {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.confirmed == nil {
		c.confirmed = map[string]time.Time{}
	}
	for i := range d.states {
		if d.states[i].outcome.Kind != clock.Confirmed || i < len(known) && known[i] {
			continue
		}
		c.confirmed[d.rings[i].Application] = now
		note(d.rings[i].Application, now)
	}
}

// confirmedSince reports whether the broker has confirmed a ring of the application after a time.
func (c *lastConfirms) confirmedSince(application string, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.confirmed[application].After(since)
}

// othersInTime returns the time of the latest confirm in time of a ring of another application; zero: none. longest is the longest time
// between the setting aside of a delivery and a confirm of it.
func (c *lastConfirms) othersInTime(application string) (latest time.Time, longest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.latest == application {
		return c.othersTime, c.mostLate
	}
	return c.latestTime, c.mostLate
}
