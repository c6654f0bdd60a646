package preload

import (
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// plan says what a node that lives is to take and to give up, so that all that live have even shares. Each reckons for itself:
// their targets add up to all shards, and depend on who lives alone, so that nothing goes to and fro.
func plan(c store.Cluster, self string, now clock.Instant) (take, yield []int) {
	var mine, free []int
	for _, l := range c.Leases {
		switch {
		case l.Incarnation == self:
			mine = append(mine, l.Shard)
		case l.Incarnation == "" || l.Expires <= now:
			free = append(free, l.Shard)
		}
	}
	rank, nodes := rankOf(c, self, now)
	target := len(c.Leases) / nodes
	if rank < len(c.Leases)%nodes {
		target++
	}
	if len(mine) > target {
		return nil, mine[target:]
	}
	n := min(len(free), target-len(mine))
	free = append(free[len(free)*rank/nodes:], free[:len(free)*rank/nodes]...) // so that those who look at once reach for different ones
	take = free[:n]
	slices.Sort(take)
	return take, nil
}

// rankOf returns the node's place among those that live, itself in any case, and how many they are.
func rankOf(c store.Cluster, self string, now clock.Instant) (rank, nodes int) {
	nodes = 1
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Incarnation == self || n.Expires <= now {
			continue
		}
		nodes++
		if n.Incarnation < self {
			rank++
		}
	}
	return rank, nodes
}
