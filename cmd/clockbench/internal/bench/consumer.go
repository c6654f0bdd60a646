package bench

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// consumer takes rings from the queue or the stream into a tally, until it is stopped.
type consumer struct {
	stop func()
	wait sync.WaitGroup
	mu   sync.Mutex
	err  error
}

// close stops the consumer, and returns its first error.
func (c *consumer) close() error {
	c.stop()
	c.wait.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *consumer) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

const (
	prefetch  = 6000
	ackRows   = 1000 // deliveries acknowledged together; consuming itself is not measured
	ackWithin = 20 * time.Millisecond
)

// consume takes the messages of a queue into the tally, on a connection of its own.
func (b *broker) consume(ctx context.Context, queue string, t *tally) (*consumer, error) {
	conn, err := amqp.DialConfig(b.url, amqp.Config{Properties: amqp.Table{"connection_name": "clockbench consumer"}})
	if err != nil {
		return nil, fmt.Errorf("connect a consumer: %w", err)
	}
	ch, err := conn.Channel()
	if err == nil {
		err = ch.Qos(prefetch, 0, false)
	}
	var deliveries <-chan amqp.Delivery
	if err == nil {
		deliveries, err = ch.Consume(queue, "", false, false, false, false, nil)
	}
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("consume %s: %w", queue, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &consumer{stop: cancel}
	c.wait.Go(func() {
		defer func() { _ = conn.Close() }()
		if err := receive(ctx, ch, deliveries, t); err != nil {
			c.fail(err)
		}
	})
	return c, nil
}

// receive takes deliveries until ctx ends. It acknowledges many deliveries at once.
func receive(ctx context.Context, ch *amqp.Channel, deliveries <-chan amqp.Delivery, t *tally) error {
	var last uint64 // newest delivery tag that is not acknowledged yet
	count := 0
	ack := func() error {
		if count == 0 {
			return nil
		}
		count = 0
		return ch.Ack(last, true)
	}
	tick := time.NewTicker(ackWithin)
	defer tick.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ack()
		case <-tick.C:
			err = ack()
		case d, open := <-deliveries:
			if !open {
				return errors.New("the broker ended the consumer")
			}
			takeDelivery(&d, t)
			last = d.DeliveryTag
			if count++; count >= ackRows {
				err = ack()
			}
		}
		if err != nil {
			return fmt.Errorf("acknowledge: %w", err)
		}
	}
}

func takeDelivery(d *amqp.Delivery, t *tally) {
	r := ring{messageID: []byte(d.MessageId), businessID: []byte(d.CorrelationId), payload: d.Body, at: time.Now()}
	if at, ok := d.Headers["x-rung-at"].(int64); ok {
		r.rungAt = at
	}
	if due, ok := d.Headers["x-clockd-ring-at"].(int64); ok {
		r.dueAt = due
	}
	t.take(&r)
}
