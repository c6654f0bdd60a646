package stream

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

var _ ring.Target = (*Target)(nil)

// Target hands rings to subscribers.
type Target struct {
	changed    chan struct{} // capacity 1; see Changed
	subscribed chan struct{} // capacity 1; see Subscribed

	mu      sync.Mutex
	outlets map[string]*outlet // outlets by application; each has at least one subscriber
}

// outlet hands the rings of one application to its subscribers. All of them receive from one channel, so a free subscriber takes
// the next delivery.
type outlet struct {
	deliveries  chan clock.Delivery
	subscribers int
	closed      chan struct{} // closed when the last subscriber has left
}

// New returns a Target without subscribers.
func New() *Target {
	return &Target{changed: make(chan struct{}, 1), subscribed: make(chan struct{}, 1), outlets: map[string]*outlet{}}
}

// Usable returns nil, because a stream needs no connection of its own. Accepts tells whether an application has a subscriber.
func (t *Target) Usable() error { return nil }

// Accepts reports whether the application has a subscriber.
func (t *Target) Accepts(application string) bool { return t.outlet(application) != nil }

// Changed returns a channel of capacity 1 that is signalled when a subscriber comes.
func (t *Target) Changed() <-chan struct{} { return t.changed }

// Applications returns the applications with a subscriber, sorted; nil if there is none.
func (t *Target) Applications() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Sorted(maps.Keys(t.outlets))
}

// Subscribed returns a channel of capacity 1 that is signalled when the result of Applications changes.
func (t *Target) Subscribed() <-chan struct{} { return t.subscribed }

// Lane returns a lane. Lanes share only the subscribers.
func (t *Target) Lane() ring.Lane { return lane{t} }

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
		clock.Signal(t.subscribed)
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
			clock.Signal(s.target.subscribed)
		}
	})
}

// lane hands over one batch at a time.
type lane struct{ target *Target }

// maxDelivery bounds the rings that one subscriber gets at once, so that several subscribers share a large batch.
const maxDelivery = 64

// Open does nothing, because a stream has nothing to connect.
func (lane) Open(context.Context, int) error { return nil }

// Broken returns nil: the lane never breaks.
func (lane) Broken() <-chan struct{} { return nil }

// Deliver splits the rings by application and hands each part to the application's free subscribers. It serves all applications
// concurrently, so a subscriber that does not read delays only its own application.
func (l lane) Deliver(ctx context.Context, rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	outcomes := make([]clock.Outcome, len(rings))
	var applications sync.WaitGroup
	for application, ringIndexes := range byApplication(rings) {
		part := handover{
			limits: limits, rings: rings, outcomes: outcomes,
			reports: make(chan report, len(ringIndexes)), // at most one report per ring, so a report never blocks
		}
		applications.Go(func() {
			part.handOver(ctx, l.target.outlet(application), ringIndexes)
			part.await(ctx)
		})
	}
	applications.Wait()
	return outcomes
}

// Close does nothing, because a lane holds no resources.
func (l lane) Close() error { return nil }

// byApplication returns the indexes of each application's rings, in the order of rings.
func byApplication(rings []clock.Ring) map[string][]int {
	indexes := map[string][]int{}
	for i := range rings {
		indexes[rings[i].Application] = append(indexes[rings[i].Application], i)
	}
	return indexes
}

// handover is one application's part of a delivery.
type handover struct {
	limits     ring.Limits
	rings      []clock.Ring
	outcomes   []clock.Outcome // outcomes of the whole delivery; a handover writes only its own application's outcomes
	reports    chan report
	unreported int // deliveries that a subscriber has taken and not yet reported
}

// report is a subscriber's result of one delivery.
type report struct {
	rings []int // indexes of the delivery's rings
	err   error // nil: written and flushed
}

// handOver hands the rings to subscribers of the outlet, delivery by delivery, until the write limit. A nil outlet has no
// subscriber.
func (h *handover) handOver(ctx context.Context, out *outlet, ringIndexes []int) {
	if out == nil {
		h.set(ringIndexes, clock.Unsent, "the application has no subscriber")
		return
	}
	limit := time.NewTimer(time.Until(h.limits.WriteBy))
	defer limit.Stop()
	for len(ringIndexes) > 0 {
		if h.limits.Late() { // the select below may prefer a subscriber to the timer
			h.set(ringIndexes, clock.Untaken, "no subscriber took the ring in time")
			return
		}
		part := ringIndexes[:min(len(ringIndexes), maxDelivery)]
		select {
		case out.deliveries <- h.delivery(part):
			h.unreported++
			h.set(part, clock.Doubtful, "the subscriber did not report whether the ring was written")
			ringIndexes = ringIndexes[len(part):]
		case r := <-h.reports:
			h.noteReport(r)
		case <-out.closed:
			h.set(ringIndexes, clock.Unsent, "the last subscriber left")
			return
		case <-limit.C:
			h.set(ringIndexes, clock.Untaken, "no subscriber took the ring in time")
			return
		case <-ctx.Done():
			h.set(ringIndexes, clock.Unsent, "stopping")
			return
		}
	}
}

func (h *handover) delivery(ringIndexes []int) clock.Delivery {
	rings := make([]clock.Ring, len(ringIndexes))
	for i, ringIndex := range ringIndexes {
		rings[i] = h.rings[ringIndex]
	}
	return clock.Delivery{Rings: rings, Late: h.limits.Late, Done: func(err error) { h.reports <- report{rings: ringIndexes, err: err} }}
}

// await waits until all taken deliveries are reported, at most until the reply limit.
func (h *handover) await(ctx context.Context) {
	limit := time.NewTimer(time.Until(h.limits.ReplyBy))
	defer limit.Stop()
	for h.unreported > 0 {
		select {
		case r := <-h.reports:
			h.noteReport(r)
		case <-limit.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

func (h *handover) noteReport(r report) {
	h.unreported--
	if errors.Is(r.err, clock.ErrUnsent) {
		h.set(r.rings, clock.Unsent, "the subscriber's turn came too late")
		return
	}
	if r.err != nil {
		h.set(r.rings, clock.Doubtful, "the subscriber's connection failed: "+r.err.Error())
		return
	}
	h.set(r.rings, clock.Confirmed, "")
}

func (h *handover) set(ringIndexes []int, kind clock.OutcomeKind, reason string) {
	for _, i := range ringIndexes {
		h.outcomes[i] = clock.Outcome{Kind: kind, Reason: reason}
	}
}
