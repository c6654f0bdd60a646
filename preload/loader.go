package preload

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// loader reads ahead for its part of the shards into its share of the heap.
type loader struct {
	cfg     Config
	number  int
	source  store.Loader
	heap    Heap
	time    Time
	wanted  func(shard int, application string) bool // rung here; may change, then rewind
	log     *slog.Logger
	metrics *metrics
	wake    chan struct{} // capacity 1: there is more to read than the last step knew

	// owned by the goroutine of run
	sweepFrom store.Position // where the sweep goes on
	sweptTo   clock.Instant  // what is due later came due since the last sweep
	swept     time.Time
	failures  int

	progress progress
}

// assign gives the loader its shards: entries of others are dropped, and everything is read from the beginning.
func (l *loader) assign(shards []int) {
	l.progress.assign(shards, func() {
		l.heap.Keep(l.number, func(shard int) bool { return slices.Contains(shards, shard) })
	})
	l.poke()
}

// run steps until ctx ends.
func (l *loader) run(ctx context.Context) {
	timer := time.NewTimer(l.step(ctx))
	defer timer.Stop()
	for {
		wake, drained := l.wake, l.heap.Drained(l.number)
		if l.failures > 0 { // nothing shortens the pause after an error
			wake, drained = nil, nil
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-drained:
		case <-timer.C:
		}
		timer.Reset(l.step(ctx))
	}
}

// step reads all there is to read now and returns how long there is nothing.
func (l *loader) step(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		more, err := l.read(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			return l.failed(err)
		case !more:
			l.failures = 0
			return max(minPause, l.cfg.Sweep-time.Since(l.swept))
		}
	}
	return l.cfg.Sweep
}

// minPause is how long a loader waits at least when there is nothing to read.
const minPause = time.Millisecond

// failed returns how long to wait after an error.
func (l *loader) failed(err error) time.Duration {
	const first, last = 100 * time.Millisecond, 5 * time.Second
	pause := min(last, first<<min(l.failures, 10))
	l.failures++
	l.metrics.errors.Inc()
	l.log.Warn("could not read what is due", "loader", l.number, "attempt", l.failures, "err", err)
	return pause/2 + rand.N(pause/2)
}

// read sweeps when it is time to, then reads a page of what was left out and one ahead, where there is
// something to read; more reports that there may be another.
func (l *loader) read(ctx context.Context) (more bool, err error) {
	if len(l.progress.owned()) == 0 {
		l.swept = time.Now()
		return false, nil
	}
	now, err := l.time.Now()
	if err != nil {
		return false, err
	}
	if time.Since(l.swept) >= l.cfg.Sweep {
		if err := l.sweep(ctx, now); err != nil {
			return false, err
		}
		l.swept = time.Now()
	}
	l.progress.leaveOut(l.heap.Offer(l.number, nil)) // what the heap has left out since
	behind, err := l.catchUp(ctx)
	if err != nil {
		return false, err
	}
	ahead, err := l.ahead(ctx, now)
	return behind || ahead, err
}

// ahead reads the next page up to the horizon.
func (l *loader) ahead(ctx context.Context, now clock.Instant) (more bool, err error) {
	horizon := store.Position{Time: now.Add(l.cfg.Window)}
	from, ok := l.progress.beginPage(now.Add(l.cfg.Window/2), horizon)
	if !ok {
		return false, nil
	}
	page, err := l.due(ctx, from, horizon, l.cfg.Page)
	if err != nil {
		l.progress.failPage(from)
		return false, err
	}
	l.metrics.rows.Add(float64(len(page.Rows)))
	l.progress.endPage(page, l.offer)
	return page.Complete.Before(horizon), nil
}

// catchUp reads the next page for applications of which something was left out and that the heap has use for now.
func (l *loader) catchUp(ctx context.Context) (more bool, err error) {
	wants := func(application string, from store.Position) bool { return l.heap.Wants(l.number, application, from) }
	b, ok := l.progress.beginBehind(wants)
	if !ok {
		return false, nil
	}
	page, err := l.due(ctx, b.from, b.until, l.cfg.Page)
	if err != nil {
		l.progress.failBehind(b)
		return false, err
	}
	l.metrics.rows.Add(float64(len(page.Rows)))
	l.progress.endBehind(b, page, l.offer)
	return true, nil
}

// sweep reads a page of what is overdue below the watermark from where the last sweep ended, and where that does not reach
// the end, what came due since: a backlog must not hide what was missed just now.
func (l *loader) sweep(ctx context.Context, now clock.Instant) error {
	until := l.progress.before(store.Position{Time: now})
	if !l.sweepFrom.Before(until) {
		l.sweepFrom = store.Position{}
	}
	end, err := l.sweepPage(ctx, l.sweepFrom, until)
	if err != nil {
		return err
	}
	if l.sweepFrom = end; !end.Before(until) {
		l.sweepFrom = store.Position{} // all round
	}
	if recent := (store.Position{Time: l.sweptTo}); end.Before(recent) {
		if _, err := l.sweepPage(ctx, recent, until); err != nil {
			return err
		}
	}
	l.sweptTo = now
	return nil
}

func (l *loader) sweepPage(ctx context.Context, from, until store.Position) (end store.Position, err error) {
	if !from.Before(until) {
		return until, nil
	}
	l.progress.beginSweep()
	page, err := l.due(ctx, from, until, l.cfg.Page/4)
	if err != nil {
		l.progress.failSweep()
		return from, err
	}
	l.metrics.swept.Add(float64(len(page.Rows)))
	l.progress.endSweep(page, l.offer)
	return page.Complete, nil
}

func (l *loader) due(ctx context.Context, from, until store.Position, limit int) (store.DuePage, error) {
	shards := l.progress.owned()
	if len(shards) == 0 { // since the read was begun: it counts for nothing
		return store.DuePage{Complete: until}, nil
	}
	return l.source.Due(ctx, store.DueQuery{Shards: shards, From: from, Until: until, Limit: limit})
}

// take offers committed rows as far as they are to be in the heap, and removes others from it.
func (l *loader) take(rows []store.Due, gone []int64) {
	l.progress.take(rows, gone, func(rows []store.Due) []store.Due {
		if len(gone) > 0 {
			l.heap.Remove(l.number, gone)
		}
		return l.offer(rows)
	})
}

// offer puts the rows that are rung here into the heap and returns what it has no room for.
func (l *loader) offer(rows []store.Due) (missing []store.Due) {
	rows = slices.DeleteFunc(rows, func(d store.Due) bool { return !l.wanted(d.Shard, d.Application) })
	if len(rows) == 0 {
		return nil
	}
	return l.heap.Offer(l.number, rows)
}

// rewind has everything read once more.
func (l *loader) rewind() {
	l.progress.rewind()
	l.poke()
}

// poke has the loader look at once whether there is something to read.
func (l *loader) poke() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
