package preload

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// gapNow is the current time in the tests of gaps.
const gapNow clock.Instant = 1_795_000_000_000

// drawGap returns a gap of some shards. Its bounds lie between ten minutes before gapNow and a second after it.
func drawGap(t *rapid.T) gap {
	shards := rapid.SliceOfNDistinct(rapid.IntRange(0, 7), 1, 8, rapid.ID[int]).Draw(t, "shards")
	slices.Sort(shards)
	from := rapid.Int64Range(-600_000, 1_000).Draw(t, "from")
	until := rapid.Int64Range(from+1, 1_001).Draw(t, "until")
	return gap{
		shards: shards,
		from:   store.Position{Time: gapNow + clock.Instant(from)},
		until:  store.Position{Time: gapNow + clock.Instant(until)},
	}
}

// covers reports whether one or more gaps contain the position in the shard.
func covers(gaps []gap, shard int, at store.Position) bool {
	return slices.ContainsFunc(gaps, func(g gap) bool {
		return slices.Contains(g.shards, shard) && !at.Before(g.from) && at.Before(g.until)
	})
}

// Random gaps are read to their end. Each position of each gap is read. The parts of one gap do not overlap. No part is
// read while a part of a lower age class waits.
func TestGapsAreReadOnceAndNewestFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGap(t)
		others := []gap{g, drawGap(t)}
		var read []gap
		for len(others) > 0 {
			var next gap
			next, others = nextGap(others, gapNow)
			for _, o := range others {
				if o.ageClass < next.ageClass {
					t.Fatalf("age class %d is read before %d", next.ageClass, o.ageClass)
				}
			}
			read = append(read, next)
		}
		at := store.Position{Time: gapNow + clock.Instant(rapid.Int64Range(-600_000, 1_000).Draw(t, "at"))}
		for shard := range 8 {
			if covers([]gap{g}, shard, at) && !covers(read, shard, at) {
				t.Fatalf("%v of shard %d is not read", at, shard)
			}
		}
		var parts []gap
		for _, part := range g.divide(gapNow) {
			if covers(parts, part.shards[0], part.from) {
				t.Fatalf("the parts overlap at %v", part.from)
			}
			parts = append(parts, part)
		}
	})
}

// In an hour of backlog the last ten seconds are read first, then the last five minutes, then the rest.
func TestRecentAlarmsAreReadBeforeABacklog(t *testing.T) {
	others := []gap{{shards: []int{1}, from: store.Position{Time: gapNow.Add(-time.Hour)},
		until: store.Position{Time: gapNow}}}
	for i, age := range []time.Duration{10 * time.Second, 5 * time.Minute, time.Hour} {
		var next gap
		next, others = nextGap(others, gapNow)
		if want := gapNow.Add(-age); next.from.Time != want || next.ageClass != i {
			t.Errorf("part %d begins at %s in age class %d, want %s", i, next.from.Time, next.ageClass, want)
		}
	}
	if len(others) > 0 {
		t.Errorf("%d further parts", len(others))
	}
}

// When gaps exceed maxGaps, one gap that covers them all replaces them.
func TestTooManyGapsBecomeOneThatCoversAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var gaps, added []gap
		for range rapid.IntRange(1, 3*maxGaps).Draw(t, "count") {
			g := drawGap(t)
			gaps, added = addGap(gaps, g), append(added, g)
			if len(gaps) > maxGaps {
				t.Fatalf("%d gaps, want at most %d", len(gaps), maxGaps)
			}
		}
		for _, g := range added {
			for _, shard := range g.shards {
				if !covers(gaps, shard, g.from) {
					t.Fatalf("shard %d from %v is not covered", shard, g.from)
				}
			}
		}
	})
}
