package lease

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// membership is the cluster as one node sees it at one moment: the shards of the node, and the subscribers of all
// nodes. It is immutable.
type membership struct {
	self        string
	streams     bool
	owned       []int               // shards whose lease this node has; sorted
	serving     []int               // owned shards, plus shards that this node yielded and still rings; sorted
	loaded      []int               // serving shards, plus, with streams, other nodes' shards where this node rings some applications; sorted
	owners      []string            // with streams: by shard, the incarnation that has its lease; "" for a free shard
	subscribers map[string][]string // with streams: by line of an Announcement, the incarnations of the living nodes that have it
	announced   map[string]bool     // with streams: the applications that the lines name; true: a line is about a part of the alarms
}

// newMembership derives a membership from the database's nodes and leases. subscribed are the lines of this node's
// announcements. serving are the shards that this node owns or still rings.
func newMembership(
	c store.Cluster, self string, streams bool, subscribed []string, serving []int, now clock.Instant,
) *membership {
	m := &membership{self: self, streams: streams, serving: serving, loaded: serving}
	for _, l := range c.Leases {
		if l.Incarnation == self {
			m.owned = append(m.owned, l.Shard)
		}
	}
	if !streams {
		return m
	}
	m.subscribers, m.announced = map[string][]string{}, map[string]bool{}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Incarnation != self && n.Alive(now) {
			m.note(n.Applications, n.Incarnation)
		}
	}
	m.note(subscribed, self) // the node's own row may be older than its subscribers
	for _, l := range c.Leases {
		m.owners = append(m.owners, l.Incarnation)
	}
	m.loaded = slices.Clone(m.serving)
	for shard := range m.owners {
		ringsSome := func(line string) bool {
			return slices.ContainsFunc(m.addresseesOf(line),
				func(to store.Addressee) bool { return m.rings(shard, to) })
		}
		if _, serves := slices.BinarySearch(m.serving, shard); !serves && slices.ContainsFunc(subscribed, ringsSome) {
			m.loaded = append(m.loaded, shard)
		}
	}
	slices.Sort(m.loaded)
	return m
}

// note notes the lines of a node.
func (m *membership) note(lines []string, incarnation string) {
	for _, line := range lines {
		application, part := announcedApplication(line)
		m.announced[application] = m.announced[application] || part
		m.subscribers[line] = append(m.subscribers[line], incarnation)
	}
}

// addresseesOf returns the addressees of the application that a line names, among which rings tells a difference.
func (m *membership) addresseesOf(line string) []store.Addressee {
	application, _ := announcedApplication(line)
	if m.announced[application] {
		return store.AddresseesOf(application)
	}
	return []store.Addressee{{Application: application}}
}

// clientsOf returns the incarnations of the nodes with clients for the addressee, nil if no node has any. Clients that
// rest count only if there are no others. The rings of destinations go to no clients.
func (m *membership) clientsOf(to store.Addressee) []string {
	if _, announced := m.announced[to.Application]; !announced || to.Destination != 0 {
		return nil
	}
	for _, suffix := range []string{"", restingSuffix} {
		if nodes := slices.Concat(m.subscribers[to.Application+suffix], m.subscribers[to.String()+suffix]); len(nodes) > 0 {
			return nodes
		}
	}
	return nil
}

// rings reports whether this node rings the addressee's alarms of a shard that it loads. Without streams it rings them
// all. With streams one node rings them:
//   - the shard's owner, if the owner has clients for them or no node has any;
//   - otherwise the preferred node among the nodes with clients. All nodes that see the same cluster prefer the same
//     node.
func (m *membership) rings(shard int, to store.Addressee) bool {
	if !m.streams {
		return true
	}
	_, serves := slices.BinarySearch(m.serving, shard)
	subscribers := m.clientsOf(to)
	switch {
	case len(subscribers) == 0:
		return serves
	case slices.Contains(subscribers, m.owners[shard]):
		return serves && slices.Contains(subscribers, m.self)
	default:
		return preferredNode(subscribers, shard, to.Application) == m.self
	}
}

// preferredNode returns the incarnation with the highest hash of incarnation, shard and application (rendezvous
// hashing). So an application's shards are spread over the nodes. A node that comes or goes moves only its own part.
func preferredNode(incarnations []string, shard int, application string) string {
	best, highest := "", uint64(0)
	for _, incarnation := range incarnations {
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "%s\x00%d\x00%s", application, shard, incarnation)
		if sum := mix(h.Sum64()); best == "" || sum > highest || sum == highest && incarnation > best {
			best, highest = incarnation, sum
		}
	}
	return best
}

// mix spreads differences into the high bits, where FNV hashes of similar strings are alike (the finalizer of
// splitmix64).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// equal reports whether Shards, Owned and Rings return the same for both memberships.
func (m *membership) equal(other *membership) bool {
	return slices.Equal(m.loaded, other.loaded) && slices.Equal(m.owned, other.owned) &&
		slices.Equal(m.serving, other.serving) &&
		slices.Equal(m.owners, other.owners) && maps.EqualFunc(m.subscribers, other.subscribers, slices.Equal)
}
