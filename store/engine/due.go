package engine

import (
	"context"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Due reads a page of due alarms in one statement. With application names it takes two: the first finds the end of the
// page, the second reads the page.
func (s *Store) Due(ctx context.Context, q store.DueQuery) (page store.DuePage, err error) {
	err = s.call(ctx, "read due alarms", func(ctx context.Context) error {
		page, err = s.due(ctx, q)
		return err
	})
	return page, err
}

// due reads a page. If that fails and the shards have several placements, it reads each placement by itself, and leaves
// out the ones that fail. Otherwise a server that is down would stop the rings of all others. Sweeps find the alarms
// that were left out.
func (s *Store) due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	page, err := s.readPage(ctx, q)
	if err == nil {
		return page, nil
	}
	parts := s.partsOfShards(q.Shards)
	if len(parts) == 1 {
		return page, err
	}
	pages := make([]store.DuePage, len(parts))
	errs := eachPart(parts, func(number int, p *part) (err error) {
		own := q
		own.Shards = pick(q.Shards, p.indexes)
		pages[number], err = s.readPage(ctx, own)
		return err
	})
	if allFailed(errs) != nil {
		return page, err
	}
	_ = s.mapError(ctx, "read due alarms of some servers", err) // counted; the page has the alarms of the others
	page = store.DuePage{CompleteUntil: q.Until}
	for i := range pages {
		if errs[i] == nil && pages[i].CompleteUntil.Before(page.CompleteUntil) {
			page.CompleteUntil = pages[i].CompleteUntil
		}
	}
	for i := range pages {
		page.Rows = append(page.Rows, pages[i].Rows...)
	}
	page.Rows = slices.DeleteFunc(page.Rows, func(d store.Due) bool { return !d.Position().Before(page.CompleteUntil) })
	slices.SortFunc(page.Rows, func(a, b store.Due) int { return a.Position().Compare(b.Position()) })
	return page, nil
}

// partsOfShards divides the shards by placement.
func (s *Store) partsOfShards(shards []int) []part {
	placed := s.placements()
	return placed.split(len(shards), func(i int) int { return placed.of(shards[i]) })
}

func (s *Store) readPage(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
	if q.Filtered() {
		ends, err := s.driver.ReadDueEnds(ctx, &q)
		if err != nil {
			return store.DuePage{}, err
		}
		q.EndBefore(ends)
	}
	rows, err := s.driver.ReadDue(ctx, &q)
	if err != nil {
		return store.DuePage{}, err
	}
	return store.NewDuePage(q, rows), nil
}

// Overdue counts the due alarms in the due index. If that fails and the shards have several placements, it counts the
// placements that do not fail.
func (s *Store) Overdue(ctx context.Context, now clock.Instant, shards []int, limit int) (o store.Overdue, err error) {
	err = s.call(ctx, "count overdue alarms", func(ctx context.Context) (err error) {
		o, err = s.overdue(ctx, now, shards, limit)
		return err
	})
	return o, err
}

func (s *Store) overdue(ctx context.Context, now clock.Instant, shards []int, limit int) (store.Overdue, error) {
	o, err := s.driver.CountDue(ctx, now, shards, limit)
	if err == nil {
		return o, nil
	}
	parts := s.partsOfShards(shards)
	if len(parts) == 1 {
		return o, err
	}
	counts := make([]store.Overdue, len(parts))
	errs := eachPart(parts, func(number int, p *part) (err error) {
		counts[number], err = s.driver.CountDue(ctx, now, pick(shards, p.indexes), limit)
		return err
	})
	if allFailed(errs) != nil {
		return o, err
	}
	o = store.Overdue{Oldest: clock.NoInstant}
	for i, c := range counts {
		if errs[i] != nil || c.Count == 0 {
			continue
		}
		o.Count = min(limit, o.Count+c.Count)
		if o.Oldest == clock.NoInstant || c.Oldest < o.Oldest {
			o.Oldest = c.Oldest
		}
	}
	return o, nil
}
