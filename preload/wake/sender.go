package wake

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// windowMargin is how far another node's watermark may lie past this node's window: the other node may know a tighter
// bound of the database's clock, or a newer one.
const windowMargin = time.Second

// maxUnsent bounds the rows that wait to be sent.
const maxUnsent = 1 << 15

// SenderConfig sets which rows are due soon.
type SenderConfig struct {
	Window time.Duration // time ahead of now up to which all nodes' loaders read; no default
}

// Validate returns the reasons why the configuration is invalid, joined; nil if it is valid.
func (c SenderConfig) Validate() error {
	if c.Window <= 0 {
		return errors.New("the window of wake-ups must be positive: wake-ups announce alarms that are due within the loaders' window")
	}
	return nil
}

// SenderDeps are the dependencies of a Sender.
type SenderDeps struct {
	Ownership  Ownership
	Time       Time
	Registerer prometheus.Registerer
}

// Sender sends wake-ups for rows that this node committed and other nodes ring, if they are due soon. Rows that arrive
// during a send go together in the next send, by shard.
type Sender struct {
	cfg           SenderConfig
	ownership     Ownership
	time          Time
	sent, dropped prometheus.Counter // count rows
	courier       Courier            // nil: none
	wake          chan struct{}      // capacity 1; signalled when rows wait

	mu      sync.Mutex
	waiting map[int][]store.Due // rows to send, by shard
	count   int                 // rows in waiting; at most maxUnsent
}

// NewSender returns a Sender without a courier.
func NewSender(cfg SenderConfig, deps SenderDeps) (*Sender, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Sender{
		cfg: cfg, ownership: deps.Ownership, time: deps.Time, wake: make(chan struct{}, 1),
		waiting: map[int][]store.Due{},
		sent: newCounter("wakes_sent_total",
			"Alarms due soon that this node announced to another node with a wake-up."),
		dropped: newCounter("wakes_dropped_total",
			"Alarms due soon that this node did not announce, because too many wake-ups waited. The owner's sweep finds them."),
	}
	deps.Registerer.MustRegister(s.sent, s.dropped)
	return s, nil
}

// SendBy sets the courier. Call it before Run and before the first Announce. Without a courier, Announce ignores all
// rows, and other nodes find them by their sweeps.
func (s *Sender) SendBy(c Courier) { s.courier = c }

// Announce queues the rows that other nodes ring and whose position these nodes may have read past. It never blocks,
// and does not keep the slice. It drops and counts rows for which the queue has no room.
func (s *Sender) Announce(rows []store.Due) {
	if s.courier == nil || len(rows) == 0 {
		return
	}
	now, err := s.time.AtLeast()
	if err != nil {
		return
	}
	horizon, owned := now.Add(s.cfg.Window+windowMargin), s.ownership.Owned()
	var elsewhere []store.Due
	for _, d := range rows {
		_, owns := slices.BinarySearch(owned, d.Shard)
		if ringsHere := owns && s.ownership.Rings(d.Shard, d.Addressee()); !ringsHere && d.NextTryTime < horizon {
			elsewhere = append(elsewhere, d)
		}
	}
	s.push(elsewhere)
}

// push queues rows, up to maxUnsent in all. It drops and counts the others.
func (s *Sender) push(rows []store.Due) {
	if len(rows) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	room := min(len(rows), maxUnsent-s.count)
	for _, d := range rows[:room] {
		s.waiting[d.Shard] = append(s.waiting[d.Shard], d)
	}
	s.count += room
	s.dropped.Add(float64(len(rows) - room))
	clock.Signal(s.wake)
}

// Run sends queued rows until ctx ends. At the end it sends the rows that still wait. Stop it before the courier.
func (s *Sender) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			s.send()
			return nil
		case <-s.wake:
			s.send()
		}
	}
}

// send hands all queued rows to the courier.
func (s *Sender) send() {
	s.mu.Lock()
	waiting := s.waiting
	s.waiting, s.count = map[int][]store.Due{}, 0
	s.mu.Unlock()
	for _, shard := range slices.Sorted(maps.Keys(waiting)) {
		for _, body := range encodeWakes(shard, waiting[shard]) {
			s.courier.Send(shard, body)
		}
		s.sent.Add(float64(len(waiting[shard])))
	}
}
