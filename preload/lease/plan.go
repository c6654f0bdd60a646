package lease

import (
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// plan returns the shards that a node should take and the shards that it should yield. The ablest living nodes share
// all shards evenly: in the order of their incarnations the first (shards mod nodes) have one more than the others. The
// other living nodes have none. A node is among the ablest unless another living node lacks a strict subset of the
// abilities that it lacks. Nodes that lack different abilities do not give each other shards.
//
// The node itself counts as living, whatever its row says, and lacks the given abilities. A node's target depends on
// the living nodes alone, and no node exceeds its target: so the shares come to rest. Nodes that see the same cluster
// take different shards.
func plan(c store.Cluster, self string, lacks []string, now clock.Instant) (take, yield []int) {
	if outdone(c, self, lacks, now) {
		return nil, owned(c, self)
	}
	nodes := ablest(living(c, self, lacks, now))
	leased, free := map[string][]int{}, []int(nil)
	for _, l := range c.Leases {
		if l.Incarnation == "" || l.Expires <= now && l.Incarnation != self { // a node only has to renew its own expired leases
			free = append(free, l.Shard)
		} else {
			leased[l.Incarnation] = append(leased[l.Incarnation], l.Shard)
		}
	}
	for i, node := range nodes {
		target, own := len(c.Leases)/len(nodes), leased[node.incarnation]
		if i < len(c.Leases)%len(nodes) {
			target++
		}
		short := min(max(0, target-len(own)), len(free))
		if node.incarnation == self {
			return free[:short], own[min(target, len(own)):]
		}
		free = free[short:]
	}
	return nil, nil
}

// outdone reports whether a living node can do strictly more than the node itself, which lacks the given abilities.
func outdone(c store.Cluster, self string, lacks []string, now clock.Instant) bool {
	return slices.ContainsFunc(living(c, self, lacks, now), func(n candidate) bool { return outdoes(n.lacks, lacks) })
}

// owned returns the shards whose lease the node has, expired or not.
func owned(c store.Cluster, incarnation string) (shards []int) {
	for _, l := range c.Leases {
		if l.Incarnation == incarnation {
			shards = append(shards, l.Shard)
		}
	}
	return shards
}

// candidate is a living node and the abilities that it lacks.
type candidate struct {
	incarnation string
	lacks       []string // sorted
}

// living returns the living nodes, sorted by incarnation. The node itself counts as living and lacks the given
// abilities.
func living(c store.Cluster, self string, lacks []string, now clock.Instant) []candidate {
	nodes := []candidate{{self, lacks}}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Incarnation != self && n.Alive(now) {
			nodes = append(nodes, candidate{n.Incarnation, n.Lacks})
		}
	}
	slices.SortFunc(nodes, func(a, b candidate) int {
		if a.incarnation < b.incarnation {
			return -1
		}
		return 1
	})
	return nodes
}

// ablest returns the nodes that no other node outdoes, in the order of nodes. It returns at least one node.
func ablest(nodes []candidate) (able []candidate) {
	for _, n := range nodes {
		if !slices.ContainsFunc(nodes, func(other candidate) bool { return outdoes(other.lacks, n.lacks) }) {
			able = append(able, n)
		}
	}
	return able
}

// outdoes reports whether a node can do strictly more than another node: it lacks a strict subset of the abilities that
// the other lacks.
func outdoes(lacks, otherLacks []string) bool {
	return len(lacks) < len(otherLacks) &&
		!slices.ContainsFunc(lacks, func(ability string) bool { return !slices.Contains(otherLacks, ability) })
}
