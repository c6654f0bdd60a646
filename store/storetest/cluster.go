package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// node returns a node that started a minute before t0 and expires at the instant.
func node(incarnation string, expires clock.Instant) store.Node {
	return store.Node{
		Incarnation: incarnation, Name: "node " + incarnation, Address: "10.0.0.1:8077", Version: "v1",
		Started: t0 - 60_000, Expires: expires,
	}
}

func (f *fixture) heartbeat(n store.Node, forget clock.Instant) {
	f.t.Helper()
	ok(f.t, f.Attend(f.t.Context(), n, forget), "attend")
}

func (f *fixture) take(n store.Node, now clock.Instant, shards ...int) []int {
	f.t.Helper()
	taken, err := f.Take(f.t.Context(), n, now, shards)
	ok(f.t, err, "take")
	return taken
}

func (f *fixture) cluster() store.Cluster {
	f.t.Helper()
	c, err := f.Cluster(f.t.Context())
	ok(f.t, err, "cluster")
	if len(c.Leases) != f.ShardCount() {
		f.t.Fatalf("%d leases of %d shards", len(c.Leases), f.ShardCount())
	}
	for i, l := range c.Leases {
		if l.Shard != i {
			f.t.Fatalf("lease %d is of shard %d", i, l.Shard)
		}
	}
	return c
}

// wantLeases demands these leases, and that no node ever owned the other shards.
func (f *fixture) wantLeases(leases ...store.Lease) {
	f.t.Helper()
	want := make([]store.Lease, f.ShardCount())
	for i := range want {
		want[i].Shard = i
	}
	for _, l := range leases {
		want[l.Shard] = l
	}
	same(f.t, "leases", f.cluster().Leases, want)
}

// leaseOf returns the lease of a shard that node n owns.
func leaseOf(n store.Node, shard int, epoch int64) store.Lease {
	return store.Lease{Shard: shard, Owner: n.Name, Incarnation: n.Incarnation, Epoch: epoch, Expires: n.Expires}
}

// testAttend demands that Attend writes nodes, renews their leases and deletes expired nodes.
func testAttend(t *testing.T, f *fixture) {
	same(t, "nodes of an empty cluster", f.cluster().Nodes, nil)
	c, a, b := node("c", t0+3000), node("A", t0+3000), node("b", t0+3000)
	b.Name, b.Applications = c.Name, []string{"bank", "shop"}
	for _, n := range []store.Node{c, a, b} {
		f.heartbeat(n, t0)
	}
	same(t, "nodes", f.cluster().Nodes, []store.Node{a, b, c})
	same(t, "taken", f.take(a, t0, 5, 3), []int{3, 5})
	same(t, "taken", f.take(b, t0, 4), []int{4})

	again := a // long after its lease's end, and with another start time
	again.Name, again.Address, again.Version, again.Applications = "näme’", "", "v2", []string{"shop"}
	again.Settings, again.SecretKeys = 17, []string{"0badcafe", "1badcafe"}
	again.Started, again.Expires, again.Lacks = t0+99, t0+60_000, []string{"amqp", "read"}
	f.heartbeat(again, t0+3000)
	again.Started = a.Started
	same(t, "nodes", f.cluster().Nodes, []store.Node{again, b, c})
	f.wantLeases(store.Lease{Shard: 3, Owner: a.Name, Incarnation: "A", Epoch: 1, Expires: t0 + 60_000},
		leaseOf(b, 4, 1),
		store.Lease{Shard: 5, Owner: a.Name, Incarnation: "A", Epoch: 1, Expires: t0 + 60_000})

	same(t, "taken over", f.take(c, t0+3000, 3, 4, 5), []int{4})
	b.Expires, b.Applications = t0+70_000, nil
	f.heartbeat(b, t0+3001) // c has expired before
	again.Lacks = nil
	f.heartbeat(again, t0+3001)
	same(t, "nodes", f.cluster().Nodes, []store.Node{again, b})
	if l := f.cluster().Leases[4]; l.Incarnation != "c" || l.Epoch != 2 || l.Expires != c.Expires {
		t.Errorf("lease taken over from b: %+v", l)
	}
}

// testTake demands that a node gets free shards and shards that have expired to the millisecond, and no others.
func testTake(t *testing.T, f *fixture) {
	a, b := node("a", t0+3000), node("b", t0+9000)
	same(t, "take of no shard", f.take(a, t0), nil)
	same(t, "take of unknown shards", f.take(a, t0, 64, 1000), nil)
	same(t, "taken", f.take(a, t0, 63, 0, 7, 64), []int{0, 7, 63})
	same(t, "taken again", f.take(a, t0, 63, 0, 7), nil)
	f.wantLeases(leaseOf(a, 0, 1), leaseOf(a, 7, 1), leaseOf(a, 63, 1))
	same(t, "shards without unexpired leases", f.take(b, t0+2999, 0, 7, 8), []int{8})
	same(t, "expired lease of another node", f.take(b, t0+3000, 7), []int{7})
	f.wantLeases(leaseOf(a, 0, 1), leaseOf(b, 7, 2), leaseOf(b, 8, 1), leaseOf(a, 63, 1))
	a.Expires = t0 + 20_000
	same(t, "its own expired leases", f.take(a, t0+5000, 0, 7, 63), []int{0, 63})
	f.wantLeases(leaseOf(a, 0, 2), leaseOf(b, 7, 2), leaseOf(b, 8, 1), leaseOf(a, 63, 2))
	same(t, "nodes after Take without Attend", f.cluster().Nodes, nil)
}

// testTakeRace lets several stores take all shards at once, in several rounds. Each shard goes to exactly one store,
// with the next epoch.
func testTakeRace(t *testing.T, f *fixture) {
	const takers, rounds = 4, 8
	stores := []*fixture{f}
	for len(stores) < takers {
		stores = append(stores, f.other())
	}
	for round := range rounds {
		now := t0.Add(claimTimeout) + clock.Instant(round)
		taken := make([][]int, takers)
		var g errgroup.Group
		for i, s := range stores {
			g.Go(func() (err error) {
				taken[i], err = s.Take(t.Context(), node(fmt.Sprint("taker ", i), now+1), now, s.shards())
				return err
			})
		}
		ok(t, g.Wait(), "take at once")
		owner := map[int]string{}
		for i := range taken {
			if !slices.IsSorted(taken[i]) {
				t.Errorf("taken shards are not sorted: %v", taken[i])
			}
			for _, shard := range taken[i] {
				if owner[shard] != "" {
					t.Errorf("round %d: shard %d went to two nodes", round, shard)
				}
				owner[shard] = fmt.Sprint("taker ", i)
			}
		}
		rest := f.take(node("rest", now+1), now, f.shards()...) // shards that all stores skipped because of a lock
		for _, shard := range rest {
			owner[shard] = "rest"
		}
		for _, l := range f.cluster().Leases {
			if l.Incarnation != owner[l.Shard] || l.Epoch != int64(round)+1 {
				t.Errorf("round %d: Take gave %q shard %d, but the lease is %+v", round, owner[l.Shard], l.Shard, l)
			}
		}
	}
}

// testTakeLocked locks the row of one shard: Take gives the other shards at once.
func testTakeLocked(t *testing.T, f *fixture) {
	tx, err := f.db.SQL.BeginTx(t.Context(), nil)
	ok(t, err, "begin")
	defer func() { _ = tx.Rollback() }()
	var got int
	ok(t, tx.QueryRow("SELECT shard FROM shard WHERE shard = 2 FOR UPDATE").Scan(&got), "lock a shard")
	a := node("a", t0+3000)
	same(t, "taken", f.take(a, t0, 1, 2, 3), []int{1, 3})
	f.heartbeat(a, t0) // renews shards 1 and 3 and does not wait for shard 2
	same(t, "leases of a", shardsLeasedBy(f.cluster(), "a"), []int{1, 3})
}

// testLeasesBesideUncommittedShard renews and frees leases while another transaction has taken a shard, and has not
// committed yet.
func testLeasesBesideUncommittedShard(t *testing.T, f *fixture) {
	a := node("a", t0+3000)
	same(t, "taken", f.take(a, t0, 1, 3), []int{1, 3})
	tx, err := f.db.SQL.BeginTx(t.Context(), nil)
	ok(t, err, "begin")
	defer func() { _ = tx.Rollback() }()
	_, err = tx.ExecContext(t.Context(), "UPDATE shard SET incarnation = 'b', expires = 1 WHERE shard = 2")
	ok(t, err, "take a shard")
	a.Expires = t0 + 6000
	f.heartbeat(a, t0)
	f.wantLeases(leaseOf(a, 1, 1), leaseOf(a, 3, 1))
	ok(t, f.Leave(t.Context(), "a"), "leave")
	f.wantLeases(store.Lease{Shard: 1, Epoch: 1}, store.Lease{Shard: 3, Epoch: 1})
}

func shardsLeasedBy(c store.Cluster, incarnation string) (shards []int) {
	for _, l := range c.Leases {
		if l.Incarnation == incarnation {
			shards = append(shards, l.Shard)
		}
	}
	return shards
}

// testYield demands that a node can free its own shards only.
func testYield(t *testing.T, f *fixture) {
	a, b := node("a", t0+3000), node("b", t0+3000)
	f.take(a, t0, 1, 2, 3)
	f.take(b, t0, 4, 5)
	ok(t, f.Yield(t.Context(), "a", nil), "yield nothing")
	ok(t, f.Yield(t.Context(), "a", []int{5, 3, 1, 6, 99}), "yield")
	free := func(shard int) store.Lease { return store.Lease{Shard: shard, Epoch: 1} }
	f.wantLeases(free(1), leaseOf(a, 2, 1), free(3), leaseOf(b, 4, 1), leaseOf(b, 5, 1))
	same(t, "taken by another", f.take(b, t0, 1, 2), []int{1})
	ok(t, f.Yield(t.Context(), "a", []int{1, 2, 3}), "yield again")
	f.wantLeases(leaseOf(b, 1, 2), free(2), free(3), leaseOf(b, 4, 1), leaseOf(b, 5, 1))
}

// testLeave demands that Leave frees all shards of the node and deletes the node.
func testLeave(t *testing.T, f *fixture) {
	a, b := node("a", t0+3000), node("b", t0+3000)
	f.heartbeat(a, 0)
	f.heartbeat(b, 0)
	f.take(a, t0, 1, 2)
	f.take(b, t0, 3)
	ok(t, f.Leave(t.Context(), "a"), "leave")
	ok(t, f.Leave(t.Context(), "a"), "leave again")
	same(t, "nodes", f.cluster().Nodes, []store.Node{b})
	f.wantLeases(store.Lease{Shard: 1, Epoch: 1}, store.Lease{Shard: 2, Epoch: 1}, leaseOf(b, 3, 1))
}

// testManyNodesAtOnce lets several nodes attend, take, yield and delete expired nodes at once. No call fails or waits.
func testManyNodesAtOnce(t *testing.T, f *fixture) {
	const nodes, rounds = 4, 25
	var g errgroup.Group
	for i := range nodes {
		s := f
		if i > 0 {
			s = f.other()
		}
		g.Go(func() error {
			for round := range rounds {
				now := t0 + clock.Instant(round)
				n := node(fmt.Sprint(i), now+3)
				if err := s.Attend(t.Context(), n, now-3); err != nil {
					return fmt.Errorf("attend: %w", err)
				}
				taken, err := s.Take(t.Context(), n, now, s.shards())
				if err != nil {
					return fmt.Errorf("take: %w", err)
				}
				if err := s.Yield(t.Context(), n.Incarnation, taken[len(taken)/2:]); err != nil {
					return fmt.Errorf("yield: %w", err)
				}
				gone := node(fmt.Sprint(i, "-", round), now) // a process that restarts in every round
				if err := s.Attend(t.Context(), gone, now-3); err != nil {
					return fmt.Errorf("attend: %w", err)
				}
			}
			return s.Leave(t.Context(), fmt.Sprint(i))
		})
	}
	ok(t, g.Wait(), "nodes at once")
	for i := range nodes {
		same(t, "shards of a node that left", shardsLeasedBy(f.cluster(), fmt.Sprint(i)), nil)
	}
}

// testShardReport reads the owners of shards from the report.
func testShardReport(t *testing.T, f *fixture) {
	a := node("a", t0+3000)
	a.Applications, a.Lacks, a.Settings = []string{"bank", "shop"}, []string{"amqp", "read"}, 7
	a.SecretKeys = []string{"0badcafe", "1badcafe"}
	f.heartbeat(a, 0)
	f.take(a, t0, 1, 3)
	f.take(node("gone", t0+7), t0, 2)
	f.take(node("yields", t0+7), t0, 0)
	ok(t, f.Yield(t.Context(), "yields", []int{0}), "yield")
	s := func(i clock.Instant) string { return i.Time().Format(reportLayout) }
	same(t, "shard_report",
		f.report(`SELECT shard, owner, incarnation, epoch, expires, node_known FROM shard_report WHERE shard < 4 ORDER BY shard`),
		[][]string{
			{"0", "NULL", "NULL", "1", "NULL", "0"},
			{"1", "node a", "a", "1", s(t0 + 3000), "1"},
			{"2", "node gone", "gone", "1", s(t0 + 7), "0"},
			{"3", "node a", "a", "1", s(t0 + 3000), "1"},
		})
	same(t, "node_report",
		f.report(`SELECT incarnation, name, address, version, started, expires, shards, applications, lacks, settings, secret_keys
			FROM node_report`),
		[][]string{{"a", "node a", "10.0.0.1:8077", "v1", s(t0 - 60_000), s(t0 + 3000), "2", "bank\nshop", "amqp\nread",
			"7", "0badcafe\n1badcafe"}})
	f.exec("INSERT INTO node (incarnation, name, address, version, started, expires, applications) VALUES ('old', 'b', '', '', 1, 1, '')")
	for _, n := range f.cluster().Nodes {
		same(t, "settings of "+n.Incarnation, n.Settings,
			map[string]int64{"a": 7, "old": store.SettingsUnknown}[n.Incarnation])
	}
}

// testUpkeepBesideWaitingWrites fills all connections for writes with writes that wait for a row. The calls that keep
// the node working still succeed at once.
func testUpkeepBesideWaitingWrites(t *testing.T, f *fixture) {
	id := f.set(t0, set("held", t0))[0]
	unlock := f.lockRow(id)
	var g errgroup.Group
	defer func() {
		unlock()
		ok(t, g.Wait(), "a write that waited")
	}()
	for range 40 { // more than the default pool size of any engine
		g.Go(func() error {
			_, err := f.Write(t.Context(),
				clock.WriteRequest{Now: t0, Ops: []clock.Op{set("held", t0+1)}, LockWait: 20 * time.Second})
			return err
		})
	}
	full := func() bool {
		ctx, stop := context.WithTimeout(t.Context(), promptTimeout/10)
		defer stop()
		_, err := f.Write(ctx, clock.WriteRequest{Now: t0, Ops: []clock.Op{cancel("absent")}})
		return errors.Is(err, context.DeadlineExceeded)
	}
	for deadline := time.Now().Add(10 * promptTimeout); !full(); {
		if time.Now().After(deadline) {
			t.Fatal("40 waiting writes leave a free connection")
		}
	}
	calls := f.calls()
	for _, name := range []string{"time", "due", "overdue", "expire", "purge", "cluster", "attend", "take", "yield", "leave", "claim"} {
		ctx, stop := context.WithTimeout(t.Context(), promptTimeout)
		if err := calls[name](ctx); err != nil {
			t.Errorf("%s while all connections for writing requests are held: %v", name, err)
		}
		stop()
	}
}
