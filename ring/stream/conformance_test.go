package stream

import (
	"context"
	"sync"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/targettest"
)

func TestConformance(t *testing.T) {
	targettest.Run(t, targettest.Engine{Open: openConformance, Absent: clock.Unsent, KnowsReceivers: true})
}

// conformanceBench is a target with subscribers.
type conformanceBench struct {
	target  *Target
	ctx     context.Context
	reply   func() // ends the wait of Late receivers
	wait    chan struct{}
	readers sync.WaitGroup

	mu       sync.Mutex
	received map[string][]targettest.Received
}

func openConformance(t *testing.T) targettest.Bench {
	t.Helper()
	b := &conformanceBench{target: New(), wait: make(chan struct{}), received: map[string][]targettest.Received{}}
	b.reply = sync.OnceFunc(func() { close(b.wait) })
	ctx, cancel := context.WithCancel(context.Background())
	b.ctx = ctx
	t.Cleanup(func() {
		cancel()
		b.readers.Wait()
	})
	return b
}

func (b *conformanceBench) Target() ring.Target { return b.target }
func (b *conformanceBench) Reply()              { b.reply() }

// take notes the rings of a delivery, and reports them as written.
func (b *conformanceBench) take(application string, how targettest.Behaviour, d clock.Delivery) {
	b.mu.Lock()
	for i := range d.Rings {
		r := &d.Rings[i]
		b.received[application] = append(b.received[application], targettest.Received{
			MessageID: r.MessageID(), BusinessID: r.BusinessID, ContentType: r.ContentType, Payload: string(r.Payload),
		})
	}
	b.mu.Unlock()
	if how == targettest.Late {
		select {
		case <-b.wait:
		case <-d.Context.Done():
			d.Done(0, len(d.Rings), d.Context.Err())
			return
		case <-b.ctx.Done():
		}
	}
	d.Done(len(d.Rings), len(d.Rings), nil)
}

func (b *conformanceBench) Received(application string) []targettest.Received {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]targettest.Received(nil), b.received[application]...)
}

// Receive adds a subscriber.
func (b *conformanceBench) Receive(application string, how targettest.Behaviour) {
	s := b.target.Subscribe(application)
	b.readers.Go(func() {
		defer s.Close()
		for {
			select {
			case d := <-s.Deliveries():
				b.take(application, how, d)
			case <-b.ctx.Done():
				return
			}
		}
	})
}
