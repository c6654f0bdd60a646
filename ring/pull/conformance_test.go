package pull

import (
	"context"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestConformance(t *testing.T) {
	targettest.Run(t, targettest.Engine{Open: openConformance, Absent: clock.Untaken, KnowsReceivers: true})
}

// conformanceBench is a target with workers.
type conformanceBench struct {
	target  *Target
	ctx     context.Context
	reply   func() // ends the wait of Late receivers
	wait    chan struct{}
	workers sync.WaitGroup

	mu       sync.Mutex
	received map[string][]targettest.Received
}

func openConformance(t *testing.T) targettest.Bench {
	t.Helper()
	b := &conformanceBench{target: New(func() {}), wait: make(chan struct{}),
		received: map[string][]targettest.Received{}}
	b.reply = sync.OnceFunc(func() { close(b.wait) })
	ctx, cancel := context.WithCancel(context.Background())
	b.ctx = ctx
	t.Cleanup(func() {
		cancel()
		b.workers.Wait()
		b.target.Close()
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

// Receive adds four workers, and waits until all of them have reserved rings.
func (b *conformanceBench) Receive(application string, how targettest.Behaviour) {
	const workers = 4
	for range workers {
		b.workers.Go(func() {
			for b.ctx.Err() == nil {
				if d, ok := b.target.Reserve(b.ctx, application, MaxRings); ok {
					b.take(application, how, d)
				}
			}
		})
	}
	for b.target.Ration(application) < workers*MaxRings {
		<-time.After(time.Millisecond)
	}
}
