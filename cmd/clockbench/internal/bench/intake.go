package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// intake measures delayed messages: the rate at which clockd takes them from a queue, the rate at which they arrive,
// and their lateness. Messages of a herd have x-ring-at, because a delay counts from the receipt, and not all are
// received at one instant. Messages at a constant rate have x-delay.
func (r *run) intake(ctx context.Context, b *testbed) error {
	var in, out samples
	if err := r.warmUpIntake(ctx, b); err != nil {
		return err
	}
	for round := range r.cfg.Rounds {
		r.progress.say("delayed messages, round %d", round+1)
		taken, arrived, err := r.delayedHerd(ctx, b, fmt.Sprint("delayed", round), r.cfg.Herd)
		if err != nil {
			return err
		}
		in, out = append(in, taken), append(out, arrived)
	}
	n := commas(int64(r.cfg.Herd))
	r.add(stageIntake,
		figureOf("delayed messages, "+n+" taken as alarms", perSecond, in),
		figureOf("delayed messages, "+n+" due at once", perSecond, out),
	)
	return r.delayedLateness(ctx, b)
}

// warmUpIntake rings some messages, and notes the time that each takes.
func (r *run) warmUpIntake(ctx context.Context, b *testbed) error {
	n := min(warmUps, r.cfg.Herd)
	t := newTally("warm", n, farAhead(b.now()), b.offset)
	took, err := r.takeDelayed(ctx, b, t, exactly)
	if err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	b.perAlarm = took / time.Duration(n)
	return nil
}

// delayedHerd publishes messages that are all due at one instant, and takes them at their time. It returns the rates of
// both.
func (r *run) delayedHerd(ctx context.Context, b *testbed, name string, n int) (taken, arrived float64, err error) {
	err = r.inTime(b, n, func(try int, ahead time.Duration) (err error) {
		due := b.now() + ahead.Milliseconds()
		t := newTally(series(fmt.Sprintf("%sx%d", name, try)), n, func(int) int64 { return due }, b.offset)
		c, err := b.consume(ctx, t)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, c.close()) }()
		took, err := r.takeDelayed(ctx, b, t, exactly)
		if err != nil {
			return err
		}
		taken = rate(n, took)
		left := -b.since(due, time.Now())
		rings, err := t.wait(ctx, time.Now().Add(max(left, 0)), lostAfter)
		if err == nil && left <= 0 {
			return errSlow
		}
		r.addRings(b, stageIntake, rings)
		arrived = rate(rings.Rung, b.since(due, t.lastRing()))
		return err
	})
	return taken, arrived, err
}

// delayedLateness measures the lateness of messages that are published at a constant rate, each with the same delay.
func (r *run) delayedLateness(ctx context.Context, b *testbed) (err error) {
	n := int(float64(r.cfg.Rate) * r.cfg.For.Seconds())
	r.progress.say("delayed messages: %d a second for %s", r.cfg.Rate, r.cfg.For)
	t := newTally("delay", n, evenly(b.now()+(r.cfg.ahead+latenessLead).Milliseconds(), r.cfg.Rate), b.offset)
	c, err := b.consume(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if _, err := r.takeDelayed(ctx, b, t, afterDelay(b, r.cfg.ahead)); err != nil {
		return err
	}
	rings, err := t.wait(ctx, time.Now().Add(r.cfg.ahead), lostAfter)
	if err != nil {
		return err
	}
	r.addRings(b, stageIntake, rings)
	late, what := t.lateness(), fmt.Sprintf("delayed messages, lateness at %d/s", r.cfg.Rate)
	r.add(stageIntake,
		Figure{What: what + ", p50", Unit: millis, Value: ms(late.P50)},
		Figure{What: what + ", p99", Unit: millis, Value: ms(late.P99)},
		Figure{What: what + ", max", Unit: millis, Value: ms(late.Max)},
	)
	return nil
}

// delay returns the headers of a message that is due at an instant. It may wait until the message is to be published.
type delay func(ctx context.Context, due int64) (amqp.Table, error)

// exactly names the due instant.
func exactly(_ context.Context, due int64) (amqp.Table, error) {
	return amqp.Table{"x-ring-at": due}, nil
}

// afterDelay waits until the message is due after the delay.
func afterDelay(b *testbed, ahead time.Duration) delay {
	return func(ctx context.Context, due int64) (amqp.Table, error) {
		if left := -b.since(due, time.Now()) - ahead; left > 0 {
			if err := sleep(ctx, left); err != nil {
				return nil, err
			}
		}
		return amqp.Table{"x-delay": ahead.Milliseconds()}, nil
	}
}

// intakePoll is the time between two looks at the number of messages that clockd has taken.
const intakePoll = 20 * time.Millisecond

// takeDelayed publishes a message for each alarm of the tally, and waits until clockd has taken all of them as alarms.
// It returns the time from the first message on.
func (r *run) takeDelayed(ctx context.Context, b *testbed, t *tally, headers delay) (took time.Duration, err error) {
	n := len(t.first)
	before, err := b.takenMessages(ctx)
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := r.publishDelayed(ctx, b, t, headers); err != nil {
		return 0, err
	}
	for {
		taken, err := b.takenMessages(ctx)
		if err != nil {
			return 0, err
		}
		if taken-before >= float64(n) {
			return time.Since(begun), nil
		}
		if err := sleep(ctx, intakePoll); err != nil {
			return 0, fmt.Errorf("%.0f of %d messages became alarms: %w", taken-before, n, err)
		}
	}
}

// takenMessages returns how many messages clockd has taken as alarms.
func (b *testbed) takenMessages(ctx context.Context) (float64, error) {
	taken, err := metric(ctx, b.child.url, `clockd_rabbit_intake_messages_total{result="set"}`)
	if errors.Is(err, errNoMetric) {
		return 0, nil // before the first message
	}
	return taken, err
}

// publishDelayed publishes the messages of the tally from several connections.
func (r *run) publishDelayed(ctx context.Context, b *testbed, t *tally, headers delay) error {
	var sent atomic.Int64
	defer r.progress.follow("publish", &sent, len(t.first))()
	// interleaved, so that a constant rate stays constant
	return eachShare(ctx, bulkWriters, func(ctx context.Context, writer, _, _ int) (err error) {
		p, err := newBarePublisher(ctx, b.broker, "", false)
		if err != nil {
			return err
		}
		defer p.close()
		p.exchange, p.key = "", b.broker.delayed // the default exchange leads to the queue
		confirms := make([]*amqp.DeferredConfirmation, 0, bulkRows)
		for i := writer; i < len(t.first); i += bulkWriters {
			table, err := headers(ctx, t.ringAt(i))
			if err != nil {
				return err
			}
			c, err := p.ch.PublishWithDeferredConfirm(p.exchange, p.key, true, false, amqp.Publishing{
				DeliveryMode: amqp.Persistent, ContentType: contentType, MessageId: t.series.id(i),
				CorrelationId: t.series.id(i), Headers: table,
				Body: t.series.appendPayload(nil, i),
			})
			if err != nil {
				return err
			}
			sent.Add(1)
			if confirms = append(confirms, c); len(confirms) == bulkRows {
				if err := allConfirmed(confirms); err != nil {
					return err
				}
				confirms = confirms[:0]
			}
		}
		return allConfirmed(confirms)
	})
}

func allConfirmed(confirms []*amqp.DeferredConfirmation) error {
	for _, c := range confirms {
		if !c.Wait() {
			return errUnconfirmed
		}
	}
	return nil
}
