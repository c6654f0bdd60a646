package lease

import (
	"maps"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// sharesName reports whether another living node has this node's name, and warns when that begins. It ignores a node
// that has not renewed its leases since it was first seen: that node may be this node's predecessor, which died.
func (k *Keeper) sharesName(c store.Cluster, now clock.Instant) bool {
	maps.DeleteFunc(k.namesakes, func(incarnation string, _ clock.Instant) bool {
		return !slices.ContainsFunc(c.Nodes, func(n store.Node) bool { return n.Incarnation == incarnation })
	})
	nameShared := false
	for i := range c.Nodes {
		n := &c.Nodes[i]
		if n.Name != k.cfg.Name || n.Incarnation == k.cfg.Incarnation || !n.Alive(now) {
			continue
		}
		firstExpires, known := k.namesakes[n.Incarnation]
		if !known {
			k.namesakes[n.Incarnation] = n.Expires
		}
		nameShared = nameShared || known && n.Expires > firstExpires
	}
	if nameShared && !k.NameShared() {
		k.log.Warn("another node has this node's name: give each its own", "node", k.cfg.Name)
	}
	return nameShared
}
