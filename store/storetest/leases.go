package storetest

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Leases is a store.Leaser in memory that behaves as the suite demands. Tests of packages that use a Leaser work with
// it.
type Leases struct {
	mu          sync.Mutex
	oldestBuild int64 // oldest build level that may work
	nodes       map[string]store.Node
	leases      []store.Lease
}

var _ store.Leaser = (*Leases)(nil)

// NewLeases returns Leases with the given number of free shards.
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
	c := store.Cluster{Leases: slices.Clone(l.leases), OldestBuild: l.oldestBuild}
	for _, n := range l.nodes {
		c.Nodes = append(c.Nodes, n)
	}
	slices.SortFunc(c.Nodes, func(a, b store.Node) int { return cmp.Compare(a.Incarnation, b.Incarnation) })
	return c, nil
}

// RequireBuildLevel sets the oldest build level that may work.
func (l *Leases) RequireBuildLevel(oldest int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.oldestBuild = oldest
}

// Attend writes the node, renews its leases and deletes nodes that expired before forget.
func (l *Leases) Attend(_ context.Context, n store.Node, forget clock.Instant) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.nodes[n.Incarnation]; ok {
		n.Started = known.Started
	}
	l.nodes[n.Incarnation] = n
	if store.BuildLevel() < l.oldestBuild {
		return nil
	}
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

// Take gives n the free and expired shards among the given ones.
func (l *Leases) Take(_ context.Context, n store.Node, now clock.Instant, shards []int) ([]int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var taken []int
	for i := range l.leases {
		lease := &l.leases[i]
		if slices.Contains(shards, i) && (lease.Incarnation == "" || lease.Expires <= now) {
			*lease = store.Lease{Shard: i, Owner: n.Name, Incarnation: n.Incarnation, Epoch: lease.Epoch + 1,
				Expires: n.Expires}
			taken = append(taken, i)
		}
	}
	return taken, nil
}

// Yield frees the given shards that the incarnation owns.
func (l *Leases) Yield(_ context.Context, incarnation string, shards []int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free(incarnation, func(shard int) bool { return slices.Contains(shards, shard) })
	return nil
}

// Leave frees all shards of the incarnation and deletes its node.
func (l *Leases) Leave(_ context.Context, incarnation string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.free(incarnation, func(int) bool { return true })
	delete(l.nodes, incarnation)
	return nil
}

func (l *Leases) free(incarnation string, selected func(shard int) bool) {
	for i := range l.leases {
		if lease := &l.leases[i]; lease.Incarnation == incarnation && selected(i) {
			*lease = store.Lease{Shard: i, Epoch: lease.Epoch}
		}
	}
}
