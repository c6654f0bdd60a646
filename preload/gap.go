package preload

import (
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// gap is a range of the due index below the watermark that was not read yet, in some shards.
type gap struct {
	shards      []int          // sorted
	from, until store.Position // from is inclusive, until exclusive
	divided     bool           // true: divide made the gap; its rows have one ageClass
	ageClass    int            // of a divided gap. 0: due in the last recentAge; 1: in the last outageAge; 2: older. The lowest class is read first
}

const (
	// recentAge is the age up to which due alarms are recent. Loaders read them before a backlog, and every sweep
	// reaches them. A write commits less than recentAge after its now, so a newly committed row is recent or due later.
	recentAge = 10 * time.Second
	// outageAge is longer than most outages. Loaders read alarms that came due in an outage before older alarms.
	outageAge = 5 * time.Minute
	// maxGaps bounds the gaps of a loader. When there are more, one gap replaces them all.
	maxGaps = 24
)

// recentFrom returns the earliest due time of recent alarms.
func recentFrom(now clock.Instant) clock.Instant { return max(0, now.Add(-recentAge)) }

// addGap returns the gaps with g. Beyond maxGaps it joins them all into one gap, which covers their ranges and shards.
func addGap(gaps []gap, g gap) []gap {
	if gaps = append(gaps, g); len(gaps) <= maxGaps {
		return gaps
	}
	all := gap{from: gaps[0].from, until: gaps[0].until}
	for _, g := range gaps {
		all.shards = append(all.shards, g.shards...)
		all.from, all.until = earlier(all.from, g.from), later(all.until, g.until)
	}
	slices.Sort(all.shards)
	all.shards = slices.Compact(all.shards)
	return []gap{all}
}

// nextGap divides the gaps by age. It returns the first gap of the lowest age class, which came due last, and the other
// gaps.
func nextGap(gaps []gap, now clock.Instant) (next gap, others []gap) {
	for _, g := range gaps {
		others = append(others, g.divide(now)...)
	}
	first := 0
	for i := range others {
		if others[i].ageClass < others[first].ageClass {
			first = i
		}
	}
	next = others[first]
	return next, slices.Delete(others, first, first+1)
}

// divide divides the gap into one gap for each age class. It returns a divided gap unchanged.
func (g gap) divide(now clock.Instant) (parts []gap) {
	if g.divided {
		return []gap{g}
	}
	until := g.until
	for class, age := range []time.Duration{recentAge, outageAge, 0} {
		from := g.from
		if age > 0 {
			from = later(from, store.Position{Time: max(0, now.Add(-age))})
		}
		if from.Before(until) {
			parts = append(parts, gap{shards: g.shards, from: from, until: until, ageClass: class, divided: true})
			until = from
		}
	}
	return parts
}

// keepShards restricts the gaps to the given shards, which are sorted, and drops gaps without a shard.
func keepShards(gaps []gap, shards []int) []gap {
	kept := make([]gap, 0, len(gaps))
	for _, g := range gaps {
		if g.shards = within(g.shards, shards); len(g.shards) > 0 {
			kept = append(kept, g)
		}
	}
	return kept
}

// within returns the shards that are also in allowed, in their order. allowed is sorted.
func within(shards, allowed []int) (both []int) {
	for _, shard := range shards {
		if _, found := slices.BinarySearch(allowed, shard); found {
			both = append(both, shard)
		}
	}
	return both
}
