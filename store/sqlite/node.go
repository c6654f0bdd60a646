package sqlite

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

var _ engine.ClusterTx = (*writeTx)(nil)

// ReadCluster reads nodes and leases in one statement (ListCluster).
func (d *Driver) ReadCluster(ctx context.Context) ([]engine.ClusterRow, error) {
	rows, err := d.q.ListCluster(ctx, d.loading)
	return engine.Column(rows, func(r *dbsqlc.ListClusterRow) engine.ClusterRow { return engine.ClusterRow(*r) }), err
}

// AttendNode writes the node's row (UpsertNode) and renews its leases (RenewLeases).
func (d *Driver) AttendNode(ctx context.Context, n *store.Node) error {
	return engine.InTx(ctx, d.begin, func(t *writeTx) error {
		err := t.q.UpsertNode(ctx, t, dbsqlc.UpsertNodeParams{
			Incarnation: n.Incarnation, Name: n.Name, Address: n.Address, Version: n.Version,
			Started: int64(n.Started), Expires: int64(n.Expires), Applications: engine.Lines(n.Applications),
			Lacks:    engine.Lines(n.Lacks),
			Settings: n.Settings, SecretKeys: engine.Lines(n.SecretKeys),
		})
		if err != nil {
			return err
		}
		return t.q.RenewLeases(ctx, t, dbsqlc.RenewLeasesParams{
			Expires: int64(n.Expires), Incarnation: n.Incarnation, Build: store.BuildLevel(),
		})
	})
}

// ForgetNodes deletes nodes that expired before the instant (ForgetNodes).
func (d *Driver) ForgetNodes(ctx context.Context, before clock.Instant) error {
	return engine.InTx(ctx, d.begin, func(t *writeTx) error { return t.q.ForgetNodes(ctx, t, int64(before)) })
}

// BeginCluster begins a transaction on nodes and leases.
func (d *Driver) BeginCluster(ctx context.Context) (engine.ClusterTx, error) {
	t, err := d.begin(ctx)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// TakeShards gives the node the free ones among the shards (TakeShards).
func (t *writeTx) TakeShards(ctx context.Context, n *store.Node, now clock.Instant, shards []int) ([]int, error) {
	rows, err := t.q.TakeShards(ctx, t, dbsqlc.TakeShardsParams{
		Owner: n.Name, Incarnation: n.Incarnation, Expires: int64(n.Expires), Shards: jsonNumbers(shards),
		Now: int64(now),
	})
	return engine.Column(rows, func(shard *int64) int { return int(*shard) }), err
}

// YieldShards frees the shards (YieldShards).
func (t *writeTx) YieldShards(ctx context.Context, incarnation string, shards []int) error {
	return t.q.YieldShards(ctx, t, dbsqlc.YieldShardsParams{Shards: jsonNumbers(shards), Incarnation: incarnation})
}

// YieldAllShards frees all shards of the incarnation (YieldAllShards).
func (t *writeTx) YieldAllShards(ctx context.Context, incarnation string) error {
	return t.q.YieldAllShards(ctx, t, incarnation)
}

// DeleteNode deletes the node's row (DeleteNode).
func (t *writeTx) DeleteNode(ctx context.Context, incarnation string) error {
	return t.q.DeleteNode(ctx, t, incarnation)
}
