package lease

import (
	"maps"
	"slices"

	"github.com/clockd/clockd/store"
)

// gains collects the shards and applications that this node rings since the last take. The loaders must read their
// rows.
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
	lines := slices.Concat(slices.Collect(maps.Keys(after.subscribers)), slices.Collect(maps.Keys(before.subscribers)))
	for _, line := range lines {
		changed := ownersMoved || !slices.Equal(after.subscribers[line], before.subscribers[line])
		if application, _ := announcedApplication(line); changed && !g.applications[application] &&
			after.ringsMoreThan(before, line) {
			g.applications[application] = true
		}
	}
}

// ringsMoreThan reports whether this node rings an addressee of the line's application in a shard where it did not
// before. Shards that it newly serves do not count, because they are read whole.
func (m *membership) ringsMoreThan(before *membership, line string) bool {
	addressees, addresseesBefore := m.addresseesOf(line), before.addresseesOf(line)
	if len(addresseesBefore) > len(addressees) {
		addressees = addresseesBefore
	}
	return slices.ContainsFunc(m.loaded, func(shard int) bool {
		if _, serves := slices.BinarySearch(m.serving, shard); serves {
			if _, served := slices.BinarySearch(before.serving, shard); !served {
				return false
			}
		}
		return slices.ContainsFunc(addressees,
			func(to store.Addressee) bool { return m.rings(shard, to) && !before.rings(shard, to) })
	})
}

// take returns the collected shards and applications, sorted, and forgets them.
func (g *gains) take() (shards []int, applications []string) {
	shards, applications = slices.Sorted(maps.Keys(g.shards)), slices.Sorted(maps.Keys(g.applications))
	*g = gains{}
	return shards, applications
}
