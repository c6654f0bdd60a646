package rabbit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Bounds of wake-ups.
const (
	wakeQueue  = 1024   // wait in this process to be sent
	wakeBurst  = 128    // leave in one write, at most
	wakesAhead = 10_000 // wait in a node's queue at the broker while the node does not read
)

// Wakes carries wake-ups between nodes: who commits an alarm that is due soon on a shard of another node tells that node.
// They may be lost at any time; the owner's sweep finds what they would have told. Any goroutine.
type Wakes struct {
	s      *Session
	heard  func(body []byte)
	missed func()
	queue  chan wakeUp

	changed chan struct{} // capacity 1: shards are others
	mu      sync.Mutex
	shards  map[int]bool // that are to be heard; replaced, never changed
}

// wakeUp is one message to whoever has the shard.
type wakeUp struct {
	shard int
	body  []byte
}

// Wakes returns wake-ups through the session's broker, which needs the Run of the Wakes, not of the session. heard gets the
// body of each wake-up that arrives. missed is called when wake-ups may have been lost and all are heard from now on: a
// moment after Follow has added shards, and after each reconnect. Both are called from goroutines of Run and must not block.
func (s *Session) Wakes(heard func(body []byte), missed func()) *Wakes {
	return &Wakes{
		s: s, heard: heard, missed: missed,
		queue:   make(chan wakeUp, wakeQueue),
		changed: make(chan struct{}, 1),
	}
}

// Send tells whoever follows the shard, this node too. It never blocks: when the broker is away or slow, the oldest waiting
// wake-ups are dropped and counted. body must not be changed afterwards.
func (w *Wakes) Send(shard int, body []byte) {
	for {
		select {
		case w.queue <- wakeUp{shard, body}:
			return
		default:
		}
		select {
		case <-w.queue:
			w.s.metrics.wakesDropped.Inc()
		default:
		}
	}
}

// Follow sets which shards are heard, in place of those before. It does not wait until that is so.
func (w *Wakes) Follow(shards []int) {
	wanted := make(map[int]bool, len(shards))
	for _, shard := range shards {
		wanted[shard] = true
	}
	w.mu.Lock()
	w.shards = wanted
	w.mu.Unlock()
	signal(w.changed)
}

func (w *Wakes) wanted() map[int]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shards
}

// Run connects and reconnects until ctx ends; then it sends what waits, closes the connection and returns nil.
func (w *Wakes) Run(ctx context.Context) error {
	w.s.persist(ctx, roleWakes, func(ctx context.Context) (bool, error) {
		l := &wakeLife{w: w, failed: make(chan error, 2)}
		err := l.attend(ctx)
		if ctx.Err() == nil {
			w.s.health.warn(roleWakes, []string{"wake-ups between nodes are not exchanged, so that an alarm set on another " +
				"node shortly before it is due may ring a second late: " + err.Error()})
		}
		return l.passed, err
	})
	w.s.health.warn(roleWakes, nil)
	return nil
}

// exchange is where wake-ups are published to, with the shard as routing key.
func (w *Wakes) exchange() string { return w.s.cfg.Exchange + ".wake" }

// wakeLife is one life of the connection for wake-ups: its attend sends, and two goroutines hear and bind.
type wakeLife struct {
	w        *Wakes
	link     *link
	out, in  *channel
	queue    string
	heard    <-chan amqp.Delivery
	bound    map[int]bool // the binding goroutine's
	failed   chan error   // what ended the other goroutines
	passed   bool         // it was set up
	watchers sync.WaitGroup
}

// attend connects, sets up, and sends until the connection or ctx ends. It returns why.
func (l *wakeLife) attend(ctx context.Context) error {
	if err := l.connect(ctx); err != nil {
		return err
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	defer l.link.close() // ends the parts
	parts.Go(l.hear)
	parts.Go(l.bind)
	return l.send(ctx)
}

func (l *wakeLife) connect(ctx context.Context) error {
	s := l.w.s
	link, err := s.dial(ctx, roleWakes, &l.watchers)
	if err != nil {
		return err
	}
	setup, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(setup, link.kill)() // the library's calls know no context
	l.link = link
	if err := l.setUp(); err != nil {
		s.metrics.errors.WithLabelValues(kindSetup).Inc()
		link.close()
		return err
	}
	l.passed = true
	s.health.warn(roleWakes, nil)
	return nil
}

func (l *wakeLife) setUp() (err error) {
	if err := l.w.s.declareExchange(l.link, l.w.exchange()); err != nil {
		return err
	}
	if l.out, err = l.link.plain(); err != nil {
		return err
	}
	if l.in, err = l.link.plain(); err != nil {
		return err
	}
	queue, err := l.in.QueueDeclare("", false, true, true, false, amqp.Table{"x-max-length": int32(wakesAhead)})
	if err != nil {
		return fmt.Errorf("declare a queue for wake-ups: %w", describe(err))
	}
	l.queue = queue.Name
	l.heard, err = l.in.Consume(l.queue, "", true, true, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume wake-ups: %w", describe(err))
	}
	return nil
}

// hear passes on what arrives, until the consumer ends.
func (l *wakeLife) hear() {
	for d := range l.heard {
		l.w.s.metrics.wakesReceived.Inc()
		l.w.heard(d.Body)
	}
	l.failed <- errCancelled
}

// bind keeps the queue bound to the shards that are followed, until the connection ends.
func (l *wakeLife) bind() {
	for {
		if err := l.rebind(l.w.wanted()); err != nil {
			l.failed <- err
			return
		}
		select {
		case <-l.w.changed:
		case <-l.link.done:
			return
		}
	}
}

// rebind changes the bindings to those of wanted: at first there are none.
func (l *wakeLife) rebind(wanted map[int]bool) error {
	timer := time.AfterFunc(l.w.s.cfg.DialTimeout, l.link.kill)
	defer timer.Stop()
	added := false
	for _, shard := range slices.Sorted(maps.Keys(wanted)) {
		if l.bound[shard] {
			continue
		}
		if err := l.in.QueueBind(l.queue, strconv.Itoa(shard), l.w.exchange(), false, nil); err != nil {
			return fmt.Errorf("bind shard %d for wake-ups: %w", shard, describe(err))
		}
		added = true
	}
	for shard := range l.bound {
		if wanted[shard] {
			continue
		}
		if err := l.in.QueueUnbind(l.queue, strconv.Itoa(shard), l.w.exchange(), nil); err != nil {
			return fmt.Errorf("unbind shard %d from wake-ups: %w", shard, describe(err))
		}
	}
	l.bound = wanted
	if added {
		l.w.missed()
	}
	return nil
}

// send publishes what Send has queued, at once, until ctx or the connection ends.
func (l *wakeLife) send(ctx context.Context) error {
	for {
		queue := l.w.queue
		if l.link.blocked.Load() != nil {
			queue = nil // the broker does not read: the queue drops the oldest
		}
		select {
		case m := <-queue:
			if err := l.publish(m); err != nil {
				return fmt.Errorf("publish wake-ups: %w", l.cause(ctx, err))
			}
		case <-l.link.flipped:
		case err := <-l.failed:
			return l.cause(ctx, err)
		case <-l.link.done:
			return l.cause(ctx, errClosed)
		case fault := <-l.out.closed:
			if fault == nil {
				return errClosed
			}
			return describe(fault)
		case <-ctx.Done():
			l.flush()
			return ctx.Err()
		}
	}
}

// flush sends what waits, before the end.
func (l *wakeLife) flush() {
	for l.link.blocked.Load() == nil {
		select {
		case m := <-l.w.queue:
			if l.publish(m) != nil {
				return
			}
		default:
			return
		}
	}
}

// publish sends m and what waits behind it, in one write.
func (l *wakeLife) publish(m wakeUp) error {
	n := 1
	l.link.wire.begin(time.Now().Add(l.w.s.cfg.WriteTimeout))
	err := l.hand(m)
	for more := true; more && err == nil && n < wakeBurst; {
		select {
		case m = <-l.w.queue:
			n++
			err = l.hand(m)
		default:
			more = false
		}
	}
	if _, werr := l.link.wire.end(); err == nil {
		err = werr
	}
	if err != nil {
		l.w.s.metrics.wakesDropped.Add(float64(n))
		return err
	}
	l.w.s.metrics.wakesSent.Add(float64(n))
	return nil
}

func (l *wakeLife) hand(m wakeUp) error {
	_, err := l.out.PublishWithDeferredConfirm(l.w.exchange(), strconv.Itoa(m.shard), false, false, amqp.Publishing{
		Type: "wake", AppId: appID, DeliveryMode: amqp.Transient, Body: m.body,
	})
	return err
}

// cause returns the broker's own word on why err happened, or err.
func (l *wakeLife) cause(ctx context.Context, err error) error {
	if cause := l.link.lost(ctx, l.out, l.in); cause != nil {
		return cause
	}
	return err
}
