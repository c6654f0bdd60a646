package mysql

import (
	"context"
	"fmt"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// Cluster reads nodes and leases in one statement (ListCluster).
func (s *Store) Cluster(ctx context.Context) (store.Cluster, error) {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	rows, err := s.q.ListCluster(ctx, s.leases)
	if err != nil {
		return store.Cluster{}, s.mapError("read the cluster", err)
	}
	var c store.Cluster
	for _, r := range rows {
		c.Add(store.ClusterRow(r))
	}
	return c, nil
}

// Attend writes the node's row and renews its leases (UpsertNode, RenewLeases, ListForgotten, ForgetNodes).
func (s *Store) Attend(ctx context.Context, n store.Node, forget clock.Instant) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.transact(ctx, s.leases, "attend", func(t *tx, _ bool) error {
		err := s.q.UpsertNode(ctx, t, dbsqlc.UpsertNodeParams{
			Incarnation: n.Incarnation, Name: n.Name, Address: n.Address, Version: n.Version,
			Started: int64(n.Started), Expires: int64(n.Expires), Applications: n.ApplicationLines(), Lacks: n.LackLines(),
		})
		if err != nil {
			return err
		}
		if err := s.q.RenewLeases(ctx, t, dbsqlc.RenewLeasesParams{Expires: int64(n.Expires), Incarnation: n.Incarnation, Build: store.BuildLevel()}); err != nil {
			return err
		}
		forgotten, err := s.q.ListForgotten(ctx, t, int64(forget))
		if err != nil || len(forgotten) == 0 {
			return err
		}
		return s.q.ForgetNodes(ctx, t, dbsqlc.ForgetNodesParams{Incarnations: forgotten, Forget: int64(forget)})
	})
}

// Take gives the node the free ones among the shards (LockFreeShards, TakeShards).
func (s *Store) Take(ctx context.Context, n store.Node, now clock.Instant, shards []int) (taken []int, err error) {
	if len(shards) == 0 {
		return nil, nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	err = s.transact(ctx, s.leases, "take shards", func(t *tx, _ bool) error {
		free, err := s.q.LockFreeShards(ctx, t, dbsqlc.LockFreeShardsParams{Shards: numbersOf(shards), Now: int64(now)})
		if taken = nil; err != nil || len(free) == 0 {
			return err
		}
		wrote, err := s.q.TakeShards(ctx, t, dbsqlc.TakeShardsParams{
			Owner: n.Name, Incarnation: n.Incarnation, Expires: int64(n.Expires), Shards: free, Now: int64(now),
		})
		if err == nil && wrote != int64(len(free)) { // another node took a shard between the statements, on a server that ignores the lock
			return fmt.Errorf("%d of %d shards taken: %w", wrote, len(free), store.ErrReplay)
		}
		for _, shard := range free {
			taken = append(taken, int(shard))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// Yield frees the shards (YieldShards).
func (s *Store) Yield(ctx context.Context, incarnation string, shards []int) error {
	if len(shards) == 0 {
		return nil
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.transact(ctx, s.leases, "yield shards", func(t *tx, _ bool) error {
		return s.q.YieldShards(ctx, t, dbsqlc.YieldShardsParams{Shards: numbersOf(shards), Incarnation: incarnation})
	})
}

// Leave forgets the node (DeleteNode, YieldAllShards).
func (s *Store) Leave(ctx context.Context, incarnation string) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	return s.transact(ctx, s.leases, "leave", func(t *tx, _ bool) error {
		if err := s.q.DeleteNode(ctx, t, incarnation); err != nil {
			return err
		}
		return s.q.YieldAllShards(ctx, t, incarnation)
	})
}

// numbersOf converts shards to the type of their column.
func numbersOf(shards []int) []int64 { return idsOf(shards, func(n *int) int64 { return int64(*n) }) }
