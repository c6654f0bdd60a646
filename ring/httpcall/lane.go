package httpcall

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// lane hands over one batch at a time.
type lane struct{ target *Target }

// Open does nothing: the HTTP client connects when a request needs a connection.
func (lane) Open(context.Context, int) error { return nil }

// Broken returns nil: the lane never breaks.
func (lane) Broken() <-chan struct{} { return nil }

// Close does nothing, because a lane holds no resources.
func (lane) Close() error { return nil }

// Deliver sends the rings of all receivers concurrently, each receiver with its own limit. A slow receiver delays no
// other: its rings are Awaited (limits.Await) or, without a slot, Untaken.
func (l lane) Deliver(ctx context.Context, rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	d := &lateDelivery{outcomes: make([]clock.Outcome, len(rings))}
	var receivers sync.WaitGroup
	for name, indexes := range byReceiver(rings) {
		part := &handover{
			target: l.target, limits: limits, delivery: d, receiver: l.target.receivers.get(name),
			began:   time.Now(),
			reports: make(chan report, len(indexes)), calls: map[int]*Call{},
		}
		d.parts = append(d.parts, part)
		receivers.Go(func() {
			defer part.receiver.use(-1)
			part.handOver(ctx, rings, indexes)
			part.await(ctx)
		})
	}
	receivers.Wait()
	if limits.Await == nil || ctx.Err() != nil {
		d.End()
		return d.outcomes
	}
	outcomes := slices.Clone(d.Outcomes())
	if len(d.parts) > 0 {
		limits.Await(d)
	}
	return outcomes
}

// byReceiver returns the indexes of each receiver's rings, in the order of rings.
func byReceiver(rings []clock.Ring) map[string][]int {
	indexes := map[string][]int{}
	for i := range rings {
		receiver := rings[i].Receiver()
		indexes[receiver] = append(indexes[receiver], i)
	}
	return indexes
}
