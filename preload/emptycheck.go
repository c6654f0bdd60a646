package preload

import (
	"context"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// emptyCheck reads whether any row of the node is overdue, in one statement for all loaders. While none is, the loaders
// need no sweeps of their own, so an idle node reads once a second. All loaders of a node share one emptyCheck.
type emptyCheck struct {
	source   store.Loader
	shards   func() []int  // all shards of the loaders
	interval time.Duration // time between two sweeps of a loader
	metrics  *metrics

	turn chan struct{} // capacity 1; has an element while a loader reads or uses last. The others wait for its result
	last emptyResult
}

// emptyResult is the result of one read.
type emptyResult struct {
	begun  time.Time     // local time when the read began
	until  clock.Instant // the read covers rows that are due before
	shards []int         // shards that the read found empty; sorted. Nil if any shard has an overdue row
}

// turnWait is how long a loader waits for the result of another loader's read. Then it sweeps by itself, so a read that
// hangs holds up one loader alone.
const turnWait = 250 * time.Millisecond

// read returns a result whose read began after lastLook, the time of the loader's last look. It reads only if no other
// loader has just read. empty is true if the result shows no overdue row in the given shards. If it is false, the
// loader sweeps by itself.
func (c *emptyCheck) read(
	ctx context.Context, lastLook time.Time, now clock.Instant, shards []int,
) (r emptyResult, empty bool, err error) {
	arrived := time.Now()
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return r, false, ctx.Err()
	case <-time.After(turnWait):
		return r, false, nil
	}
	if !c.last.begun.After(lastLook) || arrived.Sub(c.last.begun) >= c.interval/2 {
		if c.last, err = c.readAll(ctx, now, c.shards()); err != nil {
			return r, false, err
		}
	}
	return c.last, len(within(shards, c.last.shards)) == len(shards), nil
}

// readAll reads whether any of the shards has an overdue row.
func (c *emptyCheck) readAll(ctx context.Context, now clock.Instant, shards []int) (emptyResult, error) {
	r := emptyResult{begun: time.Now(), until: now}
	if len(shards) == 0 {
		return r, nil
	}
	until := store.Position{Time: now}
	page, err := c.source.Due(ctx, store.DueQuery{Shards: shards, Until: until, Limit: 1})
	if err != nil {
		return emptyResult{}, err
	}
	c.metrics.page(readCheck, 0) // the loaders' own sweeps count the rows
	if len(page.Rows) == 0 && !page.CompleteUntil.Before(until) {
		r.shards = shards
	}
	return r, nil
}
