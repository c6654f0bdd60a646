package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// swallowedInterval is the time between probes while they are not returned. Such probes may collect in a queue.
const swallowedInterval = time.Minute

// probeMessages is the number of messages of a probe. A broker with an alarm takes one more message from each
// connection before it blocks it. So the confirm of the first message proves nothing.
const probeMessages = 2

// control owns one control connection.
type control struct {
	s           *Session
	link        *wire.Link
	ch          *wire.Channel
	declared    []string // warnings from the declarations
	swallowed   bool     // the last probe was confirmed without a return
	established bool     // a probe has passed
	watchers    sync.WaitGroup
}

// serve connects, sets up, and probes until the connection ends, a probe fails or ctx ends. The error is the reason.
func (c *control) serve(ctx context.Context) error {
	if err := c.connect(ctx); err != nil {
		return err
	}
	defer c.link.Close()
	for {
		err := c.probe(ctx)
		if err == nil {
			err = c.wait(ctx)
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, errReconnect) {
			c.link.LeaveUnlessRefused(err)
		}
		return err
	}
}

func (c *control) connect(ctx context.Context) error {
	wire.Drain(c.s.reconnectNow) // the new connection covers all earlier requests of lanes
	link, err := c.s.broker.Dial(ctx, roleControl, wire.Plain, &c.watchers)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, link.Kill)()
	c.link = link
	if c.declared, err = c.s.declare(link); err == nil {
		err = link.Bounded(func() (err error) {
			c.ch, err = link.Channel(probeMessages)
			return err
		})
	}
	if err != nil {
		c.s.metrics.errors.WithLabelValues(kindSetup).Inc()
		link.Close()
		return err
	}
	return nil
}

// probe publishes messages that no queue is bound for, and waits for their confirms. It waits for ProbeTimeout, and
// longer while the broker reports the connection as blocked.
func (c *control) probe(ctx context.Context) error {
	doubts, began := c.s.health.doubtCount(), time.Now()
	timer := time.NewTimer(c.s.cfg.ProbeTimeout)
	defer timer.Stop()
	var confirms [probeMessages]*amqp.DeferredConfirmation
	for i := range confirms {
		var err error
		if confirms[i], err = c.ch.PublishWithDeferredConfirm(c.s.cfg.Exchange, "", true, false, amqp.Publishing{
			Type: "probe", AppId: appID, Expiration: "1000", DeliveryMode: amqp.Transient,
		}); err != nil {
			return c.failed(ctx, err)
		}
	}
	for _, confirm := range confirms {
		if err := c.confirmed(ctx, confirm, timer); err != nil {
			return err
		}
	}
	c.recordPass(doubts, began)
	return nil
}

// confirmed waits for the ack of one message of a probe. Each change of the blocked state starts ProbeTimeout again.
func (c *control) confirmed(ctx context.Context, confirm *amqp.DeferredConfirmation, timer *time.Timer) error {
	for {
		select {
		case <-confirm.Done():
			if !confirm.Acked() {
				return c.failed(ctx, errors.New("a probe was nacked"))
			}
			return nil
		case <-c.link.BlockedChanged():
			timer.Reset(c.s.cfg.ProbeTimeout)
		case <-timer.C:
			if c.link.Blocked() == nil {
				c.s.metrics.errors.WithLabelValues(kindProbe).Inc()
				return fmt.Errorf("the broker did not confirm a probe within %s", c.s.cfg.ProbeTimeout)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// failed returns the reason why a probe failed. It prefers the broker's reason to err.
func (c *control) failed(ctx context.Context, err error) error {
	c.s.metrics.errors.WithLabelValues(kindProbe).Inc()
	ctx, cancel := context.WithTimeout(ctx, c.s.cfg.ProbeTimeout)
	defer cancel()
	if fault := c.ch.Fault(ctx, c.link); fault != nil {
		return fmt.Errorf("probe exchange %q: %w", c.s.cfg.Exchange, wire.Describe(fault))
	}
	if c.link.IsClosed() {
		return fmt.Errorf("connection lost: %w", c.link.Cause(ctx))
	}
	return fmt.Errorf("probe exchange %q: %w", c.s.cfg.Exchange, err)
}

// recordPass records a confirmed probe. The returns of the probe have arrived before its confirms.
func (c *control) recordPass(doubts int, began time.Time) {
	c.swallowed = !wire.Drain(c.ch.Returns)
	warnings := c.declared
	if c.swallowed {
		warnings = append(warnings[:len(warnings):len(warnings)], c.s.swallowedWarning())
	}
	if c.s.health.warn(roleControl, warnings) {
		for _, w := range warnings {
			c.s.log.Warn("broker set-up may lose rings", "broker", c.link.Address(), "warning", w)
		}
	}
	if !c.established {
		c.s.log.Info("broker is usable", "broker", c.link.Address())
	}
	c.established = true
	c.s.health.probePassed(doubts, began)
}

// wait returns nil at the time of the next probe. An error ends the connection.
func (c *control) wait(ctx context.Context) error {
	interval := c.s.cfg.ProbeInterval
	if c.swallowed {
		interval = max(interval, swallowedInterval)
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-c.s.reconnectNow:
		return errReconnect
	default:
	}
	select {
	case <-timer.C:
		return nil
	case <-c.s.probeNow:
		return nil
	case <-c.s.reconnectNow:
		return errReconnect
	case <-c.link.Done():
		return fmt.Errorf("connection lost: %w", c.link.Cause(ctx))
	case <-ctx.Done():
		return ctx.Err()
	}
}
