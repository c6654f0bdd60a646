package preload

import (
	"context"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// sweepState is where the next sweep of a loader goes on. The loader's goroutine owns it.
type sweepState struct {
	nextOverdue store.Position // start of the next page in the round over all overdue rows; zero: a new round begins
	nextRecent  store.Position // start of the next page of recent rows; zero: where recent rows begin
	sweptUntil  clock.Instant  // database time of the last completed sweep; zero: none yet
	empty       bool           // the last sweep found no overdue row
	asOf        time.Time      // local time as of which the last sweep looked
}

const (
	// sweepPages bounds the pages of recent rows that a sweep reads.
	sweepPages = 8
	// sweepOverlap is how far before the last sweep a sweep begins when it cannot read all recent rows.
	sweepOverlap = 2 * time.Second
)

// sweep finds overdue rows that other reads and wake-ups missed. After a sweep that found no row, the emptyCheck
// replaces the next sweeps, until it finds one.
func (l *loader) sweep(ctx context.Context, now clock.Instant) error {
	if l.sweepState.empty {
		result, empty, err := l.check.read(ctx, l.sweepState.asOf, now, l.progress.assigned())
		if err != nil {
			return err
		}
		if empty {
			l.sweepState.sweptUntil, l.sweepState.asOf = result.until, result.begun
			return nil
		}
	}
	l.sweepState.asOf = time.Now()
	return l.sweepOverdue(ctx, now)
}

// sweepOverdue reads one page of overdue rows, from the end of the last sweep's page. If the page reaches neither the
// watermark nor now, it also reads the recent rows. A row is never committed with a next_try_time older than recentAge.
// So the recent rows include every row whose wake-up was just lost.
func (l *loader) sweepOverdue(ctx context.Context, now clock.Instant) error {
	until := l.progress.capAtWatermark(store.Position{Time: now})
	if !l.sweepState.nextOverdue.Before(until) {
		l.sweepState.nextOverdue = store.Position{}
	}
	from := l.sweepState.nextOverdue
	page, err := l.sweepPage(ctx, readSweep, from, until)
	if err != nil {
		return err
	}
	complete := !page.CompleteUntil.Before(until)
	l.sweepState.empty = from == (store.Position{}) && complete && len(page.Rows) == 0
	if l.sweepState.nextOverdue = page.CompleteUntil; !complete {
		return l.sweepRecent(ctx, now, until)
	}
	l.sweepState.nextOverdue, l.sweepState.sweptUntil = store.Position{}, now // the round is complete
	return nil
}

// sweepRecent reads recent rows, from the end of the last sweep's pages of recent rows. If its pages do not reach the
// end of the recent rows, it also reads the rows that came due since the last sweep.
func (l *loader) sweepRecent(ctx context.Context, now clock.Instant, until store.Position) error {
	begin := store.Position{Time: recentFrom(now)}
	from := l.sweepState.nextRecent
	if from = later(from, begin); !from.Before(until) {
		from = begin
	}
	var busy []store.Addressee
	for range sweepPages {
		page, err := l.sweepPage(ctx, readRecent, from, until, busy...)
		if err != nil {
			return err
		}
		if from = page.CompleteUntil; !from.Before(until) || len(busy) > 0 {
			break
		}
		busy = l.busiest(page)
	}
	since := store.Position{Time: max(0, l.sweepState.sweptUntil.Add(-sweepOverlap))}
	if from.Before(since) {
		if _, err := l.sweepPage(ctx, readRecent, since, until, busy...); err != nil {
			return err
		}
	}
	l.sweepState.nextRecent, l.sweepState.sweptUntil = from, now
	return nil
}

// busiest returns the addressees with the most useful rows in the page. They ring from the heap, thousands at a time.
// The sweep skips the rest of their rows.
func (l *loader) busiest(page duePage) (names []store.Addressee) {
	counts := map[store.Addressee]int{}
	for i := range page.Rows {
		counts[page.Rows[i].Addressee()]++
	}
	skipped := l.progress.frequentFrom(page.CompleteUntil)
	for name, n := range counts {
		if n >= max(frequentRows, page.maxRows/store.MaxDueNames) && !slices.Contains(skipped, name) {
			names = append(names, name)
		}
	}
	return names
}

// sweepPage reads a page without the rows of the addressees that exclude names, and offers its rows. It returns the
// page with all its rows.
func (l *loader) sweepPage(
	ctx context.Context, kind string, from, until store.Position, others ...store.Addressee,
) (duePage, error) {
	if !from.Before(until) {
		return duePage{DuePage: store.DuePage{CompleteUntil: until}}, nil
	}
	l.progress.beginSweep()
	page, err := l.readPage(ctx, kind,
		l.exclude(kind, store.DueQuery{From: from, Until: until, Limit: l.cfg.Page / 4}, others...))
	if err != nil {
		l.progress.failSweep()
		return page, err
	}
	read := page
	read.Rows = slices.Clone(page.Rows) // endSweep changes page.Rows
	l.learn(kind, page, l.progress.endSweep(page.DuePage, l.offer))
	return read, nil
}
