package pull

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// patience is the time for which a batch waits until its rings are written. Then the rings that are not are awaited.
const patience = 100 * time.Millisecond

// lane hands over one batch at a time.
type lane struct{ target *Target }

// Open does nothing, because there is nothing to connect.
func (lane) Open(context.Context, int) error { return nil }

// Broken returns nil: the lane never breaks.
func (lane) Broken() <-chan struct{} { return nil }

// Close does nothing, because a lane holds no resources.
func (lane) Close() error { return nil }

// Deliver gives the rings to the reserves of their applications, and waits until they are written.
func (l lane) Deliver(ctx context.Context, rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	b := &batch{outcomes: make([]clock.Outcome, len(rings)), reported: make(chan struct{}, 1)}
	b.ctx, b.cancel = context.WithCancel(context.Background())
	byApplication := map[string][]int{}
	for i := range rings {
		byApplication[rings[i].Application] = append(byApplication[rings[i].Application], i)
	}
	for application, indexes := range byApplication {
		l.giveOut(b, application, rings, indexes, limits)
	}
	until := limits.ReplyBy
	if end := time.Now().Add(patience); limits.Await != nil && end.Before(until) {
		until = end
	}
	b.wait(ctx, until)
	outcomes := b.Outcomes()
	if !slices.ContainsFunc(outcomes, isAwaited) {
		b.cancel()
		return outcomes
	}
	if limits.Await == nil || ctx.Err() != nil {
		b.End()
		return b.Outcomes()
	}
	limits.Await(b)
	return outcomes
}

// giveOut gives one application's rings to its reserves. Rings without a reserve are untaken.
func (l lane) giveOut(b *batch, application string, rings []clock.Ring, indexes []int, limits ring.Limits) {
	for len(indexes) > 0 {
		var r *reserve
		var n, bytes int
		if !limits.TooLateToWrite() {
			r, n, bytes = l.target.next(application, rings, indexes)
		}
		if r == nil {
			b.set(indexes,
				clock.Outcome{Kind: clock.Untaken,
					Reason: "no reserve waits for the ring, or there is no memory for its payload"})
			return
		}
		d := b.delivery(rings, indexes[:n], limits)
		report := d.Done
		d.Done = func(written, begun int, err error) {
			l.target.give(application, bytes)
			report(written, begun, err)
		}
		r.delivery <- d
		indexes = indexes[n:]
	}
}

// fitting returns how many of the rings a reserve gets that asked for at most that many.
func fitting(rings []clock.Ring, indexes []int, most int) int {
	bytes := 0
	for n, i := range indexes {
		if bytes += len(rings[i].Payload); n == most || n > 0 && bytes > maxBytes {
			return n
		}
	}
	return len(indexes)
}

func isAwaited(o clock.Outcome) bool { return o.Kind == clock.Awaited }

// batch is the rings of one call of Deliver.
type batch struct {
	ctx      context.Context //nolint:containedctx // reserves end their writes with it
	cancel   func()          // ends ctx
	reported chan struct{}   // capacity 1; signalled after each report

	mu       sync.Mutex
	outcomes []clock.Outcome // Awaited until their reserve reports
}

var _ ring.LateRings = (*batch)(nil)

// delivery returns what a reserve gets for the rings with these indexes.
func (b *batch) delivery(rings []clock.Ring, indexes []int, limits ring.Limits) clock.Delivery {
	given := make([]clock.Ring, len(indexes))
	for n, i := range indexes {
		given[n] = rings[i]
	}
	b.set(indexes, clock.Outcome{Kind: clock.Awaited})
	return clock.Delivery{Rings: given, TooLateToWrite: limits.TooLateToWrite, Context: b.ctx, Done: func(written, begun int, err error) {
		b.note(indexes[:written], clock.Outcome{Kind: clock.Confirmed})
		b.note(indexes[written:begun],
			clock.Outcome{Kind: clock.Doubtful, Reason: fmt.Sprintf("the ring was not written in whole: %v", err)})
		b.note(indexes[begun:],
			clock.Outcome{Kind: clock.Unsent, Reason: fmt.Sprintf("no byte of the ring was written: %v", err)})
		clock.Signal(b.reported)
	}}
}

func (b *batch) set(indexes []int, o clock.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range indexes {
		b.outcomes[i] = o
	}
}

// note sets an outcome, unless the wait for it has ended.
func (b *batch) note(indexes []int, o clock.Outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range indexes {
		if isAwaited(b.outcomes[i]) {
			b.outcomes[i] = o
		}
	}
}

// wait waits until all reserves have reported, at most until a time or the end of ctx.
func (b *batch) wait(ctx context.Context, until time.Time) {
	for slices.ContainsFunc(b.Outcomes(), isAwaited) {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		select {
		case <-b.reported:
		case <-time.After(left):
		case <-ctx.Done():
			return
		}
	}
}

// Outcomes returns the outcomes that are known now; see ring.LateRings.
func (b *batch) Outcomes() []clock.Outcome {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.outcomes)
}

// Stuck returns false. A client that does not read is cut off by the write deadline, and that is a report.
func (b *batch) Stuck() bool { return false }

// End makes rings without a report doubtful, and ends their writes; see ring.LateRings.
func (b *batch) End() {
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, o := range b.outcomes {
		if isAwaited(o) {
			b.outcomes[i] = clock.Outcome{Kind: clock.Doubtful,
				Reason: "the reserve did not report whether the ring was written"}
		}
	}
}
