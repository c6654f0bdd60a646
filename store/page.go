package store

import "slices"

// NewDuePage returns the page of q. rows holds the rows of all shards; each shard's rows are in due order, at most
// q.Limit of them. A shard with q.Limit rows may have more, so the page ends at the earliest position where such a
// shard stopped.
func NewDuePage(q DueQuery, rows []Due) DuePage {
	page := DuePage{CompleteUntil: q.Until}
	count := make(map[int]int, len(q.Shards))
	last := make(map[int]Position, len(q.Shards))
	for _, d := range rows {
		count[d.Shard]++
		last[d.Shard] = d.Position()
	}
	for shard, n := range count {
		if end := last[shard].next(); n >= q.Limit && end.Before(page.CompleteUntil) {
			page.CompleteUntil = end
		}
	}
	page.Rows = slices.DeleteFunc(rows, func(d Due) bool { return !d.Position().Before(page.CompleteUntil) })
	slices.SortFunc(page.Rows, func(a, b Due) int {
		return a.Position().Compare(b.Position())
	})
	return page
}

// next returns the position right after p.
func (p Position) next() Position { return Position{Time: p.Time, Rank: p.Rank, ID: p.ID + 1} }
