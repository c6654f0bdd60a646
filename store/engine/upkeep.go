package engine

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Expire reads a page of due rows and ends the rows whose latest_ring_at has passed.
func (s *Store) Expire(
	ctx context.Context, now clock.Instant, shards []int, from store.Position, limit int,
) ([]store.EndedAlarm, store.Position, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	until := store.Position{Time: now + 1}
	// each shard may give twice its share of the limit; a page that is too short costs only one more call
	page, err := s.due(ctx, store.DueQuery{Shards: shards, From: from, Until: until, Limit: min(limit, 2*limit/len(shards)+1)})
	if err != nil {
		return nil, from, s.mapError(ctx, "read due alarms", err)
	}
	rows, next := page.Rows, page.CompleteUntil
	if len(rows) > limit {
		rows, next = rows[:limit], rows[limit].Position()
	}
	if next == until {
		next = store.Position{}
	}
	if len(rows) == 0 {
		return nil, next, nil
	}
	ids := Column(rows, func(d *store.Due) int64 { return d.ID })
	var ended []store.EndedAlarm
	err = s.replayed(ctx, "expire", func(ctx context.Context) (err error) {
		ended, err = s.driver.EndExpired(ctx, now, ids)
		return err
	})
	if err != nil {
		return nil, from, err
	}
	return ended, next, nil
}

// maxPurge is the largest number of rows that one transaction deletes, so that no transaction holds its locks for long.
const maxPurge = 500

// Purge deletes finished alarms, up to maxPurge in one transaction. It ends after a transaction that found fewer.
func (s *Store) Purge(ctx context.Context, before, settled clock.Instant, limit int) (deleted int, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	for deleted < limit {
		p := Purge{Before: before, Settled: settled, Limit: min(maxPurge, limit-deleted), Shards: max(1, s.ShardCount())}
		var n int
		err := s.replayed(ctx, "purge", func(ctx context.Context) (err error) {
			n, err = s.driver.DeleteFinished(ctx, p)
			return err
		})
		if err != nil {
			return deleted, err
		}
		if deleted += n; n < p.Limit {
			break
		}
	}
	return deleted, nil
}
