package amqp

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/client"
)

// publisher publishes the answers of one channel. Any goroutine may use it.
type publisher struct {
	ch      *amqp.Channel
	returns chan amqp.Return // answers that the broker could not route; the driver fills it before it reports their confirms

	mu       sync.Mutex
	returned map[string]int // answers that came back, by the message id of their ring
}

// newPublisher returns the publisher of a channel in confirm mode. A channel with prefetch has at most so many answers
// without a confirm, so returns never hold up the driver.
func newPublisher(ch *amqp.Channel, prefetch int) *publisher {
	return &publisher{ch: ch, returns: ch.NotifyReturn(make(chan amqp.Return, prefetch)), returned: map[string]int{}}
}

// answer publishes an answer, and waits until its queue has it. An error means that the queue may not have it.
func (p *publisher) answer(ctx context.Context, queue, messageID string, a client.Answer) error {
	message := amqp.Publishing{
		Type: "alarm." + string(a.Kind), CorrelationId: messageID, DeliveryMode: amqp.Persistent, Headers: amqp.Table{},
	}
	if a.Delay > 0 {
		message.Headers["x-delay"] = a.Delay.Milliseconds()
	}
	if a.Reason != "" {
		message.Headers["x-reason"] = a.Reason
	}
	if a.By != "" {
		message.Headers["x-by"] = a.By
	}
	ctx, cancel := context.WithTimeout(ctx, confirmTime)
	defer cancel()
	// The broker confirms a message without a queue too. Mandatory makes it return this message first.
	confirm, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, message)
	if err != nil {
		return err
	}
	acked, err := confirm.WaitContext(ctx)
	switch cameBack := p.cameBack(messageID); {
	case err != nil:
		return err
	case cameBack:
		return fmt.Errorf("the queue %q for answers does not exist", queue)
	case !acked:
		return errors.New("the broker refused the answer")
	}
	return nil
}

// cameBack reports whether an answer to the ring came back, and forgets it. The caller has waited for the confirm of
// the answer.
func (p *publisher) cameBack(messageID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		select {
		case r, open := <-p.returns:
			if open {
				p.returned[r.CorrelationId]++
				continue
			}
		default:
		}
		break
	}
	n := p.returned[messageID]
	if n > 1 { // two copies of the ring were answered at once
		p.returned[messageID] = n - 1
	} else {
		delete(p.returned, messageID)
	}
	return n > 0
}

// pause waits for answerPause. It returns early when ctx or the channel ends.
func (p *publisher) pause(ctx context.Context) {
	if p.ch.IsClosed() {
		return
	}
	select {
	case <-ctx.Done():
	case <-time.After(answerPause):
	}
}
