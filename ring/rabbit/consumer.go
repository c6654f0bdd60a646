package rabbit

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// consumer owns one connection for answers. Three goroutines serve it. One takes deliveries from the library. One submits them in batches.
// The third runs serve, which settles each delivery with the broker when its outcome is known.
//
//	broker ──▶ taken ──submit──▶ Answerer ──done──▶ settlements ──settle──▶ broker: ack, or nack after a pause
//	                      ▲                               ▲             │
//	                      └────────── resubmitted ◀───────┼─────────────┤
//	                                                      └── copier ◀──┘  only if a requeue may drop answers
//
// If the queue may have a delivery limit, a nack would drop the answer after some pauses. Then a fourth goroutine runs the copier, which
// publishes a copy of each paused answer. The original is acked after the confirm of its copy. Without a confirm the original is submitted
// to the Answerer again, and stays unacked meanwhile. The same happens at once to an answer from a stream (fromStream).
type consumer struct {
	a           *Answers
	link        *link
	ch          *channel
	tag         string
	established bool // the connection was set up
	watchers    sync.WaitGroup

	copier      *copier             // nil if a requeue never drops an answer
	taken       chan *amqp.Delivery // deliveries not submitted yet; never full, because the broker sends at most the prefetch
	resubmitted chan *amqp.Delivery // deliveries to submit again; never full
	settlements chan settlement     // settlements to carry out; capacity for every delivery in flight
	submitted   chan struct{}       // closed when no more answers will be submitted
	ended       chan struct{}       // closed when serve returns; later settlements are dropped
	answering   sync.WaitGroup      // answers in the hands of the Answerer

	inFlight         atomic.Int64 // deliveries submitted and not settled
	pausedDeliveries int64        // deliveries of inFlight that pause or wait for a copy; owned by the settling goroutine
}

// settlement is what to do with one delivery.
type settlement struct {
	delivery *amqp.Delivery
	action   action
	pause    time.Duration // with actionPause: until the delivery is put back
}

// action says how to settle a delivery with the broker.
type action uint8

const (
	actionAck       action = iota // the delivery is acked
	actionPause                   // the delivery waits, and is put back after a pause
	actionPutBack                 // the delivery is requeued, or copied if a requeue may drop it
	actionAckCopied               // the copy of the delivery is confirmed: the delivery is acked
	actionResubmit                // the delivery is submitted to the Answerer again
)

func newConsumer(a *Answers) *consumer {
	n := a.s.cfg.AnswerPrefetch
	return &consumer{
		a: a, taken: make(chan *amqp.Delivery, n), resubmitted: make(chan *amqp.Delivery, n), settlements: make(chan settlement, n),
		submitted: make(chan struct{}), ended: make(chan struct{}),
	}
}

// serve connects, sets up, and consumes answers until the connection or ctx ends. The error is the reason.
func (c *consumer) serve(ctx context.Context) error {
	deliveries, err := c.connect(ctx)
	if err != nil {
		return err
	}
	workCtx, cancel := draining(ctx)
	var parts sync.WaitGroup
	defer func() {
		close(c.ended)
		cancel()
		c.link.close() // ends the other goroutines
		parts.Wait()
		c.answering.Wait()
	}()
	// the library delivers one message at a time; this goroutine collects them for batches
	parts.Go(func() {
		defer close(c.taken)
		for d := range deliveries {
			c.taken <- &d
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

func (c *consumer) connect(ctx context.Context) (<-chan amqp.Delivery, error) {
	s := c.a.s
	link, err := s.dial(ctx, roleAnswers, &c.watchers)
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, link.kill)()
	c.link = link
	warnings, deliveries, err := c.setUp()
	if err != nil {
		s.metrics.errors.WithLabelValues(kindSetup).Inc()
		link.close()
		return nil, err
	}
	c.established = true
	if s.health.warn(roleAnswers, warnings) {
		for _, w := range warnings {
			s.log.Warn("queue of answers has other arguments", "broker", link.host.address(), "warning", w)
		}
	}
	return deliveries, nil
}

func (c *consumer) setUp() (warnings []string, deliveries <-chan amqp.Delivery, err error) {
	queue := c.a.queue()
	unlimited, warnings, err := c.a.s.declareAnswers(c.link, queue)
	if err != nil {
		return nil, nil, err
	}
	if !unlimited {
		c.copier = newCopier(c.a.s, queue, c.queueSettlement)
	}
	err = c.link.bounded(func() (err error) {
		deliveries, err = c.consume(queue)
		return err
	})
	return warnings, deliveries, err
}

func (c *consumer) consume(queue string) (deliveries <-chan amqp.Delivery, err error) {
	if c.ch, err = c.link.plainChannel(); err != nil {
		return nil, err
	}
	if err := c.ch.Qos(c.a.s.cfg.AnswerPrefetch, 0, false); err != nil {
		return nil, fmt.Errorf("set the prefetch for answers: %w", describe(err))
	}
	c.tag = "clockd"
	if deliveries, err = c.ch.Consume(queue, c.tag, false, false, false, false, nil); err != nil {
		return nil, fmt.Errorf("consume queue %q: %w", queue, describe(err))
	}
	return deliveries, nil
}

// cancel tells the broker to send no more answers. The library passes on the answers that have arrived, and then ends the deliveries.
func (c *consumer) cancel() {
	timer := time.AfterFunc(answerDrain, c.link.kill) // not earlier: this connection acks the answers in flight
	defer timer.Stop()
	_ = c.ch.Cancel(c.tag, false) // fails only when the channel has ended
}

// nextBatch waits for one delivery and returns it with all other deliveries in c.taken and c.resubmitted. It returns nil when c.taken is
// closed.
func (c *consumer) nextBatch() []*amqp.Delivery {
	var first *amqp.Delivery // nil when c.taken is closed
	select {
	case first = <-c.taken:
	case first = <-c.resubmitted:
	}
	if first == nil {
		return nil
	}
	batch := []*amqp.Delivery{first}
	for len(c.taken) > 0 {
		batch = append(batch, <-c.taken)
	}
	for len(c.resubmitted) > 0 {
		batch = append(batch, <-c.resubmitted)
	}
	c.inFlight.Add(int64(len(batch)))
	return batch
}

// endReason returns the reason why no more answers arrive.
func (c *consumer) endReason(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.link.lost(ctx, c.ch); err != nil {
		return err
	}
	return errCancelled
}

// submit passes the answers of a batch to the Answerer. It blocks until they are submitted, not until their outcomes are known.
func (c *consumer) submit(workCtx context.Context, batch []*amqp.Delivery) {
	if c.link.conn.IsClosed() { // the broker delivers the batch again
		return
	}
	answers, deliveries, malformed := c.a.read(batch)
	for _, d := range malformed {
		c.queueSettlement(settlement{delivery: d, action: actionAck})
	}
	if len(answers) == 0 {
		return
	}
	workCtx, cancel := context.WithTimeout(workCtx, clock.RequestTimeout)
	var open atomic.Int64
	open.Store(int64(len(answers)))
	c.answering.Add(len(answers))
	c.a.answerer.Answer(workCtx, answers, func(i int, err error) {
		defer c.answering.Done()
		s := c.a.judge(&answers[i], err)
		s.delivery = deliveries[i]
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

// settle carries out settlements until the connection ends, until workCtx ends, or until ctx has ended and all outcomes are known. The error
// is the reason. The broker delivers answers without an ack again.
func (c *consumer) settle(ctx, workCtx context.Context) error {
	submitted := c.submitted
	for {
		select {
		case next := <-c.settlements:
			if err := c.settleQueued(next); err != nil {
				return err
			}
		case <-submitted:
			submitted = nil
		case <-c.link.done:
			return c.endReason(ctx)
		case <-workCtx.Done():
			return c.endReason(ctx)
		}
		if submitted == nil && (ctx.Err() == nil || c.inFlight.Load() == c.pausedDeliveries) {
			return c.endReason(ctx)
		}
	}
}

// settleQueued carries out next and all other queued settlements, in one write.
func (c *consumer) settleQueued(next settlement) error {
	c.link.wire.beginDelivery(ring.Limits{WriteBy: time.Now().Add(c.a.s.cfg.WriteTimeout)})
	err := c.settleOne(next)
	for more := true; more && err == nil; {
		select {
		case next = <-c.settlements:
			err = c.settleOne(next)
		default:
			more = false
		}
	}
	if _, werr := c.link.wire.endDelivery(); err == nil {
		err = werr
	}
	return c.wrap("settle answers", err)
}

func (c *consumer) settleOne(s settlement) error {
	tag := s.delivery.DeliveryTag
	switch {
	case s.action == actionPause:
		c.pausedDeliveries++
		s.action = actionPutBack
		time.AfterFunc(s.pause, func() { c.queueSettlement(s) })
		return nil
	case s.action == actionPutBack && c.copier != nil && fromStream(s.delivery):
		s.action = actionResubmit
	case s.action == actionPutBack && c.copier != nil:
		c.copier.requests <- s // never full
		return nil
	}
	c.inFlight.Add(-1)
	if s.action == actionAck {
		return c.ch.Ack(tag, false)
	}
	c.pausedDeliveries--
	switch s.action {
	case actionAckCopied:
		return c.ch.Ack(tag, false)
	case actionResubmit:
		c.resubmitted <- s.delivery
		return nil
	default:
		return c.ch.Nack(tag, false, true)
	}
}

// fromStream reports whether the delivery comes from a stream. A stream delivers each message to every node and keeps it after the ack. So
// each node would copy each copy, without end. A requeue would lose the answer, because a stream does not deliver a message again.
func fromStream(d *amqp.Delivery) bool {
	_, is := d.Headers["x-stream-offset"]
	return is
}

func (c *consumer) wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	if cause := c.link.lost(context.Background(), c.ch); cause != nil {
		err = cause
	}
	return fmt.Errorf("%s: %w", what, err)
}

// draining returns a context that ends answerDrain after ctx.
func draining(ctx context.Context) (context.Context, context.CancelFunc) {
	workCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(answerDrain):
			cancel()
		case <-workCtx.Done():
		}
	})
	return workCtx, func() {
		stop()
		cancel()
	}
}
