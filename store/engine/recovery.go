package engine

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// SkipIDs leaves out store.SkippedIDs ids.
func (s *Store) SkipIDs(ctx context.Context) error {
	return s.call(ctx, "skip ids", func(ctx context.Context) error { return s.driver.SkipIDs(ctx, store.SkippedIDs) })
}

// MarkRestored marks the next alarms by id, with one transaction for each placement.
func (s *Store) MarkRestored(
	ctx context.Context, now clock.Instant, after int64, limit int,
) (next int64, counts store.RestoredCounts, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	ids, err := s.driver.ReadIDs(ctx, after, limit)
	if err != nil || len(ids) == 0 {
		return after, counts, s.mapError(ctx, "list ids", err)
	}
	placed := s.placements()
	for _, p := range placed.split(len(ids), func(i int) int { return placed.ofID(ids[i]) }) {
		mark := RestoredMark{IDs: pick(ids, p.indexes), Now: now, Reason: store.ReasonRestored, Raise: clock.RaisedGenerations}
		err := s.replayed(ctx, "mark restored alarms", func(ctx context.Context) error {
			marked, err := s.driver.MarkRestored(ctx, mark)
			if err == nil {
				counts = counts.Plus(marked)
			}
			return err
		})
		if err != nil {
			return after, counts, err
		}
	}
	return ids[len(ids)-1], counts, nil
}
