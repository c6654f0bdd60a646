package rabbit

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// swallowedInterval is the time between probes while they are not returned: each may then lie in someone's queue.
const swallowedInterval = time.Minute

// probeMessages is how many messages a probe has. A broker in alarm takes one more from each connection before it blocks it,
// so that the confirm of the first proves nothing.
const probeMessages = 2

// control is one life of the control connection.
type control struct {
	s         *Session
	link      *link
	ch        *channel
	declared  []string // warnings of the declarations
	swallowed bool     // the last probe was confirmed, but not returned
	passed    bool     // a probe has passed
	watchers  sync.WaitGroup
}

// attend connects, sets up, and probes until the connection ends, a probe fails or ctx ends. It returns why.
func (c *control) attend(ctx context.Context) error {
	if err := c.connect(ctx); err != nil {
		return err
	}
	defer c.link.close()
	for {
		if err := c.probe(ctx); err != nil {
			return err
		}
		if err := c.wait(ctx); err != nil {
			return err
		}
	}
}

func (c *control) connect(ctx context.Context) error {
	drain(c.s.again) // what lanes met before is answered by the connection that begins now
	link, err := c.s.dial(ctx, roleControl, &c.watchers)
	if err != nil {
		return err
	}
	setup, cancel := context.WithTimeout(ctx, c.s.cfg.DialTimeout)
	defer cancel()
	defer context.AfterFunc(setup, link.kill)() // the library's calls know no context
	c.link = link
	if c.declared, err = c.s.declare(link); err == nil {
		c.ch, err = link.channel(probeMessages)
	}
	if err != nil {
		c.s.metrics.errors.WithLabelValues(kindSetup).Inc()
		link.close()
		return err
	}
	return nil
}

// probe publishes messages for nobody and waits for their confirms: ProbeTimeout, or as long as the broker says that the
// connection is blocked.
func (c *control) probe(ctx context.Context) error {
	asked := c.s.health.asked()
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
	c.pass(asked)
	return nil
}

// confirmed returns nil when the broker has taken one message of a probe.
func (c *control) confirmed(ctx context.Context, confirm *amqp.DeferredConfirmation, timer *time.Timer) error {
	for {
		select {
		case <-confirm.Done():
			if !confirm.Acked() {
				return c.failed(ctx, errors.New("a probe was nacked"))
			}
			return nil
		case <-c.link.flipped:
			timer.Reset(c.s.cfg.ProbeTimeout)
		case <-timer.C:
			if c.link.blocked.Load() == nil {
				c.s.metrics.errors.WithLabelValues(kindProbe).Inc()
				return fmt.Errorf("the broker did not confirm a probe within %s", c.s.cfg.ProbeTimeout)
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// failed returns why a probe could not be confirmed: the broker's own word, where there is one.
func (c *control) failed(ctx context.Context, err error) error {
	c.s.metrics.errors.WithLabelValues(kindProbe).Inc()
	ctx, cancel := context.WithTimeout(ctx, c.s.cfg.ProbeTimeout)
	defer cancel()
	if fault := c.ch.fault(ctx, c.link); fault != nil {
		return fmt.Errorf("probe exchange %q: %w", c.s.cfg.Exchange, describe(fault))
	}
	if c.link.conn.IsClosed() {
		return fmt.Errorf("connection lost: %w", c.link.cause(ctx))
	}
	return fmt.Errorf("probe exchange %q: %w", c.s.cfg.Exchange, err)
}

// pass takes note of a confirmed probe. Its returns, if there were any, are here already.
func (c *control) pass(asked int) {
	c.swallowed = !drain(c.ch.returns)
	warnings := c.declared
	if c.swallowed {
		warnings = append(warnings[:len(warnings):len(warnings)], c.s.swallowed())
	}
	if c.s.health.warn(roleControl, warnings) {
		for _, w := range warnings {
			c.s.log.Warn("broker is set up so that rings may be lost from sight", "broker", c.s.address, "warning", w)
		}
	}
	if !c.passed {
		c.s.log.Info("broker is usable", "broker", c.s.address)
	}
	c.passed = true
	c.s.health.up(asked)
}

// wait returns nil when it is time for the next probe.
func (c *control) wait(ctx context.Context) error {
	interval := c.s.cfg.ProbeInterval
	if c.swallowed {
		interval = max(interval, swallowedInterval)
	}
	timer := time.NewTimer(interval)
	defer timer.Stop()
	select {
	case <-c.s.again:
		return errAgain
	default:
	}
	select {
	case <-timer.C:
		return nil
	case <-c.s.probeNow:
		return nil
	case <-c.s.again:
		return errAgain
	case <-c.link.done:
		return fmt.Errorf("connection lost: %w", c.link.cause(ctx))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// drain empties c and reports whether anything was in it.
func drain[T any](c <-chan T) bool {
	for found := false; ; found = true {
		select {
		case _, open := <-c:
			if !open {
				return found
			}
		default:
			return found
		}
	}
}
