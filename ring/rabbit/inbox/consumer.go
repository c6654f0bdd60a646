package inbox

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// consumer owns one connection that takes deliveries for an inbox. Three goroutines serve it. One takes deliveries from
// the library. One submits them in batches. The third runs serve, which settles each delivery with the broker when its
// outcome is known.
//
//	broker ──▶ taken ──submit──▶ inbox ──settle──▶ settlements ──▶ broker: ack, or nack after a pause
//	                      ▲                              ▲    │
//	                      └──────── resubmitted ◀────────┼────┤
//	                                                     └── copier ◀──┘  only if deliveries are published again
//
// A fourth goroutine runs the copier, if the inbox has rules for copies. It publishes answers again if the queue may
// have a delivery limit: a nack would drop the answer after some pauses. It publishes dead letters of the intake. The
// original is acked after the confirm of its copy. Without a confirm the original is submitted to the inbox again, and
// stays unacked meanwhile. The same happens at once to an answer from a stream (fromStream).
type consumer struct {
	s           *shared
	inbox       inbox
	link        *wire.Link
	ch          *wire.Channel
	tag         string
	established bool // the connection was set up
	replaces    bool // the consumer takes the place of a silent one
	waiting     int  // messages ready in the queue just before the consumer began; only if it replaces one
	watchers    sync.WaitGroup

	copier      *copier         // nil if no delivery is published again
	taken       chan *incoming  // deliveries not submitted yet; never full, because the broker sends at most the prefetch
	resubmitted chan *incoming  // deliveries to submit again; never full
	settlements chan settlement // settlements to carry out; capacity for every delivery in flight
	submitted   chan struct{}   // closed when no more deliveries will be submitted
	ended       chan struct{}   // closed when serve returns; later settlements are dropped
	working     sync.WaitGroup  // deliveries in the hands of the inbox
	endTurn     func()          // ends the consumer in order
	turnEnded   bool            // endTurn was called for a settlement
	renewed     bool            // endTurn was called for a consumer that takes the place of this one; the link stays open

	received       atomic.Int64 // deliveries that have come
	receivedBefore int64        // received at the last look for silence; owned by the settling goroutine

	inFlight         atomic.Int64 // deliveries received and not settled
	pausedDeliveries int64        // deliveries of inFlight that pause or wait for a copy; owned by the settling goroutine
}

func newConsumer(s *shared, in inbox) *consumer {
	n := in.prefetch()
	return &consumer{
		s: s, inbox: in, taken: make(chan *incoming, n), resubmitted: make(chan *incoming, n),
		settlements: make(chan settlement, n),
		submitted:   make(chan struct{}), ended: make(chan struct{}),
	}
}

// consume serves consumers of the inbox, one after the other over one connection, until the connection, the turn or ctx
// ends. The error is the reason. It returns the last consumer.
//
// A consumer that is silent is renewed, because it may be lost. RabbitMQ 3.10 does not cancel the consumers of a quorum
// queue that is deleted. If the queue is declared again at once, the broker counts the old consumer for the new queue,
// and gives it messages. Its channel drops them, because they are numbered from the start again. The end of the channel
// gives them back. If the queue is a stream, the renewed consumer does not get what was published meanwhile; other
// nodes may. noteLoss logs a loss that it notices.
func (s *shared) consume(ctx context.Context, in inbox) (c *consumer, err error) {
	var open *wire.Link
	for {
		c = newConsumer(s, in)
		c.established, c.replaces = open != nil, open != nil
		if err = c.serve(ctx, open); !c.renewed {
			return c, err
		}
		if ctx.Err() != nil {
			c.link.Close()
			return c, err
		}
		open = c.link
	}
}

// serve connects unless a link is open, sets up, and consumes until the connection, the turn or ctx ends. The error is
// the reason. The link is closed then, unless the consumer is renewed.
func (c *consumer) serve(ctx context.Context, open *wire.Link) error {
	deliveries, err := c.connect(ctx, open)
	if err != nil {
		return err
	}
	ctx, c.endTurn = context.WithCancel(ctx)
	defer c.endTurn()
	workCtx, cancel := draining(ctx)
	var parts sync.WaitGroup
	defer func() {
		close(c.ended)
		cancel()
		if c.renewed {
			_ = c.link.Bounded(c.ch.Close) // an error ends the next consumer
		} else {
			c.link.Close() // ends the other goroutines
		}
		parts.Wait()
		c.working.Wait()
	}()
	// the library delivers one message at a time; this goroutine collects them for batches
	parts.Go(func() {
		defer close(c.taken)
		for d := range deliveries {
			c.inFlight.Add(1)
			if c.received.Add(1) == 1 {
				c.noteLoss(&d)
			}
			c.taken <- &incoming{Delivery: d, received: time.Now(), ringAt: clock.NoInstant}
		}
	})
	parts.Go(func() {
		defer close(c.submitted)
		for batch := c.nextBatch(); len(batch) > 0; batch = c.nextBatch() {
			c.submit(workCtx, batch)
		}
	})
	if c.copier != nil {
		parts.Go(func() { c.copier.run(workCtx) })
	}
	defer context.AfterFunc(ctx, c.cancel)()
	return c.settle(ctx, workCtx)
}

func (c *consumer) connect(ctx context.Context, link *wire.Link) (<-chan amqp.Delivery, error) {
	s, role := c.s, c.inbox.role()
	if link == nil {
		var err error
		if link, err = s.Broker.Dial(ctx, role, c.inbox.use(), &c.watchers); err != nil {
			return nil, err
		}
	}
	defer context.AfterFunc(ctx, link.Kill)()
	c.link = link
	warnings, deliveries, err := c.setUp()
	if err != nil {
		s.SetupErrors.Inc()
		link.Close()
		return nil, err
	}
	c.established = true
	if s.Warn(role, warnings) {
		for _, w := range warnings {
			s.Log.Warn("consumed queue is not as it should be", "broker", link.Address(), "warning", w)
		}
	}
	return deliveries, nil
}

func (c *consumer) setUp() (warnings []string, deliveries <-chan amqp.Delivery, err error) {
	copies, warnings, err := c.inbox.prepare(c.link)
	if err != nil {
		return nil, nil, err
	}
	if copies != nil {
		c.copier = newCopier(c.s, copies, c.inbox.prefetch(), c.queueSettlement)
	}
	err = c.link.Bounded(func() (err error) {
		deliveries, err = c.consume(c.inbox.queue())
		return err
	})
	return warnings, deliveries, err
}

func (c *consumer) consume(queue string) (deliveries <-chan amqp.Delivery, err error) {
	if c.ch, err = c.link.PlainChannel(); err != nil {
		return nil, err
	}
	if err := c.ch.Qos(c.inbox.prefetch(), 0, false); err != nil {
		return nil, fmt.Errorf("set the prefetch of queue %q: %w", queue, wire.Describe(err))
	}
	if c.replaces {
		q, err := c.ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil {
			return nil, fmt.Errorf("find queue %q: %w", queue, wire.Describe(err))
		}
		c.waiting = q.Messages
	}
	c.tag = "clockd"
	if deliveries, err = c.ch.Consume(queue, c.tag, false, false, false, false, nil); err != nil {
		return nil, fmt.Errorf("consume queue %q: %w", queue, wire.Describe(err))
	}
	return deliveries, nil
}

// cancel tells the broker to send no more messages. The library passes on the messages in its hands, and then ends the
// deliveries.
func (c *consumer) cancel() {
	timer := time.AfterFunc(inboxDrain, c.link.Kill) // not earlier: this connection acks the deliveries in flight
	defer timer.Stop()
	_ = c.ch.Cancel(c.tag, false) // fails only when the channel has ended
}

// nextBatch waits for one delivery and returns it with all other deliveries in c.taken and c.resubmitted. It returns
// nil when c.taken is closed.
func (c *consumer) nextBatch() []*incoming {
	var first *incoming // nil when c.taken is closed
	select {
	case first = <-c.taken:
	case first = <-c.resubmitted:
	}
	if first == nil {
		return nil
	}
	batch := []*incoming{first}
	for len(c.taken) > 0 {
		batch = append(batch, <-c.taken)
	}
	for len(c.resubmitted) > 0 {
		batch = append(batch, <-c.resubmitted)
	}
	return batch
}

// endReason returns the reason why no more messages arrive.
func (c *consumer) endReason(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.link.Lost(ctx, c.ch); err != nil {
		return err
	}
	return wire.ErrCancelled
}

// submit passes a batch to the inbox. It blocks until the batch is submitted, not until its outcomes are known.
func (c *consumer) submit(workCtx context.Context, batch []*incoming) {
	if c.link.IsClosed() { // the broker delivers the batch again
		return
	}
	workCtx, cancel := context.WithTimeout(workCtx, clock.RequestTimeout)
	var open atomic.Int64
	open.Store(int64(len(batch)))
	c.working.Add(len(batch))
	c.inbox.submit(workCtx, batch, func(s settlement) {
		defer c.working.Done()
		c.queueSettlement(s)
		if open.Add(-1) == 0 {
			cancel()
		}
	})
}

// queueSettlement hands a settlement to the settling goroutine.
func (c *consumer) queueSettlement(s settlement) {
	select {
	case c.settlements <- s:
	case <-c.ended:
	}
}

// settle carries out settlements until the connection ends, until workCtx ends, or until ctx has ended and all outcomes
// are known. The error is the reason. The broker delivers messages without an ack again.
func (c *consumer) settle(ctx, workCtx context.Context) error {
	submitted := c.submitted
	looks := time.NewTicker(c.s.silence)
	defer looks.Stop()
	for {
		select {
		case next := <-c.settlements:
			if err := c.settleQueued(next); err != nil {
				return err
			}
		case <-submitted:
			submitted = nil
		case <-looks.C:
			c.renewIfSilent()
		case <-c.link.Done():
			return c.endReason(ctx)
		case <-workCtx.Done():
			return c.endReason(ctx)
		}
		if submitted == nil && (ctx.Err() == nil || c.inFlight.Load() == c.pausedDeliveries+int64(len(c.resubmitted))) {
			return c.endReason(ctx)
		}
	}
}

// silence is the default of shared.silence.
const silence = time.Minute

// renewIfSilent ends the consumer in order if no message has come since the last call and none is in flight. A new
// consumer takes its place. A message that is held is in flight: its queue may count each redelivery.
func (c *consumer) renewIfSilent() {
	if c.turnEnded || c.renewed {
		return
	}
	received := c.received.Load()
	if received == c.receivedBefore && c.inFlight.Load() == 0 {
		c.renewed = true
		c.endTurn()
	}
	c.receivedBefore = received
}

// noteLoss logs the probable loss of a silent consumer, from the first delivery of the consumer that replaces it. The
// message was ready when the new consumer began, and the broker had delivered it before: to the silent consumer, which
// got nothing. The loss is not certain. Another node may have given the message back just then.
func (c *consumer) noteLoss(first *amqp.Delivery) {
	if c.waiting > 0 && first.Redelivered {
		c.s.Log.Warn("silent consumer was renewed and was probably lost: messages that were delivered before come again",
			"broker", c.link.Address(), "queue", c.inbox.queue(), "count", c.waiting)
	}
}

// settleQueued carries out next and all other queued settlements, in one write.
func (c *consumer) settleQueued(next settlement) error {
	c.link.BeginDelivery(ring.Limits{WriteBy: time.Now().Add(c.s.Broker.WriteTimeout)})
	err := c.settleOne(next)
	for more := true; more && err == nil; {
		select {
		case next = <-c.settlements:
			err = c.settleOne(next)
		default:
			more = false
		}
	}
	if _, werr := c.link.EndDelivery(); err == nil {
		err = werr
	}
	return c.wrap("settle deliveries", err)
}

func (c *consumer) settleOne(s settlement) error {
	if s.endTurn && !c.turnEnded {
		c.turnEnded = true
		c.endTurn()
	}
	switch {
	case s.action == actionPause:
		c.pauseOne(s, actionPutBack)
		return nil
	case s.action == actionHold:
		c.pauseOne(s, actionResubmit)
		return nil
	case s.action == actionPutBack && c.copier != nil && fromStream(s.delivery):
		s.action = actionResubmit
	case s.action == actionPutBack && c.copier != nil, s.action == actionDeadLetter:
		c.copier.requests <- s // never full
		return nil
	}
	if s.paused {
		c.pausedDeliveries--
	}
	if s.action == actionResubmit {
		c.resubmitted <- s.delivery
		return nil
	}
	c.inFlight.Add(-1)
	tag := s.delivery.DeliveryTag
	switch s.action {
	case actionAck, actionAckCopied:
		return c.ch.Ack(tag, false)
	case actionLeave:
		return nil
	default:
		return c.ch.Nack(tag, false, true)
	}
}

// pauseOne queues the settlement again after its pause, with another action.
func (c *consumer) pauseOne(s settlement, after action) {
	if !s.paused {
		c.pausedDeliveries++
	}
	s.action, s.paused = after, true
	time.AfterFunc(s.pause, func() { c.queueSettlement(s) })
}

// fromStream reports whether the delivery comes from a stream. A stream delivers each message to every node and keeps
// it after the ack. So each node would copy each copy, without end. A requeue would lose the answer, because a stream
// does not deliver a message again.
func fromStream(d *incoming) bool {
	_, is := d.Headers["x-stream-offset"]
	return is
}

func (c *consumer) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if cause := c.link.Lost(context.Background(), c.ch); cause != nil {
		err = cause
	}
	return fmt.Errorf("%s: %w", what, err)
}

// draining returns a context that ends inboxDrain after ctx.
func draining(ctx context.Context) (context.Context, context.CancelFunc) {
	workCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(inboxDrain):
			cancel()
		case <-workCtx.Done():
		}
	})
	return workCtx, func() {
		stop()
		cancel()
	}
}
