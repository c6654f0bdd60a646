package pull

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

var _ ring.RationedTarget = (*Target)(nil)

const (
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

	mu    sync.Mutex
	lines map[string]*line // by application; an application with a line is announced
}

// line is the reserves of one application that wait, the longest waiting first.
type line struct {
	waiting []*reserve
	forget  *time.Timer // ends the announcement; nil while reserves wait
}

// reserve is one worker that waits for rings.
type reserve struct {
	rings    int
	delivery chan clock.Delivery // capacity 1
}

// New returns a Target without reserves. announced is called when the result of Applications changes. It must not block.
func New(announced func()) *Target {
	return &Target{changed: make(chan struct{}, 1), announced: announced, lines: map[string]*line{}}
}

// Usable returns nil, because the target needs no connection of its own. Accepts tells whether an application has reserves.
func (t *Target) Usable() error { return nil }

// Accepts reports whether the application has a reserve, or had one less than linger ago.
func (t *Target) Accepts(application string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lines[application] != nil
}

// Ration returns how many rings the application's reserves wait for.
func (t *Target) Ration(application string) (rings int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if l := t.lines[application]; l != nil {
		for _, r := range l.waiting {
			rings += r.rings
		}
	}
	return rings
}

// Changed returns a channel of capacity 1 that is signalled when a reserve comes.
func (t *Target) Changed() <-chan struct{} { return t.changed }

// Applications returns the applications that Accepts accepts, sorted; nil if there is none.
func (t *Target) Applications() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.lines))
}

// Lane returns a lane. Lanes share the reserves.
func (t *Target) Lane(int) ring.Lane { return lane{t} }

// Reserve waits for up to that many rings of an application, until ctx ends. ok is false if none came. Else the caller must write the rings and call
// Delivery.Done.
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

// lingerIfEmpty ends the announcement of an application without a waiting reserve after linger.
func (t *Target) lingerIfEmpty(application string, l *line) {
	if len(l.waiting) > 0 || l.forget != nil {
		return
	}
	var timer *time.Timer
	timer = time.AfterFunc(linger, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.lines[application] == l && l.forget == timer {
			delete(t.lines, application)
			t.announced()
		}
	})
	l.forget = timer
}

// next takes the longest waiting reserve out of the application's line; nil if none waits.
func (t *Target) next(application string) *reserve {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := t.lines[application]
	if l == nil || len(l.waiting) == 0 {
		return nil
	}
	r := l.waiting[0]
	l.waiting = slices.Delete(l.waiting, 0, 1)
	t.lingerIfEmpty(application, l)
	return r
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
