package sqlite

import (
	"context"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// Cluster reads nodes and leases in one statement (ListCluster).
func (s *Store) Cluster(ctx context.Context) (store.Cluster, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	rows, err := s.q.ListCluster(ctx, s.reader)
	if err != nil {
		return store.Cluster{}, s.mapError(ctx, "read the cluster", err)
	}
	var c store.Cluster
	for _, r := range rows {
		c.Add(store.ClusterRow(r))
	}
	return c, nil
}

// Attend writes the node's row and renews its leases (UpsertNode, RenewLeases, ForgetNodes).
func (s *Store) Attend(ctx context.Context, n store.Node, forget clock.Instant) error {
	return s.writeNode(ctx, "attend", func(tx *writeTx) error {
		err := s.q.UpsertNode(ctx, tx, dbsqlc.UpsertNodeParams{
			Incarnation: n.Incarnation, Name: n.Name, Address: n.Address, Version: n.Version,
			Started: int64(n.Started), Expires: int64(n.Expires), Applications: n.ApplicationLines(), Lacks: n.LackLines(),
		})
		if err != nil {
			return err
		}
		if err := s.q.RenewLeases(ctx, tx, dbsqlc.RenewLeasesParams{Expires: int64(n.Expires), Incarnation: n.Incarnation, Build: store.BuildLevel()}); err != nil {
			return err
		}
		return s.q.ForgetNodes(ctx, tx, int64(forget))
	})
}

// Take gives the node the free ones among the shards (TakeShards).
func (s *Store) Take(ctx context.Context, n store.Node, now clock.Instant, shards []int) (taken []int, err error) {
	err = s.writeNode(ctx, "take shards", func(tx *writeTx) error {
		rows, err := s.q.TakeShards(ctx, tx, dbsqlc.TakeShardsParams{
			Owner: n.Name, Incarnation: n.Incarnation, Expires: int64(n.Expires), Shards: jsonNumbers(shards), Now: int64(now),
		})
		for _, shard := range rows {
			taken = append(taken, int(shard))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	slices.Sort(taken)
	return taken, nil
}

// Yield frees the shards (YieldShards).
func (s *Store) Yield(ctx context.Context, incarnation string, shards []int) error {
	return s.writeNode(ctx, "yield shards", func(tx *writeTx) error {
		return s.q.YieldShards(ctx, tx, dbsqlc.YieldShardsParams{Shards: jsonNumbers(shards), Incarnation: incarnation})
	})
}

// Leave forgets the node (DeleteNode, YieldAllShards).
func (s *Store) Leave(ctx context.Context, incarnation string) error {
	return s.writeNode(ctx, "leave", func(tx *writeTx) error {
		if err := s.q.DeleteNode(ctx, tx, incarnation); err != nil {
			return err
		}
		return s.q.YieldAllShards(ctx, tx, incarnation)
	})
}

// writeNode runs do in a write transaction with a deadline. Its errors have a kind of package clock.
func (s *Store) writeNode(ctx context.Context, doing string, do func(tx *writeTx) error) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.mapError(ctx, doing, s.write(ctx, do))
}
