package lease

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/store"
)

// After any change of leases and subscribers, each row that a node newly rings belongs to a gained shard or a gained
// application.
func TestNewlyRungRowsAreGained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes, applications := []string{"n1", "n2", "n3"}, []string{"a", "b", "c"}
		lines := []string{"a", "a/0", "a/6", "a resting", "a/6 resting", "b", "b resting", "c/2"}
		drawMembership := func(serving []int) *membership {
			var c store.Cluster
			for shard := range 4 {
				l := store.Lease{Shard: shard,
					Incarnation: rapid.SampledFrom([]string{"", "n1", "n2", "n3"}).Draw(t, "owner")}
				if c.Leases = append(c.Leases, l); l.Incarnation == "n1" {
					serving = append(serving, shard)
				}
			}
			some := rapid.SliceOfDistinct(rapid.SampledFrom(lines), rapid.ID[string])
			for _, n := range nodes[1:] {
				subscribed := some.Draw(t, "subscribed")
				slices.Sort(subscribed)
				c.Nodes = append(c.Nodes, store.Node{Incarnation: n, Expires: 10, Applications: subscribed})
			}
			slices.Sort(serving)
			return newMembership(c, "n1", true, some.Draw(t, "own"), slices.Compact(serving), 5)
		}
		before, after := drawMembership(nil), drawMembership(nil)
		var g gains
		g.add(before, after)
		shards, gained := g.take()
		rings := func(m *membership, shard int, to store.Addressee) bool {
			return slices.Contains(m.loaded, shard) && m.rings(shard, to)
		}
		for shard := range 4 {
			for _, application := range append(applications, "unsubscribed") {
				for _, to := range store.AddresseesOf(application) {
					if rings(after, shard, to) && !rings(before, shard, to) && !slices.Contains(shards, shard) &&
						!slices.Contains(gained, application) {
						t.Fatalf("shard %d, %s: newly rung, but gained are shards %v, applications %v", shard, to,
							shards, gained)
					}
				}
			}
		}
		g.add(after, after)
		if shards, gained := g.take(); len(shards)+len(gained) > 0 {
			t.Fatalf("without a change: gained shards %v, applications %v", shards, gained)
		}
	})
}
