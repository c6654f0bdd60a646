package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

var _ ring.Target = (*Target)(nil)

// Target produces rings to the topics of their applications.
type Target struct {
	cfg     Config
	deps    Deps
	changed chan struct{}  // capacity 1; see Changed
	ending  sync.WaitGroup // links that are being closed

	mu       sync.Mutex
	unusable error    // nil: the last probe succeeded
	working  []string // addresses of brokers that have replied to the last successful probe
}

var errNotProbed = errors.New("not connected yet")

// New returns a Target. It connects to nothing before Run.
func New(cfg Config, deps Deps) (*Target, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Dial == nil {
		deps.Dial = (&net.Dialer{}).DialContext
	}
	return &Target{cfg: cfg, deps: deps, changed: make(chan struct{}, 1), unusable: errNotProbed}, nil
}

// Usable returns nil when the last probe succeeded, else the reason why no broker can be used.
func (t *Target) Usable() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.unusable
}

// errNoTopic is the reason why the target does not accept an application.
var errNoTopic = errors.New("the settings of the application name no topic")

// Accepts returns nil if the receiver has a topic.
func (t *Target) Accepts(receiver string) error {
	if t.deps.Topics(receiver) == nil && !clock.IsDestination(receiver) {
		return errNoTopic
	}
	return nil
}

// topicOf returns where a ring goes, or the outcome of a ring without a topic.
func (t *Target) topicOf(r *clock.Ring) (*Topic, clock.Outcome) {
	if r.Own != (clock.OwnReceiver{}) {
		topic, err := t.deps.Own(r)
		if err != nil {
			return nil, clock.Withdrawn(r, err.Error())
		}
		return topic, clock.Outcome{}
	}
	topic := t.deps.Topics(r.Receiver())
	if topic == nil {
		return nil, clock.NoReceiver(r, "topic")
	}
	return topic, clock.Outcome{}
}

// Changed returns a channel of capacity 1. It is signalled when the cluster has become usable, and when topics of
// applications have changed.
func (t *Target) Changed() <-chan struct{} { return t.changed }

// TopicsChanged must be called when the results of Deps.Topics have changed.
func (t *Target) TopicsChanged() { clock.Signal(t.changed) }

// Lane returns a lane. The client keeps the payloads of late rings, so a lane awaits at most maxLateDeliveries.
func (t *Target) Lane(maxLate int) ring.Lane {
	l := &lane{target: t, broken: make(chan struct{}), places: make(chan struct{}, min(maxLate, maxLateDeliveries))}
	close(l.broken)
	return l
}

// Run probes the cluster until ctx ends, and then waits for the links that are being closed. Call it as long as lanes
// are used.
func (t *Target) Run(ctx context.Context) error {
	defer t.ending.Wait()
	client, err := kgo.NewClient(t.options(nil)...)
	if err != nil {
		return fmt.Errorf("kafka client: %w", err)
	}
	defer client.Close()
	p := newProber(client, t.cfg.Brokers)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		probing, cancel := context.WithTimeout(ctx, t.cfg.DialTimeout)
		working, err := p.probe(probing)
		cancel()
		if ctx.Err() == nil {
			t.note(working, err)
		}
		timer.Reset(t.cfg.ProbeInterval)
	}
}

// seeds returns the brokers that a new link begins with.
func (t *Target) seeds() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.working) == 0 {
		return t.cfg.Brokers
	}
	return t.working
}

// note takes the result of a probe, and logs changes.
func (t *Target) note(working []string, err error) {
	if err != nil {
		err = fmt.Errorf("no Kafka broker can be used: %w", err)
	}
	t.mu.Lock()
	before := t.unusable
	t.unusable = err
	if err == nil {
		t.working = working
	}
	t.mu.Unlock()
	switch {
	case err == nil && before != nil:
		t.deps.Log.Info("a Kafka broker can be used")
		clock.Signal(t.changed)
	case err != nil && (before == nil || errors.Is(before, errNotProbed)):
		t.deps.Log.Warn("no Kafka broker can be used: the alarms of its applications wait", "err", err)
	}
}
