package lease

import (
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// renewalWatch notes by the local clock when each incarnation last renewed its leases. When the database's clock is set
// back, earlier leases last longer by the same time, although their node may be dead. The watch finds such nodes.
type renewalWatch struct {
	sightings map[string]sighting // by incarnation, without this node's own
}

// sighting is the end of an incarnation's leases, and the local time since which this end has not changed.
type sighting struct {
	expires clock.Instant
	since   time.Time
}

// expire sets Expires to now for the nodes and leases in c that were not renewed for patience. It returns the latest
// Expires that it replaced, or now if it replaced none. Leases that end then or before may be taken.
func (w *renewalWatch) expire(
	c *store.Cluster, self string, now clock.Instant, local time.Time, patience time.Duration,
) (takeableUntil clock.Instant) {
	ends := map[string]clock.Instant{}
	for i := range c.Nodes {
		ends[c.Nodes[i].Incarnation] = c.Nodes[i].Expires
	}
	for _, l := range c.Leases {
		ends[l.Incarnation] = max(ends[l.Incarnation], l.Expires)
	}
	delete(ends, self)
	delete(ends, "")
	takeableUntil = now
	sightings := make(map[string]sighting, len(ends))
	for incarnation, end := range ends {
		s, known := w.sightings[incarnation]
		if !known || s.expires != end {
			s = sighting{end, local}
		}
		sightings[incarnation] = s
		if end > now && local.Sub(s.since) >= patience {
			expireAll(c, incarnation, now)
			takeableUntil = max(takeableUntil, end)
		}
	}
	w.sightings = sightings
	return takeableUntil
}

func expireAll(c *store.Cluster, incarnation string, now clock.Instant) {
	for i := range c.Nodes {
		if n := &c.Nodes[i]; n.Incarnation == incarnation {
			n.Expires = min(n.Expires, now)
		}
	}
	for i := range c.Leases {
		if l := &c.Leases[i]; l.Incarnation == incarnation {
			l.Expires = min(l.Expires, now)
		}
	}
}
