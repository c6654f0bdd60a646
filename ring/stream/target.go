package stream

import (
	"context"
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
	changed    chan struct{}
	subscribed chan struct{}

	mu   sync.Mutex
	open map[string]*outlet // by application; those with at least one subscriber
}

// outlet is where the rings of one application leave: its subscribers receive from one channel, so who is free takes the
// next delivery.
type outlet struct {
	deliveries  chan clock.Delivery
	subscribers int
	closed      chan struct{} // when the last subscriber has gone
}

// New returns a Target without subscribers.
func New() *Target {
	return &Target{changed: make(chan struct{}, 1), subscribed: make(chan struct{}, 1), open: map[string]*outlet{}}
}

// Usable returns nil: a stream needs nothing but subscribers, see Accepts.
func (t *Target) Usable() error { return nil }

// Accepts reports whether the application has a subscriber.
func (t *Target) Accepts(application string) bool { return t.outlet(application) != nil }

// Changed is signalled when subscribers come.
func (t *Target) Changed() <-chan struct{} { return t.changed }

// Applications returns those with a subscriber, sorted; nil when there is none.
func (t *Target) Applications() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.open))
}

// Subscribed returns a channel of capacity 1 that is signalled when Applications answers differently.
func (t *Target) Subscribed() <-chan struct{} { return t.subscribed }

// signal wakes whoever waits on a channel of capacity 1.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Lane returns a lane; lanes share nothing but the subscribers.
func (t *Target) Lane() ring.Lane { return lane{t} }

func (t *Target) outlet(application string) *outlet {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[application]
}

// Subscribe adds a subscriber of an application.
func (t *Target) Subscribe(application string) clock.Subscription {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.open[application]
	if o == nil {
		o = &outlet{deliveries: make(chan clock.Delivery), closed: make(chan struct{})}
		t.open[application] = o
		signal(t.subscribed)
	}
	o.subscribers++
	signal(t.changed)
	return &subscription{target: t, application: application, outlet: o}
}

// Subscribers returns how many there are of all applications.
func (t *Target) Subscribers() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := 0
	for _, o := range t.open {
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

// Close removes the subscriber.
func (s *subscription) Close() {
	s.once.Do(func() {
		s.target.mu.Lock()
		defer s.target.mu.Unlock()
		if s.outlet.subscribers--; s.outlet.subscribers == 0 {
			close(s.outlet.closed)
			delete(s.target.open, s.application)
			signal(s.target.subscribed)
		}
	})
}

// lane hands over one batch at a time.
type lane struct{ t *Target }

// maxDelivery bounds the rings handed to one subscriber at once, so that several share a herd.
const maxDelivery = 64

// Open does nothing: there is nothing to connect.
func (lane) Open(context.Context) {}

// Deliver splits the rings by application and hands each part to whichever subscriber is free, all applications at once:
// one that does not read takes none of the others' time.
func (l lane) Deliver(ctx context.Context, rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	outcomes := make([]clock.Outcome, len(rings))
	var applications sync.WaitGroup
	for application, at := range byApplication(rings) {
		h := handover{
			limits: limits, rings: rings, outcomes: outcomes,
			answers: make(chan answer, len(at)), // at most one a ring, so that an answer never blocks
		}
		applications.Go(func() {
			h.hand(ctx, l.t.outlet(application), at)
			h.await(ctx)
		})
	}
	applications.Wait()
	return outcomes
}

// Close has nothing to free.
func (l lane) Close() error { return nil }

func byApplication(rings []clock.Ring) map[string][]int {
	at := map[string][]int{}
	for i := range rings {
		at[rings[i].Application] = append(at[rings[i].Application], i)
	}
	return at
}

// handover is one application's part of a Deliver.
type handover struct {
	limits   ring.Limits
	rings    []clock.Ring
	outcomes []clock.Outcome // of all applications; the others' are not touched
	answers  chan answer
	waiting  int // deliveries taken up and not yet answered
}

// answer is what a subscriber said of the rings at the indexes.
type answer struct {
	at  []int
	err error
}

// hand gives the rings at the indexes to subscribers of o, delivery by delivery, until the write limit.
func (h *handover) hand(ctx context.Context, o *outlet, at []int) {
	if o == nil {
		h.set(at, clock.Unsent, "nobody is subscribed")
		return
	}
	limit := time.NewTimer(time.Until(h.limits.Write))
	defer limit.Stop()
	for len(at) > 0 {
		if time.Until(h.limits.Write) <= 0 { // select may prefer a subscriber
			h.set(at, clock.Untaken, "no subscriber took it up in time")
			return
		}
		part := at[:min(len(at), maxDelivery)]
		select {
		case o.deliveries <- h.delivery(part):
			h.waiting++
			h.set(part, clock.Doubtful, "the subscriber did not say whether it was written")
			at = at[len(part):]
		case a := <-h.answers:
			h.note(a)
		case <-o.closed:
			h.set(at, clock.Unsent, "the last subscriber went")
			return
		case <-limit.C:
			h.set(at, clock.Untaken, "no subscriber took it up in time")
			return
		case <-ctx.Done():
			h.set(at, clock.Unsent, "stopping")
			return
		}
	}
}

func (h *handover) delivery(at []int) clock.Delivery {
	rings := make([]clock.Ring, len(at))
	for i, k := range at {
		rings[i] = h.rings[k]
	}
	return clock.Delivery{Rings: rings, Done: func(err error) { h.answers <- answer{at: at, err: err} }}
}

// await waits for the answers of all deliveries that were taken up.
func (h *handover) await(ctx context.Context) {
	limit := time.NewTimer(time.Until(h.limits.Answer))
	defer limit.Stop()
	for h.waiting > 0 {
		select {
		case a := <-h.answers:
			h.note(a)
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (h *handover) note(a answer) {
	h.waiting--
	if a.err != nil {
		h.set(a.at, clock.Doubtful, "the subscriber's connection failed: "+a.err.Error())
		return
	}
	h.set(a.at, clock.Confirmed, "")
}

func (h *handover) set(at []int, kind clock.OutcomeKind, reason string) {
	for _, i := range at {
		h.outcomes[i] = clock.Outcome{Kind: kind, Reason: reason}
	}
}
