package preload

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
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
	log     *slog.Logger
	metrics *metrics
	wake    chan struct{} // capacity 1: the watermark was lowered

	// owned by the goroutine of run
	sweepFrom store.Position
	swept     time.Time
	failures  int

	mu     sync.Mutex
	shards []int
	mark   store.Position // every row before it was offered
}

// assign gives the loader its shards; entries of others are dropped, new ones are loaded from the beginning. run must not
// be running.
func (l *loader) assign(shards []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slices.Equal(l.shards, shards) {
		return
	}
	l.heap.Keep(l.number, func(shard int) bool { return slices.Contains(shards, shard) })
	l.shards = shards
	l.mark = store.Position{}
}

// run steps until ctx ends.
func (l *loader) run(ctx context.Context) {
	if len(l.shards) == 0 {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		case <-l.heap.Drained(l.number):
		case <-timer.C:
		}
		timer.Reset(l.step(ctx))
	}
}

// step reads all there is to read now and returns how long there is nothing.
func (l *loader) step(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		more, err := l.read(ctx)
		if err != nil {
			return l.failed(err)
		}
		l.failures = 0
		if !more {
			return l.cfg.Sweep - min(l.cfg.Sweep, time.Since(l.swept))
		}
	}
	return l.cfg.Sweep
}

// failed returns how long to wait after an error.
func (l *loader) failed(err error) time.Duration {
	const first, last = 100 * time.Millisecond, 5 * time.Second
	pause := min(last, first<<min(l.failures, 10))
	l.failures++
	l.metrics.errors.Inc()
	l.log.Warn("could not read what is due", "loader", l.number, "attempt", l.failures, "err", err)
	return pause/2 + rand.N(pause/2)
}

// read sweeps when it is time to, and reads a page when there is something to read and room for it; more reports that
// there may be another.
func (l *loader) read(ctx context.Context) (more bool, err error) {
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
	return l.page(ctx, now)
}

// page reads the next page ahead.
func (l *loader) page(ctx context.Context, now clock.Instant) (more bool, err error) {
	mark, shards := l.position()
	if mark.Time > now.Add(l.cfg.Window/2) || !l.heap.Wants(l.number, mark) {
		return false, nil
	}
	until := store.Position{Time: now.Add(l.cfg.Window)}
	from := l.raise(until)
	page, err := l.source.Due(ctx, store.DueQuery{Shards: shards, From: from, Until: until, Limit: l.cfg.Page})
	if err != nil {
		l.lower(from)
		return false, err
	}
	l.metrics.rows.Add(float64(len(page.Rows)))
	l.lower(page.Complete)
	full := l.offer(page.Rows)
	return page.Complete.Before(until) && !full, nil
}

// sweep reads a page of what is overdue below the watermark, from where the last sweep ended.
func (l *loader) sweep(ctx context.Context, now clock.Instant) error {
	mark, shards := l.position()
	until := store.Position{Time: now}
	if mark.Before(until) {
		until = mark
	}
	if !l.sweepFrom.Before(until) {
		l.sweepFrom = store.Position{}
	}
	page, err := l.source.Due(ctx, store.DueQuery{Shards: shards, From: l.sweepFrom, Until: until, Limit: l.cfg.Page / 4})
	if err != nil {
		return err
	}
	l.metrics.swept.Add(float64(len(page.Rows)))
	l.sweepFrom = page.Complete
	if !page.Complete.Before(until) {
		l.sweepFrom = store.Position{}
	}
	l.offer(page.Rows)
	return nil
}

// take offers rows that lie before the watermark, and removes others from the heap.
func (l *loader) take(rows []store.Due, gone []int64) {
	if len(gone) > 0 {
		l.heap.Remove(l.number, gone)
	}
	mark, _ := l.position()
	rows = slices.DeleteFunc(rows, func(d store.Due) bool { return !d.Position().Before(mark) })
	l.offer(rows)
}

// offer puts rows into the heap; the watermark falls back to what it has no room for.
func (l *loader) offer(rows []store.Due) (full bool) {
	if len(rows) == 0 {
		return false
	}
	cut, full := l.heap.Offer(l.number, rows)
	if full {
		l.lower(cut)
	}
	return full
}

func (l *loader) position() (mark store.Position, shards []int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.mark, l.shards
}

// raise moves the watermark up and returns where it was.
func (l *loader) raise(to store.Position) (from store.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from, l.mark = l.mark, to
	return from
}

func (l *loader) lower(to store.Position) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if to.Before(l.mark) {
		l.mark = to
	}
}

// nudge makes the loader look at once.
func (l *loader) nudge() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
