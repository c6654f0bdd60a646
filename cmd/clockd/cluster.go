package main

import (
	"context"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/clock/stats"
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/store"
)

// cluster reads the nodes and the shards' owners, for GET /v1/nodes and GET /v1/stats.
type cluster struct {
	leaser   store.Leaser
	settings store.Settings
	timebase *clock.Timebase
	self     *identity
}

// node returns this node.
func (c *cluster) node(cfg *config) stats.Node {
	return stats.Node{Name: cfg.Node, Incarnation: c.self.incarnation}
}

// living returns the living nodes.
func (c *cluster) living(ctx context.Context) (nodes []stats.Node, err error) {
	now, err := c.timebase.AtLeast()
	if err != nil {
		return nil, err
	}
	seen, err := c.leaser.Cluster(ctx)
	for i := range seen.Nodes {
		if n := &seen.Nodes[i]; n.Alive(now) {
			nodes = append(nodes, stats.Node{Name: n.Name, Incarnation: n.Incarnation, Started: n.Started})
		}
	}
	return nodes, err
}

// view returns the nodes and leases that the database has.
func (c *cluster) view(ctx context.Context) (clockhttp.NodesView, error) {
	now, err := c.timebase.AtLeast()
	if err != nil {
		return clockhttp.NodesView{}, err
	}
	changes, err := c.settings.SettingChanges(ctx)
	if err != nil {
		return clockhttp.NodesView{}, err
	}
	seen, err := c.leaser.Cluster(ctx)
	if err != nil {
		return clockhttp.NodesView{}, err
	}
	v := clockhttp.NodesView{Self: c.self.incarnation, DatabaseTime: now, Settings: changes}
	shards := map[string][]int{}
	for _, l := range seen.Leases {
		v.Shards = append(v.Shards, clockhttp.ShardView{
			Shard: l.Shard, Node: l.Owner, Incarnation: l.Incarnation, Epoch: l.Epoch, ExpiresAt: l.Expires,
		})
		shards[l.Incarnation] = append(shards[l.Incarnation], l.Shard)
	}
	names := map[string]int{}
	for i := range seen.Nodes {
		if n := &seen.Nodes[i]; n.Alive(now) {
			names[n.Name]++
		}
	}
	for i := range seen.Nodes {
		n := &seen.Nodes[i]
		alive := n.Alive(now)
		v.Nodes = append(v.Nodes, clockhttp.NodeView{
			Name: n.Name, Incarnation: n.Incarnation, Address: n.Address, Version: n.Version, StartedAt: n.Started,
			ExpiresAt: n.Expires,
			Alive:     alive, NameShared: alive && names[n.Name] > 1, Shards: shards[n.Incarnation],
			Applications: lease.AnnouncedApplications(n.Applications),
			Lacks:        n.Lacks, Settings: n.Settings, SecretKeys: n.SecretKeys,
		})
	}
	return v, nil
}
