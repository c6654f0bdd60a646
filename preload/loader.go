package preload

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// loader reads the due alarms of its shards into its share of the heap.
type loader struct {
	cfg     Config
	number  int // of the loader and of its share of the heap
	source  store.Loader
	heap    Heap
	time    Time
	rings   func(shard int, to store.Addressee) bool // this node rings the addressee's alarms of the shard
	check   *emptyCheck
	log     *slog.Logger
	metrics *metrics
	wake    chan struct{} // capacity 1; signalled when there may be more to read than the last step knew

	// owned by run's goroutine
	sparse     map[string]bool // by kind of read: most rows of the last read were useless, so the next read is filtered
	sweepState sweepState
	lastSweep  time.Time // zero: none yet
	failures   int       // failed steps since the last successful step
	credit     int       // rows that pages for some addressees may still read; see affords

	progress progress
}

// assign sets the loader's shards. It drops the heap entries of lost shards. The loader reads gained shards and
// applications from the beginning.
func (l *loader) assign(a assignment) {
	l.progress.assign(a, func() {
		l.heap.KeepShards(l.number, func(shard int) bool { return slices.Contains(a.shards, shard) })
	})
	l.poke()
}

// run repeats step until ctx ends.
func (l *loader) run(ctx context.Context) {
	timer := time.NewTimer(l.step(ctx))
	defer timer.Stop()
	for {
		wake, heapWake := l.wake, l.heap.LoaderWake(l.number)
		if l.failures > 0 { // nothing shortens the pause after an error
			wake, heapWake = nil, nil
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-heapWake:
		case <-timer.C:
		}
		timer.Reset(l.step(ctx))
	}
}

// step reads pages until there is nothing more to read. It returns how long to wait before the next step.
func (l *loader) step(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		more, err := l.read(ctx)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			return l.failed(err)
		case !more:
			l.failures = 0
			return max(minPause, l.cfg.Sweep-time.Since(l.lastSweep))
		}
	}
	return l.cfg.Sweep
}

// minPause is the shortest wait of a loader that has nothing to read.
const minPause = time.Millisecond

// readBackoff is the wait of a loader after failures in a row.
var readBackoff = clock.Backoff{First: 100 * time.Millisecond, Last: 5 * time.Second}

// failed logs and counts a failed read, and returns how long to wait before the next step.
func (l *loader) failed(err error) time.Duration {
	wait := readBackoff.Wait(l.failures)
	l.failures++
	l.metrics.errors.Inc()
	l.log.Warn("could not read due alarms", "loader", l.number, "attempt", l.failures, "err", err)
	return wait
}

// read sweeps if the last sweep is older than cfg.Sweep. Then it reads a page of each other kind that has something to
// read. more reports whether there may be a further page.
func (l *loader) read(ctx context.Context) (more bool, err error) {
	if len(l.progress.assigned()) == 0 {
		l.lastSweep = time.Now()
		return false, nil
	}
	now, err := l.time.AtLeast()
	if err != nil {
		return false, err
	}
	l.progress.start(recentFrom(now))
	sweep := time.Since(l.lastSweep) >= l.cfg.Sweep
	if sweep {
		if err := l.sweep(ctx, now); err != nil {
			return false, err
		}
		l.lastSweep = l.sweepState.asOf
		if rest := time.Now().Add(-l.cfg.Sweep / 2); l.lastSweep.Before(rest) { // sweeps that take long leave room for other reads
			l.lastSweep = rest
		}
	}
	l.progress.markAllBehind(l.heap.Offer(l.number, nil)) // rows that the heap left out since the last offer
	return l.pages(ctx, now, sweep)
}

// pages reads one page each ahead, for addressees that are behind, and from the gaps.
func (l *loader) pages(ctx context.Context, now clock.Instant, sweep bool) (more bool, err error) {
	ahead, err := l.ahead(ctx, now)
	if err != nil {
		return false, err
	}
	behind, err := l.catchUp(ctx, sweep)
	if err != nil {
		return false, err
	}
	backlog, err := l.backlog(ctx, now)
	return ahead || behind || backlog, err
}

// ahead reads the next page up to the horizon.
func (l *loader) ahead(ctx context.Context, now clock.Instant) (more bool, err error) {
	horizon := store.Position{Time: now.Add(l.cfg.Window)}
	from, ok := l.progress.beginPage(now.Add(l.cfg.Window/2), horizon)
	if !ok {
		return false, nil
	}
	page, err := l.readPage(ctx, readAhead,
		l.exclude(readAhead, store.DueQuery{From: from, Until: horizon, Limit: l.cfg.Page}))
	if err != nil {
		l.progress.failPage(from)
		return false, err
	}
	l.learn(readAhead, page, l.progress.endPage(from, page.DuePage, l.offer))
	return page.CompleteUntil.Before(horizon), nil
}

// catchUp reads the next page for addressees that are behind and for which the heap has room now. After a sweep it asks
// the heap about all of them, because the room for an addressee also depends on the other addressees' entries.
func (l *loader) catchUp(ctx context.Context, sweep bool) (more bool, err error) {
	rechecks, roomy := l.heap.TakeRechecks(l.number)
	l.progress.noteRechecks(rechecks)
	paid := l.affords(sweep)
	if !roomy && !paid {
		return false, nil
	}
	b, ok := l.progress.beginBehind(roomy || sweep, func(addressee store.Addressee, from store.Position) bool {
		return l.heap.HasRoomFor(l.number, addressee, from, !paid)
	})
	if !ok {
		return false, nil
	}
	q := store.DueQuery{From: b.from, Until: b.until, Limit: l.cfg.Page}
	if l.sparse[readBehind] && len(b.addressees) <= store.MaxDueNames {
		q.Only = b.names()
	}
	page, err := l.readPage(ctx, readBehind, q)
	if err != nil {
		l.progress.failBehind(b)
		return false, err
	}
	useful := l.progress.endBehind(b, page.DuePage, l.offer)
	l.credit += maxRowsPerUseful*useful - len(page.Rows)
	if page.filtered { // the database also read past other addressees' rows
		l.credit -= page.maxRows / 2
	}
	l.learn(readBehind, page, useful)
	return true, nil
}

// maxRowsPerUseful is the number of rows that pages for some addressees may bring for each useful row, on average.
const maxRowsPerUseful = 3

// affords reports whether catchUp may read a page for some addressees now. Such pages use up credit, and their useful
// rows earn credit. Without this bound thousands of addressees would cost one page each for a few rows, because each of
// them runs low at another moment. Each sweep allows one page. Pages for gained addressees have no bound: such
// addressees are few, and their subscribers wait. Nor have pages for all addressees of a route that are behind.
func (l *loader) affords(sweep bool) bool {
	page := l.cfg.Page * len(l.progress.assigned())
	l.credit = max(-page, min(l.credit, page))
	if sweep {
		l.credit = max(l.credit, 1)
	}
	return l.credit > 0 || l.progress.hasGained()
}

// backlog reads the next page of the gaps.
func (l *loader) backlog(ctx context.Context, now clock.Instant) (more bool, err error) {
	g, ok := l.progress.beginGap(now)
	if !ok {
		return false, nil
	}
	q := l.exclude(readBacklog, store.DueQuery{Shards: g.shards, From: g.from, Until: g.until, Limit: l.cfg.Page})
	page, err := l.readPage(ctx, readBacklog, q)
	if err != nil {
		l.progress.failGap(g)
		return false, err
	}
	l.learn(readBacklog, page, l.progress.endGap(g, page.DuePage, l.offer))
	return true, nil
}

// exclude adds the addressees whose rows the database is to skip: others, and the frequent addressees that are behind.
// It adds none if there are no others and most rows of the kind's last read were useful.
func (l *loader) exclude(kind string, q store.DueQuery, others ...store.Addressee) store.DueQuery {
	if l.sparse[kind] || len(others) > 0 {
		names := append(l.progress.frequentFrom(q.From), others...)
		q.Except = names[:min(len(names), store.MaxDueNames)]
	}
	return q
}

// duePage is a page of due rows, and the query's limits.
type duePage struct {
	store.DuePage
	filtered bool // the query named addressees, so the database read past other rows
	maxRows  int  // the largest number of rows that the page may have
}

// scanFactor is the number of index entries that a filtered read may go past for each row that it may bring.
const scanFactor = 16

// readPage reads a page from the due index, in all shards of the loader if the query names none.
func (l *loader) readPage(ctx context.Context, kind string, q store.DueQuery) (duePage, error) {
	if q.Shards == nil {
		q.Shards = l.progress.assigned()
	}
	if len(q.Shards) == 0 { // the loader lost its shards after the read began
		return duePage{DuePage: store.DuePage{CompleteUntil: q.Until}}, nil
	}
	q.ScanLimit = scanFactor * q.Limit
	page, err := l.source.Due(ctx, q)
	if err == nil {
		l.metrics.page(kind, len(page.Rows))
	}
	return duePage{page, q.Filtered(), q.Limit * len(q.Shards)}, err
}

// learn notes whether the next read of the kind should be filtered. A filter costs the database a second look at the
// index. It pays off when most rows are useless.
func (l *loader) learn(kind string, page duePage, useful int) {
	switch {
	case !page.filtered && len(page.Rows) > 0:
		l.sparse[kind] = 2*useful < len(page.Rows)
	case page.filtered && 2*len(page.Rows) >= page.maxRows:
		l.sparse[kind] = false // useful rows are dense
	}
}

// takeCommitted removes the gone ids from the heap, and offers the committed rows before the watermark.
func (l *loader) takeCommitted(rows []store.Due, gone []int64) {
	l.progress.takeCommitted(rows, gone, func(rows []store.Due) []store.Due {
		if len(gone) > 0 {
			l.heap.Remove(l.number, gone)
		}
		return l.offer(rows)
	})
}

// offer offers the rows that this node rings to the heap. It returns the rows that the heap left out: for each
// addressee the first such row.
func (l *loader) offer(rows []store.Due) (missing []store.Due) {
	rows = slices.DeleteFunc(rows, func(d store.Due) bool { return !l.rings(d.Shard, d.Addressee()) })
	if len(rows) == 0 {
		return nil
	}
	return l.heap.Offer(l.number, rows)
}

// rewind lets the loader read all rows once more.
func (l *loader) rewind() {
	l.progress.rewind()
	l.poke()
}

// poke wakes the loader.
func (l *loader) poke() {
	clock.Signal(l.wake)
}
