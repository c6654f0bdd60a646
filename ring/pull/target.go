package pull

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

var _ ring.RationedTarget = (*Target)(nil)

const (
	// restAfter is the time after the last reserve of an application after which its workers rest: other nodes with
	// workers come first. It is longer than the pause of a worker that finishes its rings at once.
	restAfter = 2 * time.Second
	// linger is the time for which an application stays announced after its last reserve.
	linger = 30 * time.Second
	// MaxRings is the most rings of one reserve.
	MaxRings = 64
	// maxBytes bounds the payloads of one reserve; a larger payload goes alone.
	maxBytes = 1 << 20
)

// Target gives rings to reserves.
type Target struct {
	changed   chan struct{} // capacity 1; see Changed
	announced func()        // called when the result of Applications changes

	handed ring.Handed // rings that reserves have and have not reported

	mu    sync.Mutex
	lines map[string]*line // by application; an application with a line is announced
}

// line is the reserves of one application that wait, the longest waiting first.
type line struct {
	waiting []*reserve
	resting bool        // the last reserve was restAfter ago
	forget  *time.Timer // lets the line rest, and later ends the announcement; nil while reserves wait
}

// reserve is one worker that waits for rings.
type reserve struct {
	rings    int
	delivery chan clock.Delivery // capacity 1
}

// New returns a Target without reserves. announced is called when the result of Applications changes. It must not
// block.
func New(announced func()) *Target {
	return &Target{changed: make(chan struct{}, 1), announced: announced, lines: map[string]*line{}}
}

// Usable returns nil, because the target needs no connection of its own. Accepts tells whether an application has
// reserves.
func (t *Target) Usable() error { return nil }

// errNoReserve is the reason why the target does not accept an application.
var errNoReserve = errors.New("no worker has asked for rings for half a minute")

// Accepts returns nil if the application has a reserve, or had one less than linger ago.
func (t *Target) Accepts(application string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines[application] == nil {
		return errNoReserve
	}
	return nil
}

// Ration returns how many rings the application's reserves wait for, 0 while the target has no memory for them.
func (t *Target) Ration(application string) (rings int) {
	if t.handed.Refused(application) {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lines[application]; l != nil {
		for _, r := range l.waiting {
			rings += r.rings
		}
	}
	return rings
}

// Changed returns a channel of capacity 1 that is signalled when a reserve comes, or when there is memory again.
func (t *Target) Changed() <-chan struct{} { return t.changed }

// Applications returns the accepted applications, sorted. Working applications have a reserve, or had one less than
// restAfter ago. The workers of the others rest.
func (t *Target) Applications() (working, resting []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, application := range slices.Sorted(maps.Keys(t.lines)) {
		if t.lines[application].resting {
			resting = append(resting, application)
		} else {
			working = append(working, application)
		}
	}
	return working, resting
}

// Lane returns a lane. Lanes share the reserves.
func (t *Target) Lane(int) ring.Lane { return lane{t} }

// Reserve waits for up to that many rings of an application, until ctx ends. ok is false if none came. Else the caller
// must write the rings and call Delivery.Done.
func (t *Target) Reserve(ctx context.Context, application string, rings int) (d clock.Delivery, ok bool) {
	r := &reserve{rings: rings, delivery: make(chan clock.Delivery, 1)}
	t.enter(application, r)
	select {
	case d := <-r.delivery:
		return d, true
	case <-ctx.Done():
	}
	if t.leave(application, r) {
		return clock.Delivery{}, false
	}
	return <-r.delivery, true // it was given its rings at the same moment
}

// enter puts a reserve at the end of its line.
func (t *Target) enter(application string, r *reserve) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[application]
	if l == nil {
		l = &line{}
		t.lines[application] = l
		t.announced()
	}
	if l.forget != nil {
		l.forget.Stop()
		l.forget = nil
	}
	if l.resting {
		l.resting = false
		t.announced()
	}
	l.waiting = append(l.waiting, r)
	clock.Signal(t.changed)
}

// leave takes a reserve out of its line. It reports false if the reserve has its rings.
func (t *Target) leave(application string, r *reserve) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[application]
	if l == nil {
		return false
	}
	i := slices.Index(l.waiting, r)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	t.lingerIfEmpty(application, l)
	return true
}

// lingerIfEmpty lets the workers of an application without a waiting reserve rest after restAfter, and ends its
// announcement after linger.
func (t *Target) lingerIfEmpty(application string, l *line) {
	if len(l.waiting) > 0 || l.forget != nil {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(restAfter, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.lines[application] != l || l.forget != timer {
			return
		}
		if l.resting {
			delete(t.lines, application)
		} else {
			l.resting = true
			timer.Reset(linger - restAfter)
		}
		t.announced()
	})
	l.forget = timer
}

// next takes the longest waiting reserve out of the application's line, and memory for its part of the rings: the first
// n. It returns nil if no reserve waits, or if there is no memory.
func (t *Target) next(application string, rings []clock.Ring, indexes []int) (r *reserve, n, bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[application]
	if l == nil || len(l.waiting) == 0 {
		return nil, 0, 0
	}
	r = l.waiting[0]
	n = fitting(rings, indexes, r.rings)
	bytes = ring.HandedSize(rings, indexes[:n])
	if !t.handed.Take(application, bytes) {
		return nil, 0, 0
	}
	l.waiting = slices.Delete(l.waiting, 0, 1)
	t.lingerIfEmpty(application, l)
	return r, n, bytes
}

// give gives the memory of reported rings back. The loop hands out further rings if an application waited for it.
func (t *Target) give(application string, bytes int) {
	if t.handed.Give(application, bytes) {
		clock.Signal(t.changed)
	}
}

// Close stops the timers of all applications. Call it after the loop has ended.
func (t *Target) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, l := range t.lines {
		if l.forget != nil {
			l.forget.Stop()
		}
	}
	clear(t.lines)
}
