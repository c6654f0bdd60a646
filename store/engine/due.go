package engine

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Due reads a page of due alarms in one statement. With application names it takes two: the first finds the end of the page, the second
// reads the page.
func (s *Store) Due(ctx context.Context, q store.DueQuery) (page store.DuePage, err error) {
	err = s.call(ctx, "read due alarms", func(ctx context.Context) error {
		page, err = s.due(ctx, q)
		return err
	})
	return page, err
}

func (s *Store) due(ctx context.Context, q store.DueQuery) (store.DuePage, error) {
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

// Overdue counts the due alarms in the due index.
func (s *Store) Overdue(ctx context.Context, now clock.Instant, shards []int, limit int) (o store.Overdue, err error) {
	err = s.call(ctx, "count overdue alarms", func(ctx context.Context) (err error) {
		o, err = s.driver.CountDue(ctx, now, shards, limit)
		return err
	})
	return o, err
}
