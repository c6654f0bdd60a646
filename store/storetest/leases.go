package storetest

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Leases is a store.Leaser in memory: what the conformance suite demands of the engines, for tests of those who work with it.
type Leases struct {
	mu     sync.Mutex
	nodes  map[string]store.Node
	leases []store.Lease
}

var _ store.Leaser = (*Leases)(nil)

// NewLeases returns that many shards, which nobody has.
func NewLeases(shards int) *Leases {
	l := &Leases{nodes: map[string]store.Node{}, leases: make([]store.Lease, shards)}
	for i := range l.leases {
		l.leases[i].Shard = i
	}
	return l
}

// Cluster returns all nodes and leases.
func (l *Leases) Cluster(context.Context) (store.Cluster, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := store.Cluster{Leases: slices.Clone(l.leases)}
	for _, n := range l.nodes {
		c.Nodes = append(c.Nodes, n)
	}
	slices.SortFunc(c.Nodes, func(a, b store.Node) int { return cmp.Compare(a.Incarnation, b.Incarnation) })
	return c, nil
}

// Attend writes the node, renews its leases and forgets who expired before.
func (l *Leases) Attend(_ context.Context, n store.Node, forget clock.Instant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.nodes[n.Incarnation]; ok {
		n.Started = known.Started
	}
	l.nodes[n.Incarnation] = n
	for i := range l.leases {
		if l.leases[i].Incarnation == n.Incarnation {
			l.leases[i].Expires = n.Expires
		}
	}
	for incarnation, n := range l.nodes {
		if n.Expires < forget {
			delete(l.nodes, incarnation)
		}
	}
	return nil
}

// Take gives n those of the shards that are free or expired.
func (l *Leases) Take(_ context.Context, n store.Node, now clock.Instant, shards []int) ([]int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var taken []int
	for i := range l.leases {
		has := &l.leases[i]
		if slices.Contains(shards, i) && (has.Incarnation == "" || has.Expires <= now) {
			*has = store.Lease{Shard: i, Owner: n.Name, Incarnation: n.Incarnation, Epoch: has.Epoch + 1, Expires: n.Expires}
			taken = append(taken, i)
		}
	}
	return taken, nil
}

// Yield frees those of the shards that the incarnation has.
func (l *Leases) Yield(_ context.Context, incarnation string, shards []int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free(incarnation, func(shard int) bool { return slices.Contains(shards, shard) })
	return nil
}

// Leave frees all of the incarnation's shards and forgets it.
func (l *Leases) Leave(_ context.Context, incarnation string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free(incarnation, func(int) bool { return true })
	delete(l.nodes, incarnation)
	return nil
}

func (l *Leases) free(incarnation string, which func(shard int) bool) {
	for i := range l.leases {
		if has := &l.leases[i]; has.Incarnation == incarnation && which(i) {
			*has = store.Lease{Shard: i, Epoch: has.Epoch}
		}
	}
}
