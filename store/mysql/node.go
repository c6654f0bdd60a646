package mysql

import (
	"cmp"
	"context"
	"fmt"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// ReadCluster reads nodes and leases in one statement (ListCluster).
func (d *Driver) ReadCluster(ctx context.Context) ([]engine.ClusterRow, error) {
	rows, err := d.q.ListCluster(ctx, d.leases)
	return engine.Column(rows, func(r *dbsqlc.ListClusterRow) engine.ClusterRow { return engine.ClusterRow(*r) }), err
}

// AttendNode writes the node's row (UpsertNode) and renews its leases (RenewLeases). Each statement commits by itself:
// a transaction around them would cost two more statements at each renewal.
func (d *Driver) AttendNode(ctx context.Context, n *store.Node) error {
	err := d.q.UpsertNode(ctx, d.leases, dbsqlc.UpsertNodeParams{
		Incarnation: n.Incarnation, Name: n.Name, Address: n.Address, Version: n.Version,
		Started: int64(n.Started), Expires: int64(n.Expires), Applications: engine.Lines(n.Applications),
		Lacks:    engine.Lines(n.Lacks),
		Settings: n.Settings, SecretKeys: engine.Lines(n.SecretKeys),
	})
	if err != nil {
		return err
	}
	return d.q.RenewLeases(ctx, d.leases, dbsqlc.RenewLeasesParams{
		Expires: int64(n.Expires), Incarnation: n.Incarnation, Build: store.BuildLevel(),
	})
}

// ForgetNodes deletes nodes that expired before the instant (ListForgotten, ForgetNodes).
func (d *Driver) ForgetNodes(ctx context.Context, before clock.Instant) error {
	forgotten, err := d.q.ListForgotten(ctx, d.leases, int64(before))
	if err != nil || len(forgotten) == 0 {
		return err
	}
	return d.q.ForgetNodes(ctx, d.leases, dbsqlc.ForgetNodesParams{Incarnations: forgotten, Forget: int64(before)})
}

// clusterTx is a transaction on nodes and leases.
type clusterTx struct {
	*tx
	q      *dbsqlc.Queries
	server server
}

// BeginCluster begins a transaction on nodes and leases.
func (d *Driver) BeginCluster(ctx context.Context) (engine.ClusterTx, error) {
	t, err := d.begin(ctx, d.leases)
	if err != nil {
		return nil, err
	}
	return &clusterTx{tx: t, q: d.q, server: d.known()}, nil
}

// TakeShards gives the node the free ones among the shards (LockFreeShards, TakeShards).
func (t *clusterTx) TakeShards(ctx context.Context, n *store.Node, now clock.Instant, shards []int) ([]int, error) {
	free, err := lockFree(t.server, t, numbersOf(shards), cmp.Compare[int64], func(db dbsqlc.DBTX, part []int64) ([]int64, error) {
		return t.q.LockFreeShards(ctx, db, dbsqlc.LockFreeShardsParams{Shards: part, Now: int64(now)})
	})
	if err != nil || len(free) == 0 {
		return nil, err
	}
	wrote, err := t.q.TakeShards(ctx, t, dbsqlc.TakeShardsParams{
		Owner: n.Name, Incarnation: n.Incarnation, Expires: int64(n.Expires), Shards: free, Now: int64(now),
	})
	if err == nil && wrote != int64(len(free)) { // another node took a shard between the statements, on a server that ignores the lock
		err = fmt.Errorf("%d of %d shards taken: %w", wrote, len(free), engine.ErrReplay)
	}
	return engine.Column(free, func(shard *int64) int { return int(*shard) }), err
}

// YieldShards frees the shards (YieldShards).
func (t *clusterTx) YieldShards(ctx context.Context, incarnation string, shards []int) error {
	return t.q.YieldShards(ctx, t, dbsqlc.YieldShardsParams{Shards: numbersOf(shards), Incarnation: incarnation})
}

// YieldAllShards frees all shards of the incarnation (YieldAllShards).
func (t *clusterTx) YieldAllShards(ctx context.Context, incarnation string) error {
	return t.q.YieldAllShards(ctx, t, incarnation)
}

// DeleteNode deletes the node's row (DeleteNode).
func (t *clusterTx) DeleteNode(ctx context.Context, incarnation string) error {
	return t.q.DeleteNode(ctx, t, incarnation)
}

// numbersOf converts shards to the type of their column.
func numbersOf(shards []int) []int64 {
	return engine.Column(shards, func(n *int) int64 { return int64(*n) })
}
