package stream

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

// Open does nothing, because a stream has nothing to connect.
func (lane) Open(context.Context, int) error { return nil }

// Broken returns nil: the lane never breaks.
func (lane) Broken() <-chan struct{} { return nil }

// Close does nothing, because a lane holds no resources.
func (lane) Close() error { return nil }

// Deliver splits the rings by application and hands each part to the application's free subscribers. It serves all
// applications concurrently. A subscriber that is slow or does not read delays only its own application: its rings are
// Awaited (limits.Await) or, in a shared batch, Untaken.
func (l lane) Deliver(ctx context.Context, rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	d := newLateDelivery(len(rings))
	var applications sync.WaitGroup
	for application, ringIndexes := range byApplication(rings) {
		part := &handover{
			limits: limits, application: application, handed: &l.target.handed, rings: rings, delivery: d,
			outlet: l.target.outlet(application), began: time.Now(),
			reports: make(chan report, len(ringIndexes)), // at most one report per ring, so a report never blocks
		}
		d.parts = append(d.parts, part)
		applications.Go(func() {
			part.handOver(ctx, ringIndexes)
			part.await(ctx)
		})
	}
	applications.Wait()
	if limits.Await == nil || ctx.Err() != nil {
		d.End()
		return d.outcomes
	}
	outcomes := slices.Clone(d.outcomes)
	if d.forgetReported(); len(d.parts) == 0 {
		d.cancel()
		return outcomes
	}
	limits.Await(d)
	return outcomes
}

// byApplication returns the indexes of each application's rings, in the order of rings.
func byApplication(rings []clock.Ring) map[string][]int {
	indexes := map[string][]int{}
	for i := range rings {
		indexes[rings[i].Application] = append(indexes[rings[i].Application], i)
	}
	return indexes
}
