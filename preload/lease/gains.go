package lease

import (
	"maps"
	"slices"
)

// gains collects the shards and applications that this node rings since the last take. The loaders must read their rows.
type gains struct {
	shards       map[int]bool    // shards that this node serves and did not serve before; all their rows are to be read
	applications map[string]bool // applications that this node rings in more shards than before; their rows in all shards are to be read
}

// add adds the shards and applications that this node rings after a change of membership and did not ring before it.
func (g *gains) add(before, after *membership) {
	if g.shards == nil {
		g.shards, g.applications = map[int]bool{}, map[string]bool{}
	}
	for _, shard := range without(after.serving, before.serving) {
		g.shards[shard] = true
	}
	ownersMoved := !slices.Equal(before.owners, after.owners)
	for application, subscribers := range after.subscribers {
		if (ownersMoved || !slices.Equal(subscribers, before.subscribers[application])) && after.ringsMoreThan(before, application) {
			g.applications[application] = true
		}
	}
	for application := range before.subscribers { // an application's last subscriber left: the shards' owners hold its alarms
		if after.subscribers[application] == nil && after.ringsMoreThan(before, application) {
			g.applications[application] = true
		}
	}
}

// ringsMoreThan reports whether this node rings the application in a shard where it did not before. Shards that it newly serves do
// not count, because they are read whole.
func (m *membership) ringsMoreThan(before *membership, application string) bool {
	return slices.ContainsFunc(m.loaded, func(shard int) bool {
		if _, serves := slices.BinarySearch(m.serving, shard); serves {
			if _, served := slices.BinarySearch(before.serving, shard); !served {
				return false
			}
		}
		return m.rings(shard, application) && !before.rings(shard, application)
	})
}

// take returns the collected shards and applications, sorted, and forgets them.
func (g *gains) take() (shards []int, applications []string) {
	shards, applications = slices.Sorted(maps.Keys(g.shards)), slices.Sorted(maps.Keys(g.applications))
	*g = gains{}
	return shards, applications
}
