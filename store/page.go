package store

import "slices"

// NewDuePage makes the answer to q of what each shard gave: rows in due order, at most q.Limit a shard. A shard
// that gave q.Limit rows may have more, so the page ends at the earliest place where such a shard stopped.
func NewDuePage(q DueQuery, rows []Due) DuePage {
	page := DuePage{Complete: q.Until}
	count := make(map[int]int, len(q.Shards))
	last := make(map[int]Position, len(q.Shards))
	for _, d := range rows {
		count[d.Shard]++
		last[d.Shard] = d.Position()
	}
	for shard, n := range count {
		if end := last[shard].next(); n >= q.Limit && end.Before(page.Complete) {
			page.Complete = end
		}
	}
	page.Rows = slices.DeleteFunc(rows, func(d Due) bool { return !d.Position().Before(page.Complete) })
	slices.SortFunc(page.Rows, func(a, b Due) int {
		return a.Position().Compare(b.Position())
	})
	return page
}

// next returns the position right after p.
func (p Position) next() Position { return Position{Time: p.Time, Rank: p.Rank, ID: p.ID + 1} }
