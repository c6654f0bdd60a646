package stream

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

var _ ring.Target = (*Target)(nil)

// Target hands rings to subscribers.
type Target struct {
	changed             chan struct{} // capacity 1; see Changed
	applicationsChanged chan struct{} // capacity 1; see ApplicationsChanged

	handed ring.Handed // rings that subscribers have taken and not reported

	mu      sync.Mutex
	outlets map[string]*outlet // outlets by application; each has at least one subscriber
}

// outlet hands the rings of one application to its subscribers. All of them receive from one channel, so a free
// subscriber takes the next delivery.
type outlet struct {
	deliveries  chan clock.Delivery
	subscribers int           // guarded by Target.mu
	closed      chan struct{} // closed when the last subscriber has left

	mu       sync.Mutex
	reported time.Time // time of the last report of any subscriber; zero: none
	slow     bool      // the last wait ended without a report, or the last report came later than patience after its delivery was ready and after the report before
}

// noteReport notes that a subscriber has reported a delivery that was ready at the given time.
func (o *outlet) noteReport(ready time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	o.slow = now.Sub(later(ready, o.reported)) > patience
	o.reported = now
}

// noteSlow notes that a wait for the subscribers ended without a report.
func (o *outlet) noteSlow() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.slow = true
}

// patientUntil returns the time until which a batch that began at the given time waits for the next report. shared is
// ring.Limits.Shared.
func (o *outlet) patientUntil(began time.Time, shared bool) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch until, end := later(began, o.reported).Add(patience), began.Add(maxPatience); {
	case shared && o.slow:
		return began
	case shared:
		return began.Add(patience)
	case until.After(end):
		return end
	default:
		return until
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// New returns a Target without subscribers.
func New() *Target {
	return &Target{changed: make(chan struct{}, 1), applicationsChanged: make(chan struct{}, 1),
		outlets: map[string]*outlet{}}
}

// Usable returns nil, because a stream needs no connection of its own. Accepts tells whether an application has a
// subscriber.
func (t *Target) Usable() error { return nil }

// errNoSubscriber is the reason why the target does not accept an application.
var errNoSubscriber = errors.New("no subscriber is connected to the application's stream")

// Accepts returns nil if the application has a subscriber.
func (t *Target) Accepts(application string) error {
	if t.outlet(application) == nil {
		return errNoSubscriber
	}
	return nil
}

// Changed returns a channel of capacity 1 that is signalled when a subscriber comes.
func (t *Target) Changed() <-chan struct{} { return t.changed }

// Applications returns the applications with a subscriber, sorted; nil if there is none.
func (t *Target) Applications() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.outlets))
}

// ApplicationsChanged returns a channel of capacity 1 that is signalled when the result of Applications changes.
func (t *Target) ApplicationsChanged() <-chan struct{} { return t.applicationsChanged }

// SignalApplications signals ApplicationsChanged. A target whose applications are announced together with these calls
// it.
func (t *Target) SignalApplications() { clock.Signal(t.applicationsChanged) }

// Lane returns a lane. Lanes share only the subscribers, and each of these has at most one delivery with late replies.
func (t *Target) Lane(int) ring.Lane { return lane{t} }

func (t *Target) outlet(application string) *outlet {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.outlets[application]
}

// Subscribe adds a subscriber of an application.
func (t *Target) Subscribe(application string) clock.Subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.outlets[application]
	if o == nil {
		o = &outlet{deliveries: make(chan clock.Delivery), closed: make(chan struct{})}
		t.outlets[application] = o
		clock.Signal(t.applicationsChanged)
	}
	o.subscribers++
	clock.Signal(t.changed)
	return &subscription{target: t, application: application, outlet: o}
}

// Subscribers returns the number of subscribers of all applications.
func (t *Target) Subscribers() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, o := range t.outlets {
		n += o.subscribers
	}
	return n
}

type subscription struct {
	target      *Target
	application string
	outlet      *outlet
	once        sync.Once
}

// Deliveries returns the channel that the application's subscribers share.
func (s *subscription) Deliveries() <-chan clock.Delivery { return s.outlet.deliveries }

// Close removes the subscriber. Later calls do nothing.
func (s *subscription) Close() {
	s.once.Do(func() {
		s.target.mu.Lock()
		defer s.target.mu.Unlock()
		if s.outlet.subscribers--; s.outlet.subscribers == 0 {
			close(s.outlet.closed)
			delete(s.target.outlets, s.application)
			clock.Signal(s.target.applicationsChanged)
		}
	})
}
