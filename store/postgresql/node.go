package postgresql

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// ReadCluster reads nodes and leases in one statement (ListCluster).
func (d *Driver) ReadCluster(ctx context.Context) ([]engine.ClusterRow, error) {
	rows, err := d.q.ListCluster(ctx, d.leases)
	return engine.Column(rows, func(r *dbsqlc.ListClusterRow) engine.ClusterRow { return engine.ClusterRow(*r) }), err
}

// AttendNode writes the node's row and renews its leases in one statement (AttendNode).
func (d *Driver) AttendNode(ctx context.Context, n *store.Node) error {
	return d.q.AttendNode(ctx, d.leases, dbsqlc.AttendNodeParams{
		Incarnation: n.Incarnation, Name: n.Name, Address: n.Address, Version: n.Version, Started: int64(n.Started),
		Expires:      int64(n.Expires),
		Applications: engine.Lines(n.Applications), Lacks: engine.Lines(n.Lacks), Settings: n.Settings,
		SecretKeys: engine.Lines(n.SecretKeys), Build: store.BuildLevel(),
	})
}

// ForgetNodes deletes nodes that expired before the instant (ForgetNodes).
func (d *Driver) ForgetNodes(ctx context.Context, before clock.Instant) error {
	return d.q.ForgetNodes(ctx, d.leases, int64(before))
}

// clusterTx is a transaction on nodes and leases. Its first statement travels with BEGIN. Later statements without
// results travel with COMMIT.
type clusterTx struct {
	*tx
	q       *dbsqlc.Queries
	waiting pipeline // statements to be sent with COMMIT
}

// exec returns where to run a statement without a result. If the first statement fails because the connection is gone,
// certainly nothing was committed: so it must not travel with COMMIT.
func (t *clusterTx) exec() dbsqlc.DBTX {
	if !t.begun {
		return t.tx
	}
	return &t.waiting
}

// BeginCluster begins a transaction on nodes and leases. Its statements wait at most upkeepLockWait for a lock.
func (d *Driver) BeginCluster(ctx context.Context) (engine.ClusterTx, error) {
	t, err := begin(ctx, d.leases, upkeepLockWait)
	if err != nil {
		return nil, err
	}
	return &clusterTx{tx: t, q: d.q}, nil
}

// TakeShards gives the node the free ones among the shards (TakeShards).
func (t *clusterTx) TakeShards(ctx context.Context, n *store.Node, now clock.Instant, shards []int) ([]int, error) {
	rows, err := t.q.TakeShards(ctx, t.tx, dbsqlc.TakeShardsParams{
		Owner: n.Name, Incarnation: n.Incarnation, Expires: int64(n.Expires), Now: int64(now), Shards: shardsOf(shards),
	})
	return engine.Column(rows, func(shard *int64) int { return int(*shard) }), err
}

// YieldShards frees the shards (YieldShards).
func (t *clusterTx) YieldShards(ctx context.Context, incarnation string, shards []int) error {
	return t.q.YieldShards(ctx, t.exec(), dbsqlc.YieldShardsParams{Shards: shardsOf(shards), Incarnation: incarnation})
}

// YieldAllShards frees all shards of the incarnation (YieldAllShards).
func (t *clusterTx) YieldAllShards(ctx context.Context, incarnation string) error {
	return t.q.YieldAllShards(ctx, t.exec(), incarnation)
}

// DeleteNode deletes the node's row (DeleteNode).
func (t *clusterTx) DeleteNode(ctx context.Context, incarnation string) error {
	return t.q.DeleteNode(ctx, t.exec(), incarnation)
}

// Commit sends the collected statements and commits.
func (t *clusterTx) Commit(ctx context.Context) error {
	if len(t.waiting.QueuedQueries) == 0 {
		return t.tx.Commit(ctx)
	}
	defer t.close(ctx)
	return t.send(ctx, &t.waiting)
}
