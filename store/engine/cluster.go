package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Cluster reads all nodes and leases in one statement.
func (s *Store) Cluster(ctx context.Context) (c store.Cluster, err error) {
	err = s.call(ctx, "read the cluster", func(ctx context.Context) error {
		rows, err := s.driver.ReadCluster(ctx)
		for i := range rows {
			rows[i].addTo(&c)
		}
		return err
	})
	return c, err
}

// Attend writes the node's row and renews its leases. Then it deletes nodes that expired before forget, if forget is
// later than 0.
func (s *Store) Attend(ctx context.Context, n store.Node, forget clock.Instant) error {
	return s.replayed(ctx, "attend", func(ctx context.Context) error {
		if err := s.driver.AttendNode(ctx, &n); err != nil || forget <= 0 {
			return err
		}
		return s.driver.ForgetNodes(ctx, forget)
	})
}

// Take gives the node the free ones among the shards.
func (s *Store) Take(ctx context.Context, n store.Node, now clock.Instant, shards []int) (taken []int, err error) {
	if len(shards) == 0 {
		return nil, nil
	}
	err = s.inCluster(ctx, "take shards", func(ctx context.Context, t ClusterTx) (err error) {
		taken, err = t.TakeShards(ctx, &n, now, shards)
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(taken)
	return taken, nil
}

// Yield frees the shards.
func (s *Store) Yield(ctx context.Context, incarnation string, shards []int) error {
	if len(shards) == 0 {
		return nil
	}
	return s.inCluster(ctx, "yield shards", func(ctx context.Context, t ClusterTx) error {
		return t.YieldShards(ctx, incarnation, shards)
	})
}

// Leave forgets the node and frees its shards.
func (s *Store) Leave(ctx context.Context, incarnation string) error {
	return s.inCluster(ctx, "leave", func(ctx context.Context, t ClusterTx) error {
		if err := t.DeleteNode(ctx, incarnation); err != nil {
			return err
		}
		return t.YieldAllShards(ctx, incarnation)
	})
}

// inCluster runs do in a transaction on nodes and leases, and again after a definite rollback.
func (s *Store) inCluster(ctx context.Context, doing string, do func(ctx context.Context, t ClusterTx) error) error {
	return s.replayed(ctx, doing, func(ctx context.Context) error {
		return InTx(ctx, s.driver.BeginCluster, func(t ClusterTx) error { return do(ctx, t) })
	})
}

// ClusterRow is a row of the statement that reads a store.Cluster. Shard tells its kind. -2: the oldest build level, in
// Epoch. -1: a node, whose name is in Owner. From 0 on: a lease, in the first five columns only. The row types of each
// engine's generated code convert to it.
type ClusterRow struct {
	Shard        int64
	Incarnation  string
	Owner        string
	Epoch        int64
	Expires      int64
	Address      string
	Version      string
	Started      int64
	Applications string
	Lacks        string
	Settings     int64
	SecretKeys   string
}

// buildLevelShard is the value of Shard in the row that holds the oldest build level.
const buildLevelShard = -2

// addTo adds the row to the list of its kind. Rows must come in the order of Shard and Incarnation.
func (r *ClusterRow) addTo(c *store.Cluster) {
	switch {
	case r.Shard == buildLevelShard:
		c.OldestBuild = r.Epoch
	case r.Shard >= 0:
		c.Leases = append(c.Leases, store.Lease{
			Shard: int(r.Shard), Owner: r.Owner, Incarnation: r.Incarnation, Epoch: r.Epoch,
			Expires: clock.Instant(r.Expires),
		})
	default:
		c.Nodes = append(c.Nodes, store.Node{
			Incarnation: r.Incarnation, Name: r.Owner, Address: r.Address, Version: r.Version,
			Started: clock.Instant(r.Started), Expires: clock.Instant(r.Expires),
			Applications: splitLines(r.Applications), Lacks: splitLines(r.Lacks), Settings: r.Settings,
			SecretKeys: splitLines(r.SecretKeys),
		})
	}
}

// splitLines returns the lines of a column, nil for an empty column.
func splitLines(column string) []string {
	if column == "" {
		return nil
	}
	return strings.Split(column, "\n")
}

// Lines returns a list in the form of its column: one line for each element.
func Lines(list []string) string { return strings.Join(list, "\n") }
