package rabbit

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
)

// lastConfirms knows when the broker last confirmed rings of which application, over all lanes. It notes confirms only while a late delivery needs
// them. Any goroutine may call its methods.
type lastConfirms struct {
	late atomic.Int32 // late deliveries

	mu         sync.Mutex
	confirmed  map[string]time.Time // last confirm, by application
	latest     string               // application of the latest confirm
	latestTime time.Time            // its time
	othersTime time.Time            // time of the latest confirm of any other application
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
	c.confirmed, c.latest, c.latestTime, c.othersTime = nil, "", time.Time{}, time.Time{}
}

// note notes the confirmed rings of a delivery. known[i] reports whether ring i was confirmed earlier. An empty known means
// that none was.
func (c *lastConfirms) note(d *delivery, known []bool) {
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
		application := d.rings[i].Application
		c.confirmed[application] = now
		if application != c.latest {
			c.othersTime, c.latest = c.latestTime, application
		}
		c.latestTime = now
	}
}

// silentSince reports whether the broker has confirmed no ring of the application since a time, but rings of another application more than
// stuckAfter later.
func (c *lastConfirms) silentSince(application string, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	others := c.latestTime
	if c.latest == application {
		others = c.othersTime
	}
	return !c.confirmed[application].After(since) && others.Sub(since) > stuckAfter
}
