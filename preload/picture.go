package preload

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// picture is what a node makes of the cluster at one moment. It is never changed.
type picture struct {
	self    string
	streams bool
	own     []int               // shards that this node has, sorted
	held    []int               // these, and what it gave up and rings on, sorted
	load    []int               // these, and with streams those of others of which it rings something, sorted
	owners  []string            // with streams: the incarnation that has the shard
	there   map[string][]string // with streams: by application, the incarnations of the living that have a subscriber
}

// draw makes a picture of what was read; held are the shards that this node has or rings on.
func draw(c store.Cluster, self string, streams bool, subscribed []string, held []int, now clock.Instant) *picture {
	p := &picture{self: self, streams: streams, held: held, load: held}
	for _, l := range c.Leases {
		if l.Incarnation == self {
			p.own = append(p.own, l.Shard)
		}
	}
	if !streams {
		return p
	}
	p.there = map[string][]string{}
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Incarnation != self && n.Alive(now) {
			for _, a := range n.Applications {
				p.there[a] = append(p.there[a], n.Incarnation)
			}
		}
	}
	for _, a := range subscribed { // what is subscribed here is known at once
		p.there[a] = append(p.there[a], self)
	}
	for _, l := range c.Leases {
		p.owners = append(p.owners, l.Incarnation)
	}
	p.load = slices.Clone(p.held)
	for shard := range p.owners {
		if _, have := slices.BinarySearch(p.held, shard); !have && slices.ContainsFunc(subscribed, func(a string) bool { return p.wanted(shard, a) }) {
			p.load = append(p.load, shard)
		}
	}
	slices.Sort(p.load)
	return p
}

// wanted reports whether this node rings the application's alarms of a shard that it loads. With streams that is for the
// shard's owner if it has a subscriber, or if nobody has; else for one of those who have, the same in everybody's picture.
func (p *picture) wanted(shard int, application string) bool {
	if !p.streams {
		return true
	}
	_, have := slices.BinarySearch(p.held, shard)
	there := p.there[application]
	switch {
	case len(there) == 0:
		return have
	case slices.Contains(there, p.owners[shard]):
		return have && slices.Contains(there, p.self)
	default:
		return elected(there, shard, application) == p.self
	}
}

// elected returns one of the incarnations: the one with the highest hash of all three, so that the shards of an application
// are spread, and one more or less moves no more than its part (rendezvous hashing).
func elected(incarnations []string, shard int, application string) string {
	best, most := "", uint64(0)
	for _, n := range incarnations {
		h := fnv.New64a()
		_, _ = fmt.Fprintf(h, "%s\x00%d\x00%s", application, shard, n)
		if sum := mix(h.Sum64()); best == "" || sum > most || sum == most && n > best {
			best, most = n, sum
		}
	}
	return best
}

// mix spreads what FNV leaves similar in the high bits (the finalizer of splitmix64).
func mix(h uint64) uint64 {
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// same reports whether Shards, Owned and Wanted answer the same.
func (p *picture) same(q *picture) bool {
	return slices.Equal(p.load, q.load) && slices.Equal(p.own, q.own) && slices.Equal(p.held, q.held) && slices.Equal(p.owners, q.owners) &&
		maps.EqualFunc(p.there, q.there, slices.Equal)
}
