package preload

import (
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// plan returns which shards a node should take and which it should give up, so that the shares of all nodes that live at now
// become even: in the order of their incarnations the first (shards mod nodes) have one more than the others. The node
// itself lives, whatever its row says. Targets depend on who lives alone, and nobody passes its own: so it comes to rest. Nodes that
// see the same ask for different shards.
func plan(c store.Cluster, self string, now clock.Instant) (take, yield []int) {
	nodes := living(c, self, now)
	owned, free := map[string][]int{}, []int(nil)
	for _, l := range c.Leases {
		if l.Incarnation == "" || l.Expires <= now && l.Incarnation != self { // its own it has only to renew
			free = append(free, l.Shard)
		} else {
			owned[l.Incarnation] = append(owned[l.Incarnation], l.Shard)
		}
	}
	for i, node := range nodes {
		target, own := len(c.Leases)/len(nodes), owned[node]
		if i < len(c.Leases)%len(nodes) {
			target++
		}
		short := min(max(0, target-len(own)), len(free))
		if node == self {
			return free[:short], own[min(target, len(own)):]
		}
		free = free[short:]
	}
	return nil, nil
}

// living returns the incarnations of the nodes that live, sorted, self in any case.
func living(c store.Cluster, self string, now clock.Instant) []string {
	nodes := []string{self}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Incarnation != self && n.Alive(now) {
			nodes = append(nodes, n.Incarnation)
		}
	}
	slices.Sort(nodes)
	return nodes
}
