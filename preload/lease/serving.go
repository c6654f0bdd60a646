package lease

import (
	"slices"
	"time"

	"github.com/clockd/clockd/store"
)

// servingShards returns the shards that this node serves. It serves the shards that it owns. Of the shards that it
// served before, it also serves free shards, and shards that it yielded less than Grace ago. Grace gives the new owner
// time to load.
func (k *Keeper) servingShards(c store.Cluster, before []int) (serving []int) {
	for _, l := range c.Leases {
		yieldedAt, yielded := k.yieldedAt[l.Shard]
		_, served := slices.BinarySearch(before, l.Shard)
		switch {
		case l.Incarnation == k.cfg.Incarnation:
			serving = append(serving, l.Shard)
			delete(k.yieldedAt, l.Shard)
		case served && (l.Incarnation == "" || yielded && time.Since(yieldedAt) < k.cfg.Grace):
			serving = append(serving, l.Shard)
		default:
			delete(k.yieldedAt, l.Shard)
		}
	}
	return serving
}

// reportChanges counts and logs the shards that this node took, yielded and lost.
func (k *Keeper) reportChanges(before, after *membership, nodes int) {
	taken, given, lost := len(without(after.owned, before.owned)), 0, 0
	for _, shard := range without(before.owned, after.owned) {
		if _, yielded := k.yieldedAt[shard]; yielded {
			given++
		} else {
			lost++
		}
	}
	k.metrics.observe(len(after.owned), nodes, taken, given, lost)
	if taken+given+lost > 0 {
		k.log.Info("shards changed hands", "count", len(after.owned), "taken", taken, "given", given, "lost", lost,
			"nodes", nodes)
	}
}

// without returns the shards that are not in excluded, in their order. excluded is sorted.
func without(shards, excluded []int) (rest []int) {
	for _, shard := range shards {
		if _, found := slices.BinarySearch(excluded, shard); !found {
			rest = append(rest, shard)
		}
	}
	return rest
}
