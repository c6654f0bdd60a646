package rabbit

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/clock"
)

const (
	// firstPatience is how long the rings of others must be confirmed in time before the late rings of a silent
	// application are given up. Each time doubles it for the application, up to mostPatience. So a queue that confirms
	// late soon gets no more copies.
	firstPatience = 8 * time.Second
	mostPatience  = 64 * time.Second
	// patienceKept is how long a doubled patience is kept after the last time, or after the last late confirm.
	patienceKept = 10 * time.Minute
)

// patience is a doubled patience with one application.
type patience struct {
	wait    time.Duration
	doubled time.Time // last time at which it was doubled
	used    time.Time // the same, or the last late confirm
}

// lastConfirms knows when the broker last confirmed rings of which application, over all lanes, and how late its late
// confirms are. It notes confirms only while a late delivery needs them. Any goroutine may call its methods.
type lastConfirms struct {
	late atomic.Int32 // late deliveries

	mu         sync.Mutex
	confirmed  map[string]time.Time // last confirm, in time or late, by application
	inTime     map[string]time.Time // last confirm in time, by application
	latest     string               // application of the latest confirm in time
	latestTime time.Time            // its time
	othersTime time.Time            // time of the latest confirm in time of any other application
	mostLate   time.Duration        // longest time between the setting aside of a delivery and a confirm of it
	patience   map[string]patience  // with applications whose late rings were given up lately
}

// begin is called for each late delivery.
func (c *lastConfirms) begin() { c.late.Add(1) }

// end is called once for each call of begin. Without a late delivery everything but the patience is forgotten.
func (c *lastConfirms) end() {
	if c.late.Add(-1) > 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.confirmed, c.inTime, c.latest, c.latestTime, c.othersTime, c.mostLate = nil, nil, "", time.Time{}, time.Time{}, 0
}

// note notes the rings of a delivery that were confirmed in time.
func (c *lastConfirms) note(d *delivery) {
	c.noteEach(d, nil, func(application string, now time.Time) {
		if application != c.latest {
			c.othersTime, c.latest = c.latestTime, application
		}
		c.latestTime, c.inTime[application] = now, now
	})
}

// noteLate notes the newly confirmed rings of a delivery that was set aside at a time. known[i] reports whether ring i
// was confirmed before.
func (c *lastConfirms) noteLate(d *delivery, known []bool, setAside time.Time) {
	c.noteEach(d, known, func(application string, now time.Time) {
		c.mostLate = max(c.mostLate, now.Sub(setAside))
		if p, some := c.patience[application]; some {
			p.used = now
			c.patience[application] = p
		}
	})
}

// noteSilent notes that the late rings of a silent application were given up, of a delivery that was set aside at a
// time. It doubles the patience with the application, but once for all deliveries that were set aside before.
func (c *lastConfirms) noteSilent(application string, setAside time.Time) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.patience, func(_ string, p patience) bool { return now.Sub(p.used) > patienceKept })
	p := c.patience[application]
	if setAside.Before(p.doubled) {
		return
	}
	if c.patience == nil {
		c.patience = map[string]patience{}
	}
	c.patience[application] = patience{wait: min(2*max(p.wait, firstPatience), mostPatience), doubled: now, used: now}
}

// patienceWith returns how long the rings of others must be confirmed in time before late rings of the application are
// given up.
func (c *lastConfirms) patienceWith(application string) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.patience[application].wait, firstPatience)
}

func (c *lastConfirms) noteEach(d *delivery, known []bool, note func(application string, now time.Time)) {
	if c.late.Load() == 0 {
		return
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.confirmed == nil {
		c.confirmed, c.inTime = map[string]time.Time{}, map[string]time.Time{}
	}
	for i := range d.states {
		if d.states[i].outcome.Kind != clock.Confirmed || i < len(known) && known[i] {
			continue
		}
		c.confirmed[d.rings[i].Receiver()] = now
		note(d.rings[i].Receiver(), now)
	}
}

// confirmedSince reports whether the broker has confirmed a ring of the application after a time.
func (c *lastConfirms) confirmedSince(application string, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.confirmed[application].After(since)
}

// inTimeSince reports whether the broker has confirmed a ring of the application in time after a time.
func (c *lastConfirms) inTimeSince(application string, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.inTime[application].After(since)
}

// longest returns the longest time between the setting aside of a delivery and a confirm of it.
func (c *lastConfirms) longest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mostLate
}

// othersInTimeSince reports whether the broker has confirmed a ring of another application in time after a time.
func (c *lastConfirms) othersInTimeSince(application string, since time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	others := c.latestTime
	if c.latest == application {
		others = c.othersTime
	}
	return others.After(since)
}
