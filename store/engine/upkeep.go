package engine

import (
	"context"
	"crypto/rand"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Expire reads a page of due rows and ends the rows that may not ring any more.
func (s *Store) Expire(
	ctx context.Context, now clock.Instant, shards []int, from store.Position, limit int,
) (store.ExpiredPage, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	until := store.Position{Time: now + 1}
	// each shard may give twice its share of the limit; a page that is too short costs only one more call
	page, err := s.due(ctx,
		store.DueQuery{Shards: shards, From: from, Until: until, Limit: min(limit, 2*limit/len(shards)+1)})
	if err != nil {
		return store.ExpiredPage{Next: from}, s.mapError(ctx, "read due alarms", err)
	}
	rows, next := page.Rows, page.CompleteUntil
	if len(rows) > limit {
		rows, next = rows[:limit], rows[limit].Position()
	}
	if next == until {
		next = store.Position{}
	}
	ending, err := s.listEnding(ctx, now, Column(rows, func(d *store.Due) int64 { return d.ID }))
	if err != nil {
		return store.ExpiredPage{Next: from}, s.mapError(ctx, "read ending alarms", err)
	}
	if len(ending) == 0 {
		return store.ExpiredPage{Next: next}, nil
	}
	claimed, err := s.Claim(ctx, store.ClaimRequest{
		IDs: ending, Now: now, ClaimID: rand.Text(), Named: store.NamedOf(rows), EndOnly: true,
		Timeout: clock.AwaitTimeout,
	})
	if err != nil {
		return store.ExpiredPage{Next: from}, err
	}
	return store.ExpiredPage{Ended: claimed.Ended, Moved: claimed.Moved, Counted: claimed.Counted, Next: next}, nil
}

// listEnding lists the ids whose alarms may not ring any more, of each placement at once. It fails if all of them fail;
// the next pass looks at the alarms of a placement that failed again.
func (s *Store) listEnding(ctx context.Context, now clock.Instant, ids []int64) ([]int64, error) {
	placed := s.placements()
	parts := placed.split(len(ids), func(i int) int { return placed.ofID(ids[i]) })
	ending := make([][]int64, len(parts))
	errs := eachPart(parts, func(number int, p *part) (err error) {
		ending[number], err = s.driver.ListEnding(ctx, now, pick(ids, p.indexes))
		return err
	})
	if len(parts) == 0 {
		return nil, nil
	}
	return slices.Concat(ending...), allFailed(errs)
}

// maxPurge is the largest number of rows that one transaction deletes, so that no transaction holds its locks for long.
const maxPurge = 500

// Purge deletes finished alarms of each placement in turn. The next call begins with the next placement, so that no
// placement waits for another one that always has more. A placement that fails is left out, unless all fail.
func (s *Store) Purge(ctx context.Context, before, settled clock.Instant, limit int) (deleted int, err error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	count := max(1, s.placements().count)
	first := int(s.purges.Add(1)) % count
	errs := make([]error, 0, count)
	for i := 0; i < count && deleted < limit; i++ {
		n, err := s.purgePlacement(ctx, Purge{Before: before, Settled: settled, Placement: (first + i) % count},
			limit-deleted)
		deleted += n
		errs = append(errs, err)
	}
	if len(errs) == 0 {
		return 0, nil
	}
	return deleted, allFailed(errs)
}

// purgePlacement deletes finished alarms of one placement, up to maxPurge in one transaction. It ends after a
// transaction that found fewer.
func (s *Store) purgePlacement(ctx context.Context, p Purge, limit int) (deleted int, err error) {
	p.Shards = max(1, s.ShardCount())
	for deleted < limit {
		p.Limit = min(maxPurge, limit-deleted)
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
