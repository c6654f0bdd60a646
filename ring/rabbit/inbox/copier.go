package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// copyRules say how a copier publishes deliveries again.
type copyRules struct {
	role    string // of the copier's connection
	message func(s *settlement) (exchange, routingKey string, message amqp.Publishing)
	settle  func(original settlement, confirmed bool) settlement // says how to settle the original
	failure string                                               // what a failure means, for the log
	warns   bool                                                 // a failure is also a warning
	// isReturned reports whether the broker has returned the copy of the delivery. Nil: copies cannot be told apart, so
	// one return counts for all.
	isReturned func(r *amqp.Return, original *incoming) bool
}

// copier publishes copies of deliveries: paused answers go back to a queue that may have a delivery limit, dead letters
// of the intake go to their exchange. It serves one consumer. It owns a connection, because a broker with an alarm
// blocks connections that publish, and a blocked connection acks nothing. It connects when the consumer asks for the
// first copy.
//
//	consumer ──▶ requests ──run──▶ broker      confirmed: the consumer acks the original
//	                                           else: the consumer submits the original to its inbox again
type copier struct {
	s        *shared
	rules    *copyRules
	requests chan settlement  // capacity for every delivery in flight
	report   func(settlement) // hands the original's settlement to the consumer

	// owned by the goroutine of run
	link     *wire.Link // nil without a connection
	ch       *wire.Channel
	doubtful bool // the channel has a copy without an ack, so it is not used for another copy
	watchers sync.WaitGroup
	failures int       // connects since the last batch without an error
	retryAt  time.Time // earliest time of the next connect
	lastErr  error     // result of the last batch of copies
}

// errNoConfirm is the result of a batch with a copy that the broker did not confirm within WriteTimeout.
var errNoConfirm = errors.New("the broker did not confirm copies in time")

// errUnbound is the result of a batch with copies that the broker returned, if it is known which.
var errUnbound = errors.New("the broker returned copies: no queue is bound for them")

// errNoCopy is the result of a batch with copies that the broker returned or nacked.
var errNoCopy = errors.New("the broker returned or nacked copies: a queue is full, deleted or not bound")

func newCopier(s *shared, rules *copyRules, inFlight int, report func(settlement)) *copier {
	return &copier{s: s, rules: rules, requests: make(chan settlement, inFlight), report: report}
}

// run publishes the requested copies until ctx ends.
func (c *copier) run(ctx context.Context) {
	defer c.disconnect()
	for {
		select {
		case first := <-c.requests:
			batch := []settlement{first}
			for len(c.requests) > 0 {
				batch = append(batch, <-c.requests)
			}
			c.copyAll(ctx, batch)
		case <-ctx.Done():
			return
		}
	}
}

// copyAll publishes a copy of each delivery of the batch and reports how to settle the originals.
func (c *copier) copyAll(ctx context.Context, batch []settlement) {
	confirmed, err := c.publish(ctx, batch)
	if ctx.Err() != nil {
		return // the broker delivers the originals again
	}
	for i, original := range batch {
		c.report(c.rules.settle(original, i < len(confirmed) && confirmed[i]))
	}
	c.record(ctx, err)
}

// record keeps the result of a batch of copies. It logs an error as a warning if the last batch did not have the same
// error.
func (c *copier) record(ctx context.Context, err error) {
	level := slog.LevelDebug
	if err != nil && (c.lastErr == nil || c.lastErr.Error() != err.Error()) {
		level = slog.LevelWarn
	}
	c.lastErr = err
	if c.rules.warns {
		c.s.Warn(c.rules.role, warningOf(c.rules.failure, err))
	}
	if err == nil {
		c.failures, c.retryAt = 0, time.Time{}
	} else {
		c.s.Log.Log(ctx, level, "the broker does not take copies of messages", "effect", c.rules.failure, "broker",
			c.s.Broker.AddressFor(c.rules.role), "err", err)
	}
}

// warningOf returns the warning of an error, nil without an error.
func warningOf(what string, err error) []string {
	if err == nil {
		return nil
	}
	return []string{what + ": " + err.Error()}
}

// publish publishes a copy of each delivery of the batch and waits for the confirms. confirmed reports by index which
// copies are confirmed; it may be shorter than the batch. The wait ends after WriteTimeout, or when the broker blocks
// the connection. The error is the reason of an unconfirmed copy. After a batch with an error, publish tries one copy:
// a broker that takes copies and confirms none gets few of them.
func (c *copier) publish(ctx context.Context, batch []settlement) (confirmed []bool, err error) {
	if err := c.connect(ctx); err != nil {
		return nil, err
	}
	if c.lastErr != nil && !errors.Is(c.lastErr, errUnbound) {
		batch = batch[:1]
	}
	confirms := make([]*amqp.DeferredConfirmation, 0, len(batch))
	c.link.BeginDelivery(ring.Limits{WriteBy: time.Now().Add(c.s.Broker.WriteTimeout)})
	for i := 0; i < len(batch) && err == nil; i++ {
		exchange, routingKey, message := c.rules.message(&batch[i])
		var confirm *amqp.DeferredConfirmation
		if confirm, err = c.ch.PublishWithDeferredConfirm(exchange, routingKey, true, false, message); err == nil {
			confirms = append(confirms, confirm)
		}
	}
	if _, werr := c.link.EndDelivery(); err == nil {
		err = werr
	}
	confirmed = make([]bool, len(confirms))
	waitCtx, cancel := context.WithTimeoutCause(ctx, c.s.Broker.WriteTimeout, errNoConfirm)
	defer cancel()
	for i, confirm := range confirms {
		acked, werr := c.wait(waitCtx, confirm)
		if werr != nil {
			c.doubtful = true
			if errors.Is(werr, errNoConfirm) {
				c.link.Leave()
			}
			return confirmed[:i], werr
		}
		if confirmed[i] = acked; !acked {
			c.doubtful = true // see replaceChannel
			err = cmp.Or(err, errNoCopy)
		}
	}
	if rerr := c.takeReturns(batch, confirmed); rerr != nil {
		err = rerr
	}
	if fault := c.link.Lost(ctx, c.ch); fault != nil {
		err = fault
	}
	return confirmed, err
}

// takeReturns notes which copies the broker has returned: they are not confirmed. If copies cannot be told apart, none
// is.
func (c *copier) takeReturns(batch []settlement, confirmed []bool) (err error) {
	for r, some := c.ch.NextReturn(); some; r, some = c.ch.NextReturn() {
		if c.rules.isReturned == nil {
			wire.Drain(c.ch.Returns)
			clear(confirmed)
			c.doubtful = true
			return errNoCopy
		}
		i := slices.IndexFunc(batch[:len(confirmed)],
			func(s settlement) bool { return c.rules.isReturned(&r, s.delivery) })
		if i < 0 { // a dead letter without headers of ours
			wire.Drain(c.ch.Returns) // they must not reach the next batch
			clear(confirmed)
			return errNoCopy
		}
		confirmed[i], err = false, errUnbound
	}
	return err
}

// wait waits until the copy is acked, or until it is nacked, its channel ends, or ctx ends. The error says why it ended
// the wait earlier.
func (c *copier) wait(ctx context.Context, confirm *amqp.DeferredConfirmation) (acked bool, err error) {
	for {
		select {
		case <-confirm.Done():
			return confirm.Acked(), nil
		case <-c.link.BlockedChanged():
			if err := c.blocked(); err != nil {
				return false, err
			}
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// blocked returns the broker's reason while it blocks the connection, else nil.
func (c *copier) blocked() error {
	if why := c.link.Blocked(); why != nil {
		return fmt.Errorf("the broker takes no messages: %s", *why)
	}
	return nil
}

// connect returns nil if the channel is ready for a batch of copies. It opens a connection if there is none, if it has
// ended, or if it has a doubtful copy. It keeps a blocked connection, because a broker with an alarm takes one more
// message from each new connection.
func (c *copier) connect(ctx context.Context) error {
	if c.link != nil && !c.link.IsClosed() {
		if err := c.blocked(); err != nil {
			return err
		}
		if !c.doubtful && !c.ch.IsClosed() {
			return nil
		}
	}
	c.disconnect()
	if time.Now().Before(c.retryAt) {
		return cmp.Or(c.lastErr, wire.ErrClosed)
	}
	backoff := clock.Backoff{First: c.s.Broker.BackoffMin, Last: c.s.Broker.BackoffMax}
	c.retryAt = time.Now().Add(backoff.Wait(c.failures))
	c.failures++
	return c.open(ctx)
}

func (c *copier) open(ctx context.Context) error {
	link, err := c.s.Broker.Dial(ctx, c.rules.role, wire.Plain, &c.watchers)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, link.Kill)()
	err = link.Bounded(func() (err error) {
		c.ch, err = link.Channel(cap(c.requests))
		return err
	})
	if err != nil {
		c.s.SetupErrors.Inc()
		link.Close()
		return err
	}
	c.link = link
	return nil
}

func (c *copier) disconnect() {
	if c.link != nil {
		c.link.Close()
	}
	c.link, c.ch, c.doubtful = nil, nil, false
}

// copyOf returns a message with the properties of an answer, for its queue. The bodies of answers are dropped, so the
// copy has no body. It is not larger than the application's own message, as package wire counts the bytes:
//   - Headers of the broker are left out.
//   - CC and BCC are left out: they would route the copy to further queues.
//   - x-reason and x-by are cut. No cut removes a byte that clockd stores.
//   - user_id is left out, because the broker accepts only clockd's own user. If user_id names the sender, x-by
//     replaces it.
func copyOf(d *amqp.Delivery) amqp.Publishing {
	headers := make(amqp.Table, len(d.Headers)+1)
	for name, value := range d.Headers {
		if !isBrokerHeader(name) {
			headers[name] = value
		}
	}
	cutText(headers, headerReason, clock.MaxReason)
	cutText(headers, headerBy, wire.MaxShortString)
	if d.UserId != "" && answeredBy(d) == d.UserId {
		headers[headerBy] = d.UserId
	}
	return amqp.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: amqp.Persistent,
		Priority:      d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, Expiration: d.Expiration, MessageId: d.MessageId,
		Timestamp: d.Timestamp,
		Type:      d.Type, AppId: d.AppId,
	}
}

// isBrokerHeader reports whether the broker adds the header to messages, or reads it when it routes a message.
func isBrokerHeader(name string) bool {
	switch name {
	case "x-delivery-count", "x-acquired-count", "x-death", "x-received-from", "CC", "BCC":
		return true
	}
	return strings.HasPrefix(name, "x-first-death-") || strings.HasPrefix(name, "x-last-death-") ||
		strings.HasPrefix(name, "x-opt-")
}

// cutText cuts a string header to the limit, in bytes.
func cutText(headers amqp.Table, name string, limit int) {
	if s, isText := wire.Text(headers[name]); isText && len(s) > limit {
		headers[name] = s[:limit]
	}
}
