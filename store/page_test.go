package store

import (
	"cmp"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
)

// The test reads random tables page by page, with any limit.
func TestDuePagesHoldEveryRowOnceAndInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var table []Due
		for i := range rapid.IntRange(0, 40).Draw(rt, "rows") {
			table = append(table, Due{
				ID: int64(i + 1), NextTryTime: clock.Instant(rapid.IntRange(0, 4).Draw(rt, "time")),
				Rank: rapid.IntRange(0, 2).Draw(rt, "rank"), Shard: rapid.IntRange(0, 3).Draw(rt, "shard"),
			})
		}
		slices.SortFunc(table, comparePositions)
		q := DueQuery{Shards: []int{0, 1, 2, 3}, Until: Position{Time: 4},
			Limit: rapid.IntRange(1, 6).Draw(rt, "limit")}
		want := slices.DeleteFunc(slices.Clone(table), func(d Due) bool { return !d.Position().Before(q.Until) })
		var got []Due
		for q.From.Before(q.Until) {
			page := NewDuePage(q, scanTable(table, q))
			if !q.From.Before(page.CompleteUntil) || q.Until.Before(page.CompleteUntil) {
				rt.Fatalf("the page from %v is complete to %v", q.From, page.CompleteUntil)
			}
			got = append(got, page.Rows...)
			q.From = page.CompleteUntil
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("read %v, want %v", got, want)
		}
	})
}

func comparePositions(a, b Due) int {
	return cmp.Or(cmp.Compare(a.NextTryTime, b.NextTryTime), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
}

// scanTable returns the rows that a database reads: shard by shard, in order, at most Limit each.
func scanTable(table []Due, q DueQuery) []Due {
	var rows []Due
	for _, shard := range q.Shards {
		n := 0
		for _, d := range table {
			if p := d.Position(); d.Shard == shard && !p.Before(q.From) && p.Before(q.Until) && n < q.Limit {
				rows = append(rows, d)
				n++
			}
		}
	}
	return rows
}

func TestPositionsAreOrderedByTimeRankAndID(t *testing.T) {
	ordered := []Position{{}, {Time: 0, ID: 1}, {Time: 1}, {Time: 1, ID: 2}, {Time: 1, ID: 3}, {Time: 1, Rank: 1},
		{Time: 1, Rank: 1, ID: 2}, {Time: 2, ID: 1}}
	for i, p := range ordered {
		for j, q := range ordered {
			if p.Before(q) != (i < j) {
				t.Errorf("%v before %v: %v", p, q, p.Before(q))
			}
		}
	}
}
