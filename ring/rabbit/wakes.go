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

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// Bounds of wake-ups, as numbers of wake-ups.
const (
	wakeQueue   = 1024   // most that wait in this process for a write
	wakeBurst   = 128    // most in one write
	wakeBacklog = 10_000 // most in a node's queue at the broker while the node does not read

	maxWakeBody = 64 << 10 // bytes; a larger message is not from clockd and arrives without its body
)

// Wakes carries wake-ups between nodes. A node that commits an alarm due soon sends a wake-up to the owner of its
// shard. Wake-ups may be lost at any time: the owner's sweep finds their alarms. Any goroutine may call its methods.
type Wakes struct {
	s      *Session
	heard  func(body []byte)
	missed func()
	queue  chan wakeUp

	changed chan struct{} // capacity 1; signalled when shards changes
	mu      sync.Mutex
	shards  map[int]bool // the followed shards; replaced as a whole, never modified
}

// wakeUp is one message to the followers of a shard.
type wakeUp struct {
	shard int
	body  []byte
}

// Wakes returns wake-ups through the session's broker. They work while their own Run runs; the session's Run need not
// run. heard gets the body of each wake-up that arrives. missed is called when wake-ups may have been lost and all
// later ones will arrive: a moment after Follow has added shards, and after each reconnect. Goroutines of Run call both
// functions; they must not block.
func (s *Session) Wakes(heard func(body []byte), missed func()) *Wakes {
	return &Wakes{
		s: s, heard: heard, missed: missed,
		queue:   make(chan wakeUp, wakeQueue),
		changed: make(chan struct{}, 1),
	}
}

// Send queues a wake-up for all nodes that follow the shard, this node included. It never blocks: if the queue is full
// because the broker is unreachable or slow, Send drops and counts the oldest wake-ups. The caller must not modify body
// afterwards.
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

// Follow replaces the set of followed shards. It returns before the bindings have changed.
func (w *Wakes) Follow(shards []int) {
	wanted := make(map[int]bool, len(shards))
	for _, shard := range shards {
		wanted[shard] = true
	}
	w.mu.Lock()
	w.shards = wanted
	w.mu.Unlock()
	clock.Signal(w.changed)
}

func (w *Wakes) wanted() map[int]bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.shards
}

// Run connects and reconnects until ctx ends. Then it sends the queued wake-ups, closes the connection and returns nil.
func (w *Wakes) Run(ctx context.Context) error {
	w.s.broker.KeepConnected(ctx, roleWakes, func(ctx context.Context) (bool, error) {
		l := &wakeConn{w: w, failed: make(chan error, 2)}
		err := l.serve(ctx)
		if ctx.Err() == nil {
			w.s.health.warn(roleWakes,
				[]string{"wake-ups between nodes are not exchanged, so that an alarm set on another " +
					"node shortly before it is due may ring a second late: " + err.Error()})
		}
		return l.established, err
	})
	w.s.health.warn(roleWakes, nil)
	return nil
}

// exchange returns the name of the exchange for wake-ups. The routing key is the shard.
func (w *Wakes) exchange() string { return w.s.cfg.Exchange + ".wake" }

// wakeConn owns one connection for wake-ups. serve sends; two more goroutines receive and bind.
type wakeConn struct {
	w                           *Wakes
	link                        *wire.Link
	sendChannel, receiveChannel *wire.Channel
	queue                       string
	deliveries                  <-chan amqp.Delivery
	bound                       map[int]bool // bound shards; owned by the binding goroutine
	failed                      chan error   // errors that ended the other two goroutines
	established                 bool         // the connection was set up
	watchers                    sync.WaitGroup
}

// serve connects, sets up, and sends until the connection or ctx ends. The error is the reason.
func (l *wakeConn) serve(ctx context.Context) error {
	if err := l.connect(ctx); err != nil {
		return err
	}
	var parts sync.WaitGroup
	defer parts.Wait()
	defer l.link.Close() // ends the other goroutines
	parts.Go(l.receive)
	parts.Go(l.bind)
	return l.send(ctx)
}

func (l *wakeConn) connect(ctx context.Context) error {
	s := l.w.s
	link, err := s.broker.Dial(ctx, roleWakes, wire.Bounded(maxWakeBody), &l.watchers)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, link.Kill)()
	l.link = link
	if err := l.setUp(); err != nil {
		s.metrics.errors.WithLabelValues(kindSetup).Inc()
		link.Close()
		return err
	}
	l.established = true
	s.health.warn(roleWakes, nil)
	return nil
}

func (l *wakeConn) setUp() (err error) {
	if err := l.w.s.declareExchange(l.link, l.w.exchange()); err != nil {
		return err
	}
	return l.link.Bounded(l.consume)
}

// consume opens both channels, declares an exclusive queue for this node, and consumes it.
func (l *wakeConn) consume() (err error) {
	if l.sendChannel, err = l.link.PlainChannel(); err != nil {
		return err
	}
	if l.receiveChannel, err = l.link.PlainChannel(); err != nil {
		return err
	}
	queue, err := l.receiveChannel.QueueDeclare("", false, true, true, false,
		amqp.Table{"x-max-length": int32(wakeBacklog)})
	if err != nil {
		return fmt.Errorf("declare a queue for wake-ups: %w", wire.Describe(err))
	}
	l.queue = queue.Name
	l.deliveries, err = l.receiveChannel.Consume(l.queue, "", true, true, false, false, nil)
	if err != nil {
		return fmt.Errorf("consume wake-ups: %w", wire.Describe(err))
	}
	return nil
}

// receive passes on wake-ups until the consumer ends.
func (l *wakeConn) receive() {
	for d := range l.deliveries {
		l.w.s.metrics.wakesReceived.Inc()
		l.w.heard(d.Body)
	}
	l.failed <- wire.ErrCancelled
}

// bind keeps the queue bound to the followed shards until the connection ends.
func (l *wakeConn) bind() {
	for {
		if err := l.rebind(l.w.wanted()); err != nil {
			l.failed <- err
			return
		}
		select {
		case <-l.w.changed:
		case <-l.link.Done():
			return
		}
	}
}

// rebind binds the queue to exactly the wanted shards. A new connection has no bindings.
func (l *wakeConn) rebind(wanted map[int]bool) error {
	added := false
	for _, shard := range slices.Sorted(maps.Keys(wanted)) {
		if l.bound[shard] {
			continue
		}
		err := l.link.Bounded(func() error {
			return l.receiveChannel.QueueBind(l.queue, strconv.Itoa(shard), l.w.exchange(), false, nil)
		})
		if err != nil {
			return fmt.Errorf("bind shard %d for wake-ups: %w", shard, wire.Describe(err))
		}
		added = true
	}
	for shard := range l.bound {
		if wanted[shard] {
			continue
		}
		err := l.link.Bounded(func() error {
			return l.receiveChannel.QueueUnbind(l.queue, strconv.Itoa(shard),
				l.w.exchange(), nil)
		})
		if err != nil {
			return fmt.Errorf("unbind shard %d from wake-ups: %w", shard, wire.Describe(err))
		}
	}
	l.bound = wanted
	if added {
		l.w.missed()
	}
	return nil
}

// send publishes queued wake-ups at once, until ctx or the connection ends.
func (l *wakeConn) send(ctx context.Context) error {
	for {
		queue := l.w.queue
		if l.link.Blocked() != nil {
			queue = nil // the broker does not read; Send drops the oldest
		}
		select {
		case m := <-queue:
			if err := l.publish(m); err != nil {
				return fmt.Errorf("publish wake-ups: %w", l.reasonOf(ctx, err))
			}
		case <-l.link.BlockedChanged():
		case err := <-l.failed:
			return l.reasonOf(ctx, err)
		case <-l.link.Done():
			return l.reasonOf(ctx, wire.ErrClosed)
		case fault := <-l.sendChannel.Closed():
			if fault == nil {
				return wire.ErrClosed
			}
			return wire.Describe(fault)
		case <-ctx.Done():
			l.flush()
			return ctx.Err()
		}
	}
}

// flush sends the queued wake-ups before the end.
func (l *wakeConn) flush() {
	for l.link.Blocked() == nil {
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

// publish sends m and up to wakeBurst-1 queued wake-ups, in one write.
func (l *wakeConn) publish(m wakeUp) error {
	n := 1
	l.link.BeginDelivery(ring.Limits{WriteBy: time.Now().Add(l.w.s.cfg.WriteTimeout)})
	err := l.publishOne(m)
	for more := true; more && err == nil && n < wakeBurst; {
		select {
		case m = <-l.w.queue:
			n++
			err = l.publishOne(m)
		default:
			more = false
		}
	}
	if _, werr := l.link.EndDelivery(); err == nil {
		err = werr
	}
	if err != nil {
		l.w.s.metrics.wakesDropped.Add(float64(n))
		return err
	}
	l.w.s.metrics.wakesSent.Add(float64(n))
	return nil
}

func (l *wakeConn) publishOne(m wakeUp) error {
	_, err := l.sendChannel.PublishWithDeferredConfirm(l.w.exchange(), strconv.Itoa(m.shard), false, false, amqp.Publishing{
		Type: "wake", AppId: appID, DeliveryMode: amqp.Transient, Body: m.body,
	})
	return err
}

// reasonOf returns the broker's reason for err, or err without one.
func (l *wakeConn) reasonOf(ctx context.Context, err error) error {
	if cause := l.link.Lost(ctx, l.sendChannel, l.receiveChannel); cause != nil {
		return cause
	}
	return err
}
