package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// placements divides the shards of a database by where their rows are. On one server there is one placement. The zero
// value is one placement, too.
type placements struct {
	ofShard []int // number of each shard's placement; nil: one placement
	count   int   // number of placements; 0 and 1: one
}

// newPlacements returns the placements of Server.Placements.
func newPlacements(groups [][]int, shardCount int) placements {
	if len(groups) <= 1 {
		return placements{}
	}
	p := placements{ofShard: make([]int, shardCount), count: len(groups)}
	for number, shards := range groups {
		for _, shard := range shards {
			p.ofShard[shard] = number
		}
	}
	return p
}

// ShardOfID returns the shard of an alarm's id, in a database with several placements: there the id is a number times
// the shard count, plus the shard.
func ShardOfID(id int64, shardCount int) int { return int(uint64(id) % uint64(shardCount)) }

// newIDs returns an id for each key, which its alarm gets if a set creates one. The order of the ids is the order of
// the keys. It returns nil if the database gives the ids.
func (s *Store) newIDs(ctx context.Context, count int, keyOf func(i int) clock.Key) ([]int64, error) {
	known := s.known.Load()
	numbers, takesNumbers := s.driver.(Numbers)
	if !takesNumbers || known.placements.ofShard == nil {
		return nil, nil
	}
	ids, err := numbers.TakeNumbers(ctx, count)
	if err != nil {
		return nil, s.mapError(ctx, "take numbers for ids", err)
	}
	for i, number := range ids {
		ids[i] = number*int64(known.shards) + int64(keyOf(i).Shard(known.shards))
	}
	return ids, nil
}

// of returns the number of a shard's placement.
func (p *placements) of(shard int) int {
	if p.ofShard == nil {
		return 0
	}
	return p.ofShard[shard]
}

// ofID returns the number of the placement of an alarm's id.
func (p *placements) ofID(id int64) int {
	if p.ofShard == nil {
		return 0
	}
	return p.ofShard[ShardOfID(id, len(p.ofShard))]
}

// part is the elements of a call whose rows have one placement.
type part struct {
	placement int
	indexes   []int // in ascending order; nil: all elements
}

// split divides n elements by placement. There is at least one part.
func (p *placements) split(n int, placementOf func(i int) int) []part {
	if p.ofShard == nil || n == 0 {
		return []part{{}}
	}
	byPlacement := make([][]int, p.count)
	for i := range n {
		number := placementOf(i)
		byPlacement[number] = append(byPlacement[number], i)
	}
	var parts []part
	for number, indexes := range byPlacement {
		if len(indexes) > 0 {
			parts = append(parts, part{number, indexes})
		}
	}
	if len(parts) == 1 {
		parts[0].indexes = nil
	}
	return parts
}

// share returns the part's share of a limit for n elements, at least 1. 0 stays 0, which means no limit.
func (p *part) share(limit, n int) int {
	if p.indexes == nil || limit == 0 {
		return limit
	}
	return max(1, limit*len(p.indexes)/n)
}

// pick returns the elements at the indexes.
func pick[T any](all []T, indexes []int) []T {
	if indexes == nil || all == nil {
		return all
	}
	picked := make([]T, len(indexes))
	for i, index := range indexes {
		picked[i] = all[index]
	}
	return picked
}

// eachPart runs do for every part, all at once, and returns the errors in the order of the parts.
func eachPart(parts []part, do func(number int, p *part) error) []error {
	errs := make([]error, len(parts))
	if len(parts) == 1 {
		errs[0] = do(0, &parts[0])
		return errs
	}
	var running sync.WaitGroup
	for i := range parts {
		running.Go(func() { errs[i] = do(i, &parts[i]) })
	}
	running.Wait()
	return errs
}

// allFailed returns the first error if no part has succeeded, and nil otherwise.
func allFailed(errs []error) error {
	if slices.Contains(errs, nil) {
		return nil
	}
	return errs[0]
}

// partedClaim is the store.Settler of a claim with rings in several placements. Each placement has a claim with a
// transaction of its own.
type partedClaim struct {
	claims  []*claim
	claimOf []int  // index of the claim of each ring, in the order of the rings
	settled []bool // claims that the last settlement or release has ended, although others failed
}

var _ store.Settler = (*partedClaim)(nil)

// mergeClaims returns the claims of the placements as one. Each ring keeps its place among the rings of its claim.
func mergeClaims(claims []*claim) *store.Claim {
	merged := &store.Claim{}
	parted := &partedClaim{claims: claims, settled: make([]bool, len(claims))}
	next := make([]int, len(claims))
	for {
		first := -1
		for i, c := range claims {
			if next[i] < len(c.rings) &&
				(first < 0 || ringPosition(&c.rings[next[i]]).Before(ringPosition(&claims[first].rings[next[first]]))) {
				first = i
			}
		}
		if first < 0 {
			break
		}
		merged.Rings, parted.claimOf = append(merged.Rings, claims[first].rings[next[first]]), append(parted.claimOf,
			first)
		next[first]++
	}
	for _, c := range claims {
		merged.Ended, merged.Deferred = append(merged.Ended, c.ended...), append(merged.Deferred, c.deferred...)
		merged.AtMostOnce, merged.Elsewhere = append(merged.AtMostOnce, c.atMostOnce...), append(merged.Elsewhere,
			c.elsewhere...)
		merged.Moved = append(merged.Moved, c.moved...)
		merged.Counted.Add(c.counted)
	}
	slices.SortFunc(merged.Elsewhere, func(a, b store.Elsewhere) int { return cmp.Compare(a.ID, b.ID) }) // as in a claim of one placement
	if len(merged.Rings) > 0 {
		merged.Settler = parted
	}
	return merged
}

// ringPosition returns the place in the due order that the ring's row had before the claim.
func ringPosition(r *clock.Ring) store.Position {
	return store.Position{Time: r.Before.NextTryTime, Rank: store.RankOfRing(r), ID: r.AlarmID}
}

// Settle settles the claims of all placements at once. A repeated call leaves out the claims that are settled. If only
// some transactions of a held claim have failed, the outcome counts as unconfirmed.
func (p *partedClaim) Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	byClaim := make([][]clock.Fate, len(p.claims))
	for i := range fates {
		byClaim[p.claimOf[i]] = append(byClaim[p.claimOf[i]], fates[i])
	}
	if err := p.end(func(i int) error { return p.claims[i].Settle(ctx, now, byClaim[i]) }); err != nil {
		return err
	}
	var awaited []int
	for i := range fates {
		if fates[i].Outcome.Kind == clock.Awaited {
			awaited = append(awaited, p.claimOf[i])
		}
	}
	if len(awaited) > 0 {
		p.claimOf = awaited
	}
	return nil
}

// Release releases the claims of all placements at once. A repeated call leaves out the claims that are released.
func (p *partedClaim) Release(ctx context.Context) error {
	return p.end(func(i int) error { return p.claims[i].Release(ctx) })
}

// end runs do for every claim with rings that is not settled, all at once.
func (p *partedClaim) end(do func(i int) error) error {
	hasRings := make([]bool, len(p.claims))
	for _, i := range p.claimOf {
		hasRings[i] = true
	}
	var left []part
	for i := range p.claims {
		if hasRings[i] && !p.settled[i] {
			left = append(left, part{placement: i})
		}
	}
	errs := eachPart(left, func(_ int, c *part) error { return do(c.placement) })
	var failed error
	for i, err := range errs {
		p.settled[left[i].placement] = err == nil
		failed = errors.Join(failed, err)
	}
	if failed == nil {
		clear(p.settled)
		return nil
	}
	if allFailed(errs) == nil && !errors.Is(failed, clock.ErrUnconfirmed) {
		return clock.Unconfirmed(failed)
	}
	return failed
}
