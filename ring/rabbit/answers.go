package rabbit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
)

// Bounds of taking answers.
const (
	answerPause     = time.Second     // before an answer that could not be applied is given back, if nothing else is said
	answerPauseMax  = 3 * time.Second // at most
	answerDrain     = 4 * time.Second // for what is taken when the end comes
	malformedLogged = time.Minute     // between two log lines on answers that are none
)

// Answerer applies answers.
type Answerer interface {
	// Answer applies the answers in order and returns one error an answer, by kind: nil, ErrNotFound, ErrConflict or
	// another that repeating does not help, or ErrUnavailable or ErrUnconfirmed. It returns when ctx ends at the latest.
	Answer(ctx context.Context, answers []clock.Answer) []error
}

// Answers takes applications' answers from the queue <exchange>.answers. Every node does, each message goes to one of them.
type Answers struct {
	s         *Session
	to        Answerer
	malformed time.Time // when one was logged last; Run's
}

// Answers returns a consumer of answers, which needs the Run of the Answers, not of the session.
func (s *Session) Answers(to Answerer) *Answers { return &Answers{s: s, to: to} }

// Run connects and reconnects until ctx ends; then it takes no more, settles what is taken, closes the connection and
// returns nil. An answer that was applied or refused for good is acked, after the Answerer has said so; one that could
// not be applied goes back to the queue.
func (a *Answers) Run(ctx context.Context) error {
	a.s.persist(ctx, roleAnswers, func(ctx context.Context) (bool, error) {
		c := &consumer{a: a, taken: make(chan amqp.Delivery, a.s.cfg.AnswerPrefetch)}
		err := c.attend(ctx)
		if ctx.Err() == nil {
			a.s.health.warn(roleAnswers, []string{"answers to rings are not taken: " + err.Error()})
		}
		return c.passed, err
	})
	a.s.health.warn(roleAnswers, nil)
	return nil
}

// queue is where applications send their answers: what reply_to of a ring names.
func (a *Answers) queue() string { return answerQueue(a.s.cfg.Exchange) }

// consumer is one life of the connection that answers come on.
type consumer struct {
	a        *Answers
	link     *link
	ch       *channel
	tag      string
	taken    chan amqp.Delivery // delivered and not looked at: the broker sends at most as many as it holds
	passed   bool               // it was set up
	watchers sync.WaitGroup
}

// attend connects, sets up, and takes answers until the connection or ctx ends. It returns why.
func (c *consumer) attend(ctx context.Context) error {
	deliveries, err := c.connect(ctx)
	if err != nil {
		return err
	}
	var pump sync.WaitGroup
	defer pump.Wait()
	defer c.link.close() // ends the pump
	// the library hands over one by one, as its goroutine gets to run: batches have to be collected
	pump.Go(func() {
		defer close(c.taken)
		for d := range deliveries {
			c.taken <- d
		}
	})
	stop := context.AfterFunc(ctx, c.cancel)
	defer stop()
	for {
		batch := c.take()
		if len(batch) == 0 || c.link.conn.IsClosed() { // what came over it will come again
			return c.ended(ctx)
		}
		if err := c.serve(ctx, batch); err != nil {
			return err
		}
	}
}

func (c *consumer) connect(ctx context.Context) (<-chan amqp.Delivery, error) {
	s := c.a.s
	link, err := s.dial(ctx, roleAnswers, &c.watchers)
	if err != nil {
		return nil, err
	}
	setup, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(setup, link.kill)() // the library's calls know no context
	c.link = link
	warnings, deliveries, err := c.setUp()
	if err != nil {
		s.metrics.errors.WithLabelValues(kindSetup).Inc()
		link.close()
		return nil, err
	}
	c.passed = true
	if s.health.warn(roleAnswers, warnings) {
		for _, w := range warnings {
			s.log.Warn("queue of answers is set up in another way", "broker", s.address, "warning", w)
		}
	}
	return deliveries, nil
}

func (c *consumer) setUp() (warnings []string, deliveries <-chan amqp.Delivery, err error) {
	queue := c.a.queue()
	if warnings, err = c.a.s.declareAnswers(c.link, queue); err != nil {
		return nil, nil, err
	}
	if c.ch, err = c.link.plain(); err != nil {
		return nil, nil, err
	}
	if err := c.ch.Qos(c.a.s.cfg.AnswerPrefetch, 0, false); err != nil {
		return nil, nil, fmt.Errorf("set the prefetch for answers: %w", describe(err))
	}
	c.tag = "clockd"
	deliveries, err = c.ch.Consume(queue, c.tag, false, false, false, false, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("consume queue %q: %w", queue, describe(err))
	}
	return warnings, deliveries, nil
}

// cancel stops the broker from sending more. The pump ends when it has passed on what had arrived.
func (c *consumer) cancel() {
	timer := time.AfterFunc(closeTimeout, c.link.kill)
	defer timer.Stop()
	_ = c.ch.Cancel(c.tag, false) // fails only when the channel has ended
}

// take waits for one delivery and returns it with all others that are there; none when there will be no more.
func (c *consumer) take() []amqp.Delivery {
	first, open := <-c.taken
	if !open {
		return nil
	}
	batch := []amqp.Delivery{first}
	for len(c.taken) > 0 {
		batch = append(batch, <-c.taken)
	}
	return batch
}

// ended returns why no more answers come.
func (c *consumer) ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := c.link.lost(ctx, c.ch); err != nil {
		return err
	}
	return errCancelled
}

// serve has the batch answered, acks what is settled, and gives the rest back to the queue after a pause. Its error ends
// the connection: the broker then delivers again what was not acked.
func (c *consumer) serve(ctx context.Context, batch []amqp.Delivery) error {
	settled := make([]bool, len(batch)) // by place in the batch
	answers, places := c.a.read(batch, settled)
	wait := time.Duration(0)
	if len(answers) > 0 {
		work, cancel := patience(ctx)
		errs := c.a.to.Answer(work, answers)
		cancel()
		for i, err := range errs {
			settled[places[i]] = c.a.judge(&answers[i], err)
			if !settled[places[i]] {
				wait = max(wait, retryAfter(err))
			}
		}
	}
	if wait == 0 {
		return c.wrap("ack answers", c.ch.Ack(batch[len(batch)-1].DeliveryTag, true))
	}
	if err := c.ack(batch, settled); err != nil {
		return c.wrap("ack answers", err)
	}
	pause(ctx, wait)
	return c.wrap("give answers back", c.requeue(batch, settled))
}

// ack acks the settled ones of a batch one by one, in one write.
func (c *consumer) ack(batch []amqp.Delivery, settled []bool) error {
	c.link.wire.begin(time.Now().Add(c.a.s.cfg.WriteTimeout))
	var err error
	for i := range batch {
		if settled[i] && err == nil {
			err = c.ch.Ack(batch[i].DeliveryTag, false)
		}
	}
	if _, werr := c.link.wire.end(); err == nil {
		err = werr
	}
	return err
}

// requeue gives back what is not settled of a batch whose other messages are acked.
func (c *consumer) requeue(batch []amqp.Delivery, settled []bool) error {
	last := len(batch) - 1
	for settled[last] { // the broker closes the channel for a tag that is acked already
		last--
	}
	return c.ch.Nack(batch[last].DeliveryTag, true, true)
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

// patience bounds one call of the Answerer: the end of ctx leaves it answerDrain.
func patience(ctx context.Context) (context.Context, context.CancelFunc) {
	work, cancel := context.WithTimeout(context.WithoutCancel(ctx), clock.Patience)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(answerDrain):
			cancel()
		case <-work.Done():
		}
	})
	return work, func() {
		stop()
		cancel()
	}
}

// read returns the answers of a batch with their places in it. What is no answer is settled.
func (a *Answers) read(batch []amqp.Delivery, settled []bool) (answers []clock.Answer, places []int) {
	answers, places = make([]clock.Answer, 0, len(batch)), make([]int, 0, len(batch))
	for i := range batch {
		answer, err := parseAnswer(&batch[i])
		if err != nil {
			settled[i] = true
			a.reject(err)
			continue
		}
		answers, places = append(answers, answer), append(places, i)
	}
	return answers, places
}

// reject takes note of a message that is no answer.
func (a *Answers) reject(err error) {
	a.s.metrics.answers.WithLabelValues(kindUnknown, resultMalformed).Inc()
	if now := time.Now(); now.Sub(a.malformed) >= malformedLogged {
		a.malformed = now
		a.s.log.Warn("message to the queue of answers is no answer", "broker", a.s.address, "err", err)
	}
}

// judge takes note of an answer's fate and reports whether it is settled.
func (a *Answers) judge(answer *clock.Answer, err error) bool {
	result, settled := resultOf(err)
	a.s.metrics.answers.WithLabelValues(answer.Kind.String(), result).Inc()
	if err != nil {
		a.s.log.LogAttrs(context.Background(), slog.LevelDebug, "answer was not accepted", slog.String("message_id", answer.Ring.String()),
			slog.String("kind", answer.Kind.String()), slog.String("result", result), slog.Any("err", err))
	}
	return settled
}

// resultOf names what became of an answer. What is not known to be final is tried again.
func resultOf(err error) (result string, settled bool) {
	switch {
	case err == nil:
		return resultAccepted, true
	case errors.Is(err, clock.ErrUnavailable), errors.Is(err, clock.ErrUnconfirmed):
		return resultRequeued, false
	case errors.Is(err, clock.ErrNotFound):
		return resultNotFound, true
	case errors.Is(err, clock.ErrConflict), errors.Is(err, clock.ErrPrecondition):
		return resultConflict, true
	case errors.Is(err, clock.ErrInvalid), errors.Is(err, clock.ErrTooLarge):
		return resultInvalid, true
	default:
		return resultRequeued, false
	}
}

// retryAfter returns how long to wait before an answer is tried again.
func retryAfter(err error) time.Duration {
	if e := (*clock.Error)(nil); errors.As(err, &e) && e.RetryAfter > 0 {
		return min(e.RetryAfter, answerPauseMax)
	}
	return answerPause
}
