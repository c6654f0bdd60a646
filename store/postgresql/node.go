package postgresql

import (
	"context"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
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

// Attend writes the node's row and renews its leases, in two round trips (UpsertNode, RenewLeases, ForgetNodes).
func (s *Store) Attend(ctx context.Context, n store.Node, forget clock.Instant) error {
	return s.transact(ctx, "attend", func(ctx context.Context, t *tx) error {
		err := s.q.UpsertNode(ctx, t, dbsqlc.UpsertNodeParams{
			Incarnation: n.Incarnation, Name: n.Name, Address: n.Address, Version: n.Version,
			Started: int64(n.Started), Expires: int64(n.Expires), Applications: n.ApplicationLines(), Lacks: n.LackLines(),
		})
		if err != nil {
			return err
		}
		var p pipeline
		if err := s.q.RenewLeases(ctx, &p, dbsqlc.RenewLeasesParams{Expires: int64(n.Expires), Incarnation: n.Incarnation, Build: store.BuildLevel()}); err != nil {
			return err
		}
		if err := s.q.ForgetNodes(ctx, &p, int64(forget)); err != nil {
			return err
		}
		return t.send(ctx, &p)
	})
}

// Take gives the node the free ones among the shards (TakeShards).
func (s *Store) Take(ctx context.Context, n store.Node, now clock.Instant, shards []int) (taken []int, err error) {
	err = s.transact(ctx, "take shards", func(ctx context.Context, t *tx) error {
		rows, err := s.q.TakeShards(ctx, t, dbsqlc.TakeShardsParams{
			Owner: n.Name, Incarnation: n.Incarnation, Expires: int64(n.Expires), Now: int64(now), Shards: shardsOf(shards),
		})
		if err != nil {
			return err
		}
		taken = column(rows, func(shard *int64) int { return int(*shard) })
		slices.Sort(taken)
		return t.commit(ctx)
	})
	if err != nil {
		return nil, err
	}
	return taken, nil
}

// Yield frees the shards (YieldShards).
func (s *Store) Yield(ctx context.Context, incarnation string, shards []int) error {
	return s.transact(ctx, "yield shards", func(ctx context.Context, t *tx) error {
		err := s.q.YieldShards(ctx, t, dbsqlc.YieldShardsParams{Shards: shardsOf(shards), Incarnation: incarnation})
		if err != nil {
			return err
		}
		return t.commit(ctx)
	})
}

// Leave forgets the node (DeleteNode, YieldAllShards).
func (s *Store) Leave(ctx context.Context, incarnation string) error {
	return s.transact(ctx, "leave", func(ctx context.Context, t *tx) error {
		if err := s.q.DeleteNode(ctx, t, incarnation); err != nil {
			return err
		}
		var p pipeline
		if err := s.q.YieldAllShards(ctx, &p, incarnation); err != nil {
			return err
		}
		return t.send(ctx, &p)
	})
}

// transact runs try in a transaction, and again after a definite rollback. try must commit. Statements wait at most upkeepLockWait for a
// lock.
func (s *Store) transact(ctx context.Context, doing string, try func(ctx context.Context, t *tx) error) error {
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	err := s.metrics.Replay(ctx, replayReason, func() error {
		t, err := begin(ctx, s.leases, upkeepLockWait)
		if err != nil {
			return err
		}
		defer t.close(ctx)
		return try(ctx, t)
	})
	return s.mapError(doing, err)
}
