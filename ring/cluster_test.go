package ring_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/preload/wake"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/storetest"
)

// cluster is some nodes with one database and one target. It keeps a record of the alarms, cancels and faults.
type cluster struct {
	t            tester
	db           *modelDB
	leases       *storetest.Leases
	target       *modelTarget
	clock        modelClock
	origin       clock.Instant
	nodes        []*clusterNode // running nodes
	stopped      []*clusterNode // killed and frozen nodes
	count        int
	losesWakeUps bool // wake-ups are lost
	// onClaim is called after each claim, before the node gets the claim. It must be set before the first node starts.
	// Nil: not called.
	onClaim func(p *clusterNode, rings []clock.Ring)

	mu            sync.Mutex      // guards nodes and losesWakeUps too
	excused       map[string]bool // message ids of rings whose transaction was lost
	due           map[int64]clock.Instant
	setAt         map[int64]clock.Instant
	ringsAtCancel map[string]int // by "id.generation" of a cancelled alarm: number of rings at the cancel
	faults        []fault
}

// fault is a range of time in which rings may be late.
type fault struct{ from, until clock.Instant }

func newCluster(t tester, nodes int, more ...func(*cluster)) *cluster {
	t.Helper()
	mc := modelClock{offset: 26*365*24*time.Hour + 123*time.Millisecond}
	c := &cluster{
		t: t, db: newModelDB(mc), leases: storetest.NewLeases(modelShards), target: newModelTarget(mc), clock: mc,
		origin:  mc.now(),
		excused: map[string]bool{}, due: map[int64]clock.Instant{}, setAt: map[int64]clock.Instant{},
		ringsAtCancel: map[string]int{},
	}
	c.db.slow(time.Millisecond)
	c.target.slow(time.Millisecond)
	for _, m := range more {
		m(c)
	}
	for range nodes {
		c.join()
	}
	return c
}

// clusterNode is one node: all parts of a process except HTTP. Its calls to the database and the target go through its
// gate.
type clusterNode struct {
	cluster   *cluster
	name      string
	gate      gate
	keeper    *lease.Keeper
	sender    *wake.Sender
	preloader *preload.Preloader
	receiver  *wake.Receiver
	loop      *ring.Loop
	time      *clock.Timebase
	leave     func() // stops the node as SIGTERM does, and waits for it

	mu                sync.Mutex
	openClaims        map[*nodeSettler]bool // claims that are not settled
	connectionsClosed bool                  // the database server has seen the node's connections close
}

// gate is shut while its process does not run.
type gate struct {
	mu       sync.Mutex
	shut     chan struct{} // nil: open
	testOver bool          // the test has ended: pass returns an error
}

// pass waits until the process runs. It returns an error when the test has ended.
func (g *gate) pass() error {
	for {
		g.mu.Lock()
		shut, testOver := g.shut, g.testOver
		g.mu.Unlock()
		switch {
		case testOver:
			return errDown
		case shut == nil:
			return nil
		}
		<-shut
	}
}

func (g *gate) isOpen() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.shut == nil && !g.testOver
}

func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut == nil {
		g.shut = make(chan struct{})
	}
}

func (g *gate) reopen(testOver bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut != nil {
		close(g.shut)
	}
	g.shut, g.testOver = nil, testOver
}

// call calls the database through the gate, in both directions.
func (p *clusterNode) call(ctx context.Context, call func() error) error {
	if err := p.gate.pass(); err != nil {
		return err
	}
	err := p.cluster.db.enter(ctx)
	if err == nil {
		err = call()
	}
	if over := p.gate.pass(); over != nil {
		return over
	}
	return err
}

// nodeDB is the database as one node sees it.
type nodeDB struct{ *clusterNode }

func (p nodeDB) HoldsClaims() bool { return p.cluster.db.HoldsClaims() }

func (p nodeDB) Time(ctx context.Context) (us int64, err error) {
	err = p.call(ctx, func() error { us = time.Now().Add(p.cluster.clock.offset).UnixMicro(); return nil })
	return us, err
}

func (p nodeDB) Due(ctx context.Context, q store.DueQuery) (page store.DuePage, err error) {
	err = p.call(ctx, func() error { page, err = p.cluster.db.Due(ctx, q); return err })
	return page, err
}

func (p nodeDB) Expire(
	ctx context.Context, now clock.Instant, shards []int, from store.Position, limit int,
) (page store.ExpiredPage, err error) {
	err = p.call(ctx, func() error { page, err = p.cluster.db.Expire(ctx, now, shards, from, limit); return err })
	return page, err
}

func (p nodeDB) Claim(ctx context.Context, r store.ClaimRequest) (claim *store.Claim, err error) {
	err = p.call(ctx, func() error {
		if claim, err = p.cluster.db.Claim(ctx, r); err == nil && claim.Settler != nil {
			s := &nodeSettler{clusterNode: p.clusterNode, modelSettler: claim.Settler.(*modelSettler)}
			claim.Settler = s
			p.mu.Lock()
			p.openClaims[s] = true
			dead := p.connectionsClosed
			p.mu.Unlock()
			if dead {
				p.rollBack()
			}
			if p.cluster.onClaim != nil {
				p.cluster.onClaim(p.clusterNode, claim.Rings)
			}
		}
		return err
	})
	return claim, err
}

func (p nodeDB) Cluster(ctx context.Context) (c store.Cluster, err error) {
	err = p.call(ctx, func() error { c, err = p.cluster.leases.Cluster(ctx); return err })
	return c, err
}

func (p nodeDB) Attend(ctx context.Context, n store.Node, forget clock.Instant) error {
	return p.call(ctx, func() error { return p.cluster.leases.Attend(ctx, n, forget) })
}

func (p nodeDB) Take(ctx context.Context, n store.Node, now clock.Instant, shards []int) (taken []int, err error) {
	err = p.call(ctx, func() error { taken, err = p.cluster.leases.Take(ctx, n, now, shards); return err })
	return taken, err
}

func (p nodeDB) Yield(ctx context.Context, incarnation string, shards []int) error {
	return p.call(ctx, func() error { return p.cluster.leases.Yield(ctx, incarnation, shards) })
}

func (p nodeDB) Leave(ctx context.Context, incarnation string) error {
	return p.call(ctx, func() error { return p.cluster.leases.Leave(ctx, incarnation) })
}

// nodeSettler is the transaction of a node's claim. The server rolls it back when the node dies, or is silent for 5 s.
type nodeSettler struct {
	*clusterNode
	*modelSettler
}

func (s *nodeSettler) Settle(ctx context.Context, now clock.Instant, fates []clock.Fate) error {
	return s.end(func() error { return s.modelSettler.Settle(ctx, now, fates) })
}

func (s *nodeSettler) Release(ctx context.Context) error {
	return s.end(func() error { return s.modelSettler.Release(ctx) })
}

func (s *nodeSettler) end(end func() error) error {
	if err := s.gate.pass(); err != nil {
		return err
	}
	s.clusterNode.mu.Lock()
	alive := s.openClaims[s]
	delete(s.openClaims, s)
	s.clusterNode.mu.Unlock()
	if !alive {
		return errDown
	}
	err := end()
	if err != nil {
		s.excuse()
	}
	if over := s.gate.pass(); over != nil {
		return over
	}
	return err
}

// excuse notes that the claim's rings may come twice.
func (s *nodeSettler) excuse() {
	s.cluster.mu.Lock()
	defer s.cluster.mu.Unlock()
	for i := range s.rings {
		s.cluster.excused[s.rings[i].MessageID()] = true
	}
}

// rollBack rolls back all transactions of the node.
func (p *clusterNode) rollBack() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for s := range p.openClaims {
		s.excuse()
		p.cluster.db.mu.Lock()
		for i := range s.rings {
			p.cluster.db.rows[s.rings[i].AlarmID].locked = false
		}
		p.cluster.db.mu.Unlock()
	}
	clear(p.openClaims)
}

// nodeTarget is the target as one node sees it.
type nodeTarget struct {
	*modelTarget
	node *clusterNode
}

func (t nodeTarget) Lane(maxLate int) ring.Lane { return nodeLane{t.modelTarget.Lane(maxLate), t.node} }

// Changed returns nil, because all nodes would share the signal.
func (t nodeTarget) Changed() <-chan struct{} { return nil }

type nodeLane struct {
	ring.Lane
	node *clusterNode
}

func (l nodeLane) Deliver(ctx context.Context, rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	if l.node.gate.pass() != nil {
		return slices.Repeat([]clock.Outcome{{Kind: clock.Unsent}}, len(rings))
	}
	outcomes := l.Lane.Deliver(ctx, rings, limits)
	_ = l.node.gate.pass()
	return outcomes
}

// Send sends a wake-up. It arrives a millisecond later at the nodes that load the shard.
func (p *clusterNode) Send(shard int, body []byte) {
	p.cluster.mu.Lock()
	lost, nodes := p.cluster.losesWakeUps, slices.Clone(p.cluster.nodes)
	p.cluster.mu.Unlock()
	if lost || !p.gate.isOpen() {
		return
	}
	for _, other := range nodes {
		if other != p && slices.Contains(other.keeper.Shards(), shard) {
			time.AfterFunc(time.Millisecond, func() {
				if !other.gate.isOpen() {
					return
				}
				if err := other.receiver.Receive(body); err != nil {
					p.cluster.t.Errorf("receive a wake-up: %v", err)
				}
			})
		}
	}
}

// join starts a node.
func (c *cluster) join() *clusterNode {
	c.t.Helper()
	c.count++
	p := &clusterNode{cluster: c, name: fmt.Sprintf("%c%d", "cab"[c.count%3], c.count),
		openClaims: map[*nodeSettler]bool{}}
	log, reg := slog.New(slog.DiscardHandler), prometheus.NewRegistry()
	var err error
	if p.time, err = clock.NewTimebase(clock.DefaultTimebaseConfig(), clock.TimebaseDeps{Source: nodeDB{p}, Log: log}); err != nil {
		c.t.Fatalf("%v", err)
	}
	cfg := lease.DefaultConfig()
	cfg.Name, cfg.Incarnation = p.name, p.name
	if p.keeper, err = lease.New(cfg, lease.Deps{
		Leaser: nodeDB{p}, Time: p.time, Address: func() string { return "" }, Log: log, Registerer: reg,
	}); err != nil {
		c.t.Fatalf("%v", err)
	}
	loading, heap := preload.DefaultConfig(), ring.NewHeap(4, 10_000)
	if p.sender, err = wake.NewSender(wake.SenderConfig{Window: loading.Window}, wake.SenderDeps{Ownership: p.keeper, Time: p.time, Registerer: reg}); err != nil {
		c.t.Fatalf("%v", err)
	}
	if p.preloader, err = preload.New(loading, preload.Deps{
		Loader: nodeDB{p}, Heap: heap, Time: p.time, Ownership: p.keeper, Announcer: p.sender, Log: log,
		Registerer: reg,
	}); err != nil {
		c.t.Fatalf("%v", err)
	}
	p.receiver = wake.NewReceiver(wake.ReceiverDeps{Ownership: p.keeper, Loader: p.preloader, Registerer: reg})
	p.sender.SendBy(p)
	if p.loop, err = ring.New(ring.DefaultConfig(), ring.Deps{
		Heap: heap, Database: nodeDB{p},
		Routes: []*ring.Route{{Name: "model", Target: nodeTarget{c.target, p}, HoldsClaims: true}}, Time: p.time,
		Feeder: p.preloader, Log: log, Registerer: reg,
	}); err != nil {
		c.t.Fatalf("%v", err)
	}
	_ = p.time.Sample(context.Background())
	p.start()
	c.add(p)
	return p
}

// start runs the parts in the order of a process. leave stops them in the reverse order.
func (p *clusterNode) start() {
	var stops []func()
	for _, run := range []func(context.Context) error{p.time.Run, p.loop.Run, p.sender.Run, p.preloader.Run, p.keeper.Run} {
		ctx, cancel := context.WithCancel(context.Background())
		var running sync.WaitGroup
		running.Go(func() { _ = run(ctx) })
		stops = append(stops, func() {
			cancel()
			running.Wait()
		})
	}
	p.leave = sync.OnceFunc(func() {
		for _, stop := range slices.Backward(stops) {
			stop()
		}
	})
}

// add adds a node to the running ones.
func (c *cluster) add(p *clusterNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = append(c.nodes, p)
}

// remove takes a node out of the running ones.
func (c *cluster) remove(p *clusterNode) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes = slices.DeleteFunc(c.nodes, func(q *clusterNode) bool { return p == q })
}

func (c *cluster) setLosesWakeUps(wakeUps bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losesWakeUps = wakeUps
}

// kill ends a node as kill -9 does.
func (c *cluster) kill(p *clusterNode) {
	p.gate.close()
	p.mu.Lock()
	p.connectionsClosed = true
	p.mu.Unlock()
	p.rollBack()
	c.remove(p)
	c.stopped = append(c.stopped, p)
	c.addFault(0)
}

// freeze stops a node until thaw. The server rolls back its transactions after 5 s.
func (c *cluster) freeze(p *clusterNode) (thaw func()) {
	p.gate.close()
	timer := time.AfterFunc(5*time.Second, p.rollBack)
	c.addFault(5 * time.Second)
	c.remove(p)
	c.stopped = append(c.stopped, p)
	return func() {
		timer.Stop()
		c.stopped = slices.DeleteFunc(c.stopped, func(q *clusterNode) bool { return p == q })
		p.gate.reopen(false)
		c.add(p)
		c.addFault(0)
	}
}

// addFault notes that rings may be late from now on for d.
func (c *cluster) addFault(d time.Duration) {
	c.faults = append(c.faults, fault{c.clock.now(), c.clock.now().Add(d)})
}

// stop stops all nodes.
func (c *cluster) stop() {
	for _, p := range c.stopped {
		p.gate.reopen(true)
	}
	for _, p := range append(slices.Clone(c.nodes), c.stopped...) {
		p.leave()
	}
}

// set sets an alarm at a node, due after delay, and returns its id, or 0 if the write did not succeed.
func (c *cluster) set(by *clusterNode, application, id string, delay time.Duration) int64 {
	c.t.Helper()
	d := c.db.write(clock.Op{Set: &clock.Set{
		Key: clock.Key{Application: application, BusinessID: id},
		Content: clock.Content{
			RingAt: c.clock.now().Add(delay), LatestRingAt: clock.NoInstant, Retry: clock.DefaultRetryPolicy(),
			MaxRings: 10,
		},
	}})
	if d.Verdict == clock.Locked {
		return 0
	}
	if by.gate.isOpen() {
		by.preloader.Committed([]clock.Decision{d})
	}
	if d.Writes() {
		c.due[d.Alarm.ID], c.setAt[d.Alarm.ID] = d.Alarm.RingAt, c.clock.now()
	}
	return d.Alarm.ID
}

// cancel cancels an alarm at a node.
func (c *cluster) cancel(by *clusterNode, application, id string) {
	c.t.Helper()
	d := c.db.write(clock.Op{Cancel: &clock.Cancel{Key: clock.Key{Application: application, BusinessID: id}}})
	if by.gate.isOpen() {
		by.preloader.Committed([]clock.Decision{d})
	}
	if d.Verdict == clock.Disarm {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.due, d.Alarm.ID)
		c.ringsAtCancel[fmt.Sprintf("%d.%d", d.Alarm.ID, d.Alarm.Generation)] = len(c.target.all())
	}
}

// checkRings may run at any time. No alarm may ring early or after its cancel, and copies may come only from lost
// transactions.
func (c *cluster) checkRings() {
	c.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	copies := map[string]int{}
	for i, r := range c.target.all() {
		if r.at < r.ringAt {
			c.t.Fatalf("%s rang %s early", r.id, r.ringAt.Sub(r.at))
		}
		if copies[r.id]++; copies[r.id] > 1 && !c.excused[r.id] {
			c.t.Fatalf("%s rang %d times, and no transaction was lost", r.id, copies[r.id])
		}
		var id, generation, no int64
		if _, err := fmt.Sscanf(r.id, "%d.%d.%d", &id, &generation, &no); err != nil || no != 1 {
			c.t.Fatalf("message id %s: %v", r.id, err)
		}
		if cut, cancelled := c.ringsAtCancel[fmt.Sprintf("%d.%d", id, generation)]; cancelled && i >= cut {
			c.t.Fatalf("%s rang after its cancel was answered", r.id)
		}
	}
}

// checkEnd checks that every alarm has rung. It returns the greatest lateness, the greatest lateness beyond the excuse
// of faults, and the number of copies. A fault excuses a ring up to slack after the fault's end.
func (c *cluster) checkEnd(slack time.Duration) (latest, unexcused time.Duration, copies int) {
	c.t.Helper()
	c.checkRings()
	rang := map[string]clock.Instant{}
	for _, r := range c.target.all() {
		if _, again := rang[r.id]; again {
			copies++
		} else {
			rang[r.id] = r.at
		}
	}
	for id := range c.db.rows {
		a := c.db.get(id)
		if _, pending := c.due[id]; !pending {
			if a.State != clock.Cancelled {
				c.t.Fatalf("alarm %d was cancelled and is %s", id, a.State)
			}
			continue
		}
		at, ok := rang[fmt.Sprintf("%d.%d.1", id, a.Generation)]
		if !ok || a.State != clock.Rung {
			c.t.Fatalf("alarm %d of shard %d, generation %d, due %s, is %s, rang %t", id, a.Shard, a.Generation,
				a.RingAt.Sub(c.origin), a.State, ok)
		}
		from := max(a.RingAt, c.setAt[id])
		latest = max(latest, at.Sub(from))
		allowed := from
		for _, f := range c.faults {
			if f.until.Add(slack) >= allowed && f.from <= allowed.Add(slack) {
				allowed = max(allowed, f.until.Add(slack))
			}
		}
		unexcused = max(unexcused, at.Sub(allowed))
	}
	return latest, unexcused, copies
}

// shardCounts returns the number of shards that each node owns.
func (c *cluster) shardCounts() (n []int) {
	for _, p := range c.nodes {
		n = append(n, len(p.keeper.Owned()))
	}
	return n
}

// balanced reports whether every shard has an owner, and the nodes' shard counts differ by at most one.
func (c *cluster) balanced() bool {
	n, sum := c.shardCounts(), 0
	for _, s := range n {
		sum += s
	}
	return sum == modelShards && slices.Max(n)-slices.Min(n) <= 1
}

// wantBalanced checks that the shards are balanced within 2 s.
func (c *cluster) wantBalanced(t *testing.T, what string) {
	t.Helper()
	began := time.Now()
	for !c.balanced() {
		if time.Since(began) > 2*time.Second {
			t.Fatalf("%s: after 2 s the shard counts are %v", what, c.shardCounts())
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%s: shard counts %v after %s", what, c.shardCounts(), time.Since(began))
}

// setMany sets n alarms at random nodes. Their due times are evenly spread over a range that begins after from and ends
// after until.
func (c *cluster) setMany(rnd *rand.Rand, n int, from, until time.Duration) {
	for i := range n {
		delay := from + (until-from)*time.Duration(i)/time.Duration(n)
		c.set(c.nodes[rnd.IntN(len(c.nodes))], []string{"a", "b", "c"}[i%3], fmt.Sprintf("%d at %s", i, c.clock.now()),
			delay)
	}
}

func inClusterBubble(
	t *testing.T, nodes int, test func(t *testing.T, c *cluster, rnd *rand.Rand), more ...func(*cluster),
) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, nodes, more...)
		defer c.stop()
		test(t, c, rand.New(rand.NewPCG(seed, 0)))
	})
}

// Nodes join and leave while alarms ring. The shards are balanced within 2 s, no alarm rings twice, and no ring is
// later than a second.
func TestJoiningAndLeavingNodesDelayNoRing(t *testing.T) {
	inClusterBubble(t, 1, func(t *testing.T, c *cluster, rnd *rand.Rand) {
		c.setMany(rnd, 4000, 0, 40*time.Second)
		time.Sleep(2 * time.Second)
		for n := 2; n <= 4; n++ {
			c.join()
			c.wantBalanced(t, fmt.Sprintf("%d nodes", n))
			time.Sleep(4 * time.Second)
		}
		for n := 3; n >= 1; n-- {
			p := c.nodes[rnd.IntN(len(c.nodes))]
			began := time.Now()
			c.remove(p)
			p.leave()
			t.Logf("%s left within %s", p.name, time.Since(began))
			c.wantBalanced(t, fmt.Sprintf("%d nodes", n))
			time.Sleep(4 * time.Second)
		}
		time.Sleep(20 * time.Second)
		latest, _, copies := c.checkEnd(0)
		t.Logf("latest %s, %d copies", latest, copies)
		if latest > time.Second || copies > 0 {
			t.Errorf("latest %s, %d copies", latest, copies)
		}
	})
}

// After a kill no ring is later than 5 s. Copies come only from lost transactions.
func TestKilledNodeDelaysRingsByFiveSeconds(t *testing.T) {
	inClusterBubble(t, 3, func(t *testing.T, c *cluster, rnd *rand.Rand) {
		time.Sleep(2 * time.Second)
		c.setMany(rnd, 4000, 0, 30*time.Second)
		c.target.slow(100 * time.Millisecond)
		for range 2 {
			time.Sleep(8*time.Second + time.Duration(rnd.Int64N(int64(time.Second))))
			c.kill(c.nodes[rnd.IntN(len(c.nodes))])
		}
		time.Sleep(30 * time.Second)
		latest, unexcused, copies := c.checkEnd(5 * time.Second)
		t.Logf("latest %s, %d copies, shard counts %v", latest, copies, c.shardCounts())
		if unexcused > 100*time.Millisecond || latest > 5*time.Second || !c.balanced() {
			t.Errorf("latest %s, %s beyond the allowed lateness, shard counts %v", latest, unexcused, c.shardCounts())
		}
		if latest < time.Second || copies == 0 {
			t.Errorf("the kills did no harm: latest %s, %d copies", latest, copies)
		}
	})
}

// A node is frozen right after its claims, until its leases have ended, and then goes on. It rings no alarm that has
// rung or was cancelled meanwhile.
func TestThawedNodeRingsNothingStale(t *testing.T) {
	var frozen *clusterNode
	var held []clock.Ring
	freeze := func(c *cluster) {
		c.onClaim = func(p *clusterNode, rings []clock.Ring) {
			c.mu.Lock()
			defer c.mu.Unlock()
			if frozen == nil && rings[0].Application == "cancelled" {
				frozen, held = p, rings
				p.gate.close()
			}
		}
	}
	inClusterBubble(t, 3, func(t *testing.T, c *cluster, rnd *rand.Rand) {
		time.Sleep(2 * time.Second)
		for i := range 60 {
			c.set(c.nodes[0], "cancelled", fmt.Sprint(i), 5*time.Second)
		}
		c.setMany(rnd, 3000, 0, 30*time.Second)
		time.Sleep(5100 * time.Millisecond)
		synctest.Wait()
		thaw := c.freeze(frozen)
		time.Sleep(time.Second)
		var cancels sync.WaitGroup
		for i := range held {
			cancels.Go(func() { c.cancel(c.nodes[0], "cancelled", held[i].BusinessID) }) // waits until the transaction is rolled back
		}
		cancels.Wait()
		time.Sleep(4 * time.Second)
		thaw()
		c.wantBalanced(t, "after the thaw")
		time.Sleep(30 * time.Second)
		latest, unexcused, copies := c.checkEnd(5 * time.Second)
		t.Logf("latest %s, %d copies; of %d alarms claimed by the frozen node %d were cancelled", latest, copies,
			len(held), len(c.ringsAtCancel))
		if unexcused > 200*time.Millisecond || len(c.ringsAtCancel) == 0 {
			t.Errorf("latest %s, %s beyond the allowed lateness, %d cancelled", latest, unexcused, len(c.ringsAtCancel))
		}
	}, freeze)
}

// The owner of the shard rings an alarm on time, whichever node has committed it. If the wake-up is lost, the owner's
// next sweep finds the alarm.
func TestEveryNodesAlarmsRingOnTime(t *testing.T) {
	for _, lossy := range []bool{false, true} {
		t.Run(fmt.Sprintf("lossy %t", lossy), func(t *testing.T) {
			inClusterBubble(t, 3, func(t *testing.T, c *cluster, rnd *rand.Rand) {
				time.Sleep(3 * time.Second)
				c.setLosesWakeUps(lossy)
				for i := range 1000 {
					c.set(c.nodes[rnd.IntN(len(c.nodes))], "a", fmt.Sprint(i),
						time.Duration(rnd.Int64N(int64(2*time.Second))))
					time.Sleep(7 * time.Millisecond)
				}
				time.Sleep(5 * time.Second)
				latest, _, copies := c.checkEnd(0)
				t.Logf("latest %s, %d copies", latest, copies)
				limit := 10 * time.Millisecond
				if lossy {
					limit = 1100 * time.Millisecond
				}
				if latest > limit || lossy && latest < 100*time.Millisecond || copies > 0 {
					t.Errorf("latest %s, %d copies", latest, copies)
				}
			})
		})
	}
}

// The database is down for longer than leases last. Afterwards each node owns the same shards as before, and every
// alarm rings once.
func TestOutageKeepsShardsAndRings(t *testing.T) {
	inClusterBubble(t, 4, func(t *testing.T, c *cluster, rnd *rand.Rand) {
		time.Sleep(2 * time.Second)
		c.setMany(rnd, 2000, 0, 30*time.Second)
		time.Sleep(5 * time.Second)
		before := c.shardCounts()
		c.db.setDown(true)
		c.addFault(8 * time.Second)
		time.Sleep(8 * time.Second)
		c.db.setDown(false)
		time.Sleep(30 * time.Second)
		latest, unexcused, copies := c.checkEnd(5 * time.Second)
		t.Logf("latest %s, %d copies, shard counts %v, then %v", latest, copies, before, c.shardCounts())
		if unexcused > 100*time.Millisecond || !slices.Equal(before, c.shardCounts()) {
			t.Errorf("latest %s, %s beyond the allowed lateness; shard counts %v, then %v", latest, unexcused, before,
				c.shardCounts())
		}
	})
}

// chaos does random things to a cluster.
type chaos struct {
	*cluster
	rnd   *rand.Rand
	thaws []func() // one per frozen node
	down  bool
}

func (h *chaos) randomNode() *clusterNode { return h.nodes[h.rnd.IntN(len(h.nodes))] }

// step does one thing, most often a set or a cancel.
func (h *chaos) step() {
	id := fmt.Sprint(h.rnd.IntN(200))
	application := []string{"a", "b", "c"}[h.rnd.IntN(3)]
	switch n := h.rnd.IntN(1000); {
	case n < 600 && !h.down:
		delay := []int{0, 1, 30, 1000, 4000, 20_000, 31_000}[h.rnd.IntN(7)] + h.rnd.IntN(50)
		h.set(h.randomNode(), application, id, time.Duration(delay)*time.Millisecond)
	case n < 750 && !h.down:
		h.cancel(h.randomNode(), application, id)
	case n < 960:
		time.Sleep(time.Duration(h.rnd.IntN(100)) * time.Millisecond)
	case n < 970:
		time.Sleep(time.Duration(h.rnd.IntN(4000)) * time.Millisecond)
	case n < 976 && len(h.nodes) < 4:
		h.join()
	case n < 982 && len(h.nodes) > 1:
		p := h.randomNode()
		h.remove(p)
		p.leave()
	case n < 986 && len(h.nodes) > 1:
		h.kill(h.randomNode())
	case n < 990 && len(h.nodes) > 1:
		h.thaws = append(h.thaws, h.freeze(h.randomNode()))
	case n < 995 && len(h.thaws) > 0:
		h.thaws[0]()
		h.thaws = h.thaws[1:]
	case n < 997:
		h.setLosesWakeUps(!h.losesWakeUps)
	case n < 999:
		h.setDatabaseDown(!h.down)
	}
}

// setDatabaseDown takes the database down, or brings it up again.
func (h *chaos) setDatabaseDown(down bool) {
	if down == h.down {
		return
	}
	if h.down = down; down {
		h.faults = append(h.faults, fault{h.clock.now(), clock.MaxInstant})
	} else {
		h.faults[slices.IndexFunc(h.faults,
			func(f fault) bool { return f.until == clock.MaxInstant })].until = h.clock.now()
	}
	h.db.setDown(down)
}

// Nodes, wake-ups and the database fail at random, while applications set and cancel alarms at any node. No alarm is
// lost, rings early, or rings after its cancel. Copies come only from lost transactions. Delayed alarms ring within 7 s
// of the fault's end, because a loader waits for up to 5 s after a failure.
func TestClusterHistory(t *testing.T) {
	seed := rand.Uint64()
	latest, copies := time.Duration(0), 0
	for i := range 15 {
		t.Run(fmt.Sprintf("seed %d,%d", seed, i), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rnd := rand.New(rand.NewPCG(seed, uint64(i)))
				h := &chaos{cluster: newCluster(t, 1+rnd.IntN(3)), rnd: rnd}
				defer h.stop()
				h.target.slow(time.Duration(1+rnd.IntN(60)) * time.Millisecond)
				for range 1200 {
					h.step()
				}
				h.checkRings()
				h.setDatabaseDown(false)
				for _, thaw := range h.thaws {
					thaw()
				}
				time.Sleep(time.Minute)
				late, unexcused, more := h.checkEnd(7 * time.Second)
				latest, copies = max(latest, late), copies+more
				if unexcused > 1200*time.Millisecond { // the time of a sweep, because wake-ups may be lost
					t.Errorf("latest %s, %s beyond the allowed lateness", late, unexcused)
				}
				if !h.balanced() {
					t.Errorf("shard counts %v", h.shardCounts())
				}
			})
		})
	}
	t.Logf("latest %s, %d copies", latest, copies)
}
