package httpcall

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

var _ ring.Target = (*Target)(nil)

// Target sends rings to the applications' endpoints. The packages of the targets add what a request is.
type Target struct {
	cfg       Config
	deps      Deps
	slots     *slots
	clients   transports
	receivers receivers
	dials     failedDials
	metrics   *metrics
	changed   chan struct{}   // capacity 1; see Changed
	ctx       context.Context //nolint:containedctx // ends with Close, and all requests with it
	cancel    func()          // ends ctx

	maxPatience time.Duration // see SetPatience

	mu     sync.Mutex // guards closed, and the additions to calls
	closed bool
	calls  sync.WaitGroup // requests under way
}

var errClosed = errors.New("the target is closed")

// Reasons why the target does not accept an application.
var (
	errNoEndpoint    = errors.New("the settings of the application name no endpoint")
	errReceiverWaits = errors.New("the receiver has asked to wait (Retry-After)")
)

// New returns a Target for a valid configuration. It sends nothing by itself.
func New(cfg Config, deps Deps) (*Target, error) {
	if deps.Dial == nil {
		guard, err := NewGuard(cfg.Allow...)
		if err != nil {
			return nil, err
		}
		deps.Dial = guard.DialContext
	}
	t := &Target{
		cfg: cfg, deps: deps, slots: newSlots(cfg.InFlight, cfg.HostConcurrency),
		receivers: receivers{all: map[string]*receiver{}},
		clients:   transports{create: deps.NewTransport, bodies: map[string][]int{}},
		dials:     failedDials{errors: map[string]failedDial{}}, changed: make(chan struct{}, 1),
		maxPatience: maxPatience,
	}
	t.ctx, t.cancel = context.WithCancel(context.Background())
	t.metrics = newMetrics(deps.Registerer, deps.Metrics, t.slots)
	return t, nil
}

// SetPatience replaces the time for which a batch waits for replies. Tests call it before the first delivery.
func (t *Target) SetPatience(patience, longest time.Duration) {
	t.slots.patience, t.maxPatience = patience, longest
}

// UnderWay returns the number of requests under way.
func (t *Target) UnderWay() int {
	t.slots.mu.Lock()
	defer t.slots.mu.Unlock()
	return t.slots.all.requests
}

// Usable returns nil until Close: there is no connection that all applications share.
func (t *Target) Usable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errClosed
	}
	return nil
}

// Accepts returns nil if the receiver has an endpoint, and has not asked to wait.
func (t *Target) Accepts(receiver string) error {
	if _, has := t.deps.Endpoint(receiver); !has && !clock.IsDestination(receiver) {
		return errNoEndpoint
	}
	if t.receivers.isPaused(receiver) {
		return errReceiverWaits
	}
	return nil
}

// Changed returns a channel of capacity 1. It is signalled when endpoints have changed, and when a receiver's wait is
// over.
func (t *Target) Changed() <-chan struct{} { return t.changed }

// EndpointsChanged must be called when the results of Deps.Endpoint have changed.
func (t *Target) EndpointsChanged() { clock.Signal(t.changed) }

// Lane returns a lane. Lanes share the HTTP clients. The number of requests under way bounds the late deliveries.
func (t *Target) Lane(int) ring.Lane { return lane{t} }

// Close ends all requests and connections, and waits for them. Call it after the loop has ended.
func (t *Target) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.cancel()
	t.calls.Wait()
	t.clients.close()
}

// begin counts a request under way, unless the target is closed. The caller calls t.calls.Done at its end.
func (t *Target) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.calls.Add(1)
	return true
}

// pause holds the rings of a receiver, and signals the end of its wait.
func (t *Target) pause(r *receiver, wait time.Duration) {
	if wait <= 0 {
		return
	}
	time.AfterFunc(time.Until(r.pause(wait))+time.Millisecond, t.EndpointsChanged)
}
