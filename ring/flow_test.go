package ring_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/pull"
	"github.com/clockd/clockd/ring/stream"
	"github.com/clockd/clockd/ring/webhook"
)

// tester holds the methods that *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// node is a preloader, a heap and a loop over a model database and a model target.
type node struct {
	t            tester
	db           *modelDB
	target       *modelTarget
	second       *modelTarget    // target of the second route; nil: all applications ring by the only route
	streams      *stream.Target  // target of nodeConfig.subscribers
	pulls        *pull.Target    // target of nodeConfig.pull
	hooks        *webhook.Target // target of nodeConfig.webhooks
	owner        *modelOwner
	clock        modelClock
	heap         *ring.Heap
	preloader    *preload.Preloader
	loop         *ring.Loop
	stop         func() // stops the node and waits for it
	losesWakeUps bool   // write sends no wake-ups
	origin       clock.Instant
	allRoutes    []*ring.Route // as given to the loop
	router       ring.Router
	cfg          nodeConfig
}

type nodeConfig struct {
	ring          ring.Config
	preload       preload.Config
	capacity      int
	shards        []int
	twoPhase      bool                          // claims of the first route are two-phase
	subscribers   bool                          // the only route leads to node.streams
	pull          bool                          // the only route leads to node.pulls
	webhooks      func() *webhook.Target        // makes the target of the only route; nil: another target
	second        func(application string) bool // reports whether the application rings by the second route, two-phase unless secondHolds; nil: one route
	secondAbility string                        // ability of the second route
	secondHolds   bool                          // claims of the second route are held
	hasNoRoute    func(application string) bool // reports whether the router returns nil for the application; nil: for none
	targetDown    bool                          // the target is not usable at the start
	keepsRoutes   bool                          // build does not replace the routes and the second target
	startLater    bool                          // newNode does not start the node
	hold          func() bool                   // see ring.Deps.Hold
}

func defaultNode() nodeConfig {
	c := nodeConfig{ring: ring.DefaultConfig(), preload: preload.DefaultConfig(), capacity: 10_000}
	for i := range modelShards {
		c.shards = append(c.shards, i)
	}
	return c
}

func newNode(t tester, cfg nodeConfig) *node {
	t.Helper()
	mc := modelClock{offset: 26*365*24*time.Hour + 123*time.Millisecond}
	n := &node{
		t: t, db: newModelDB(mc), target: newModelTarget(mc), clock: mc,
		owner: &modelOwner{shards: cfg.shards, changed: make(chan struct{})}, origin: mc.now(), stop: func() {},
		streams: stream.New(), pulls: pull.New(func() {}),
	}
	if cfg.targetDown {
		n.target.down = errDown
	}
	n.build(cfg)
	if !cfg.startLater {
		n.start()
	}
	return n
}

func (n *node) build(cfg nodeConfig) {
	n.t.Helper()
	var err error
	n.heap = ring.NewHeap(cfg.preload.Loaders, cfg.capacity)
	reg, log := prometheus.NewRegistry(), slog.New(slog.DiscardHandler)
	n.preloader, err = preload.New(cfg.preload, preload.Deps{
		Loader: n.db, Heap: n.heap, Time: n.clock, Ownership: n.owner, Log: log, Registerer: reg,
	})
	if err != nil {
		n.t.Fatalf("preload: %v", err)
	}
	deps := ring.Deps{Heap: n.heap, Database: n.db, Time: n.clock, Feeder: n.preloader, Hold: cfg.hold, Log: log,
		Registerer: reg}
	if !cfg.keepsRoutes || n.allRoutes == nil {
		n.allRoutes, n.router = n.routes(cfg)
	}
	n.cfg, deps.Routes, deps.Router = cfg, n.allRoutes, n.router
	n.loop, err = ring.New(cfg.ring, deps)
	if err != nil {
		n.t.Fatalf("ring: %v", err)
	}
}

// start runs the node until stop. Like a process, stop waits for the preloader first.
func (n *node) start() {
	readCtx, stopReading := context.WithCancel(context.Background())
	ringCtx, stopRinging := context.WithCancel(context.Background())
	var reading, ringing sync.WaitGroup
	reading.Go(func() { _ = n.preloader.Run(readCtx) })
	ringing.Go(func() { _ = n.loop.Run(ringCtx) })
	n.stop = sync.OnceFunc(func() {
		stopReading()
		reading.Wait()
		stopRinging()
		ringing.Wait()
	})
}

// set sets an alarm that is due that long after the origin, and wakes the preloader. It returns the alarm's id.
func (n *node) set(application, id string, due time.Duration, more ...func(*clock.Set)) int64 {
	n.t.Helper()
	s := &clock.Set{
		Key: clock.Key{Application: application, BusinessID: id},
		Content: clock.Content{RingAt: n.origin.Add(due), LatestRingAt: clock.NoInstant,
			Retry: clock.DefaultRetryPolicy(), MaxRings: 10},
	}
	for _, m := range more {
		m(s)
	}
	d := n.write(clock.Op{Set: s})
	return d.Alarm.ID
}

func (n *node) write(op clock.Op) clock.Decision {
	d := n.db.write(op)
	if !n.losesWakeUps {
		n.preloader.Committed([]clock.Decision{d})
	}
	return d
}

func (n *node) cancel(application, id string) clock.Decision {
	return n.write(clock.Op{Cancel: &clock.Cancel{Key: clock.Key{Application: application, BusinessID: id}}})
}

func latestRingAfter(after time.Duration) func(*clock.Set) {
	return func(s *clock.Set) { s.LatestRingAt = s.RingAt.Add(after) }
}

func payload(size int) func(*clock.Set) {
	return func(s *clock.Set) { s.Payload, s.PayloadKind = make([]byte, size), clock.Binary }
}

// setMany sets count alarms of an application, all due at one instant.
func (n *node) setMany(application string, count int, due time.Duration, more ...func(*clock.Set)) (ids []int64) {
	for i := range count {
		ids = append(ids, n.set(application, fmt.Sprint(i), due, more...))
	}
	return ids
}

// states counts an application's alarms by state.
func (n *node) states(application string) map[clock.State]int {
	n.db.mu.Lock()
	defer n.db.mu.Unlock()
	states := map[clock.State]int{}
	for _, r := range n.db.rows {
		if r.Application == application {
			states[r.State]++
		}
	}
	return states
}

// wantRungOnce checks that each alarm has rung exactly once, not early, and at most late after its due time.
func (n *node) wantRungOnce(ids []int64, late time.Duration) {
	n.t.Helper()
	copies := map[int64][]rung{}
	for _, r := range n.rungs() {
		copies[r.alarm] = append(copies[r.alarm], r)
	}
	for _, id := range ids {
		a := n.db.get(id)
		if len(copies[id]) != 1 || a.State != clock.Rung {
			n.t.Fatalf("alarm %d (%s, due %s) is %s and was rung %d times", id, a.Key, a.RingAt.Sub(n.origin), a.State,
				len(copies[id]))
		}
		if by := copies[id][0].at.Sub(a.RingAt); by < 0 || by > late {
			n.t.Fatalf("alarm %d (%s, due %s) rang %s late", id, a.Key, a.RingAt.Sub(n.origin), by)
		}
	}
}

func (n *node) wantStates(application string, want map[clock.State]int) {
	n.t.Helper()
	got := n.states(application)
	if fmt.Sprint(got) != fmt.Sprint(want) {
		n.t.Fatalf("%s has %v, want %v", application, got, want)
	}
}

// route returns the state of the node's route.
func (n *node) route() ring.RouteState { return n.loop.Routes()[0] }

// quarantined returns the number of applications in quarantine.
func (n *node) quarantined() int {
	_, all := n.loop.Quarantined()
	return all
}

// inBubble runs a test of a node in a bubble. At the end it stops the node and waits for its goroutines.
func inBubble(t *testing.T, cfg nodeConfig, test func(t *testing.T, n *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, cfg)
		defer n.stop()
		test(t, n)
		n.stop()
		for _, target := range n.targets() {
			if target.lanes != target.closed {
				t.Errorf("%d lanes, %d closed", target.lanes, target.closed)
			}
		}
		for _, r := range n.db.rows {
			if r.claim != "" {
				t.Errorf("alarm %d is still claimed after the stop", r.ID)
			}
		}
	})
}

func TestRingsOnTime(t *testing.T) {
	inBubble(t, defaultNode(), func(_ *testing.T, n *node) {
		ids := []int64{
			n.set("a", "now", 0),
			n.set("a", "inside the window", 7*time.Second+7*time.Millisecond),
			n.set("b", "at the end of the window", 30*time.Second),
			n.set("a", "beyond it", 75*time.Second+1*time.Millisecond),
			n.set("b", "far beyond it", time.Hour),
			n.set("a", "beside it", time.Hour),
			n.set("a", "a millisecond later", time.Hour+time.Millisecond),
		}
		time.Sleep(20 * time.Second)
		past := n.set("a", "in the past", 5*time.Second)
		time.Sleep(time.Hour)
		n.wantRungOnce(ids, 0)
		n.wantRungOnce([]int64{past}, 15*time.Second)
	})
}

// The alarms were set before the node started.
func TestRingsOnTimeAfterStart(t *testing.T) {
	cfg := defaultNode()
	cfg.startLater = true
	inBubble(t, cfg, func(_ *testing.T, n *node) {
		ids := []int64{n.set("a", "past", 0), n.set("a", "soon", 12*time.Second), n.set("a", "later", 100*time.Second)}
		time.Sleep(10 * time.Second)
		n.start()
		time.Sleep(2 * time.Minute)
		n.wantRungOnce(ids[:1], 10*time.Second)
		n.wantRungOnce(ids[1:], 0)
	})
}

func TestMovedAlarmsRingAtNewTimeAndCancelledOnesNever(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		earlier := n.set("a", "earlier", 20*time.Second)
		later := n.set("a", "later", 5*time.Second)
		beyond := n.set("a", "beyond", 6*time.Second)
		back := n.set("a", "back", 10*time.Minute)
		gone := n.set("a", "gone", 8*time.Second)
		time.Sleep(2 * time.Second)
		n.set("a", "earlier", 3*time.Second)
		n.set("a", "later", 15*time.Second)
		n.set("a", "beyond", 5*time.Minute)
		n.set("a", "back", 4*time.Second)
		if d := n.cancel("a", "gone"); d.Verdict != clock.Disarm {
			t.Fatalf("cancel: %v, %v", d.Verdict, d.Err)
		}
		time.Sleep(time.Hour)
		n.wantRungOnce([]int64{earlier, later, beyond, back}, 0)
		if a := n.db.get(gone); a.State != clock.Cancelled || len(n.target.all()) != 4 {
			t.Errorf("the cancelled alarm is %s; %d rings", a.State, len(n.target.all()))
		}
		if n.db.count(&n.db.claimsDone) != 4 {
			t.Errorf("%d claims for four rings", n.db.count(&n.db.claimsDone))
		}
	})
}

// A set is committed after a failed try and before the loop learns of the failure. The alarm rings at the set's time.
func TestSetAfterFailedTryWinsOverRetry(t *testing.T) {
	inBubble(t, defaultNode(), func(_ *testing.T, n *node) {
		n.target.respond("a", clock.Nacked)
		n.db.onSettled = sync.OnceFunc(func() {
			n.set("a", "moved", 1300*time.Millisecond)
			n.target.respond("a", clock.Confirmed)
		})
		id := n.set("a", "moved", time.Second)
		time.Sleep(1400 * time.Millisecond)
		if a := n.db.get(id); a.State != clock.Rung || a.RungAt.Sub(n.origin) > 1340*time.Millisecond { // a suspect application waits for its round
			n.t.Fatalf("%s at %s", a.State, a.RungAt.Sub(n.origin))
		}
	})
}

// Without due alarms there are no claims, and only sweeps and the loaders' pages read.
func TestNoClaimsWithoutDueAlarms(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.setMany("a", 100, time.Hour)
		time.Sleep(10 * time.Minute)
		if n.db.count(&n.db.claimsDone) != 0 {
			t.Errorf("%d claims", n.db.count(&n.db.claimsDone))
		}
		if limit := 600 * 4 * 2; n.db.count(&n.db.dueCalls) > limit {
			t.Errorf("%d reads in ten minutes, want at most %d", n.db.count(&n.db.dueCalls), limit)
		}
	})
}

func TestUnroutableApplicationIsHeldBehindProbe(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.respond("lost", clock.Returned)
		unroutable := n.setMany("lost", 3000, time.Second)
		var healthy []int64
		for i := range 600 {
			healthy = append(healthy, n.set("healthy", fmt.Sprint(i), time.Duration(i)*100*time.Millisecond))
		}
		time.Sleep(20 * time.Second)
		if u, _ := n.loop.Quarantined(); len(u) != 1 || u[0].Application != "lost" || u[0].Health != "held" {
			t.Fatalf("quarantined: %+v", u)
		}
		before := n.db.claimed("lost")
		time.Sleep(20 * time.Second)
		if probes := n.db.claimed("lost") - before; probes < 19 || probes > 21 {
			t.Errorf("%d rings of the held application claimed in 20 s, want one a second", probes)
		}
		untried := 0
		for _, id := range unroutable {
			if a := n.db.get(id); a.RetryTimes == 0 {
				untried++
			}
		}
		if untried < 1500 {
			t.Errorf("only %d of 3000 were not tried", untried)
		}
		n.target.respond("lost", clock.Confirmed)
		waited := 0
		for ; n.quarantined() > 0; waited++ {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Millisecond)
		if rungs := n.states("lost")[clock.Rung]; rungs < untried || waited > 1100 {
			t.Errorf("%d rang at once after the probe, %d ms after the queue came, want the %d untried", rungs, waited,
				untried)
		}
		time.Sleep(40 * time.Second)
		n.wantStates("lost", map[clock.State]int{clock.Rung: 3000})
		n.wantRungOnce(healthy, 0)
		if u, _ := n.loop.Quarantined(); len(u) != 0 {
			t.Errorf("quarantined: %+v", u)
		}
	})
}

func TestUnusableTargetStopsClaimsNotExpiry(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		ids := n.setMany("a", 500, 5*time.Second)
		dying := n.set("a", "dying", 6*time.Second, latestRingAfter(4*time.Second))
		n.target.setDown(errDown)
		time.Sleep(time.Minute)
		if n.db.count(&n.db.claimsDone) != 0 {
			t.Fatalf("%d claims while the target was down", n.db.count(&n.db.claimsDone))
		}
		if a := n.db.get(dying); a.State != clock.Expired || a.FinishedAt.Sub(n.origin) > 13*time.Second {
			t.Errorf("latest_ring_at passed while the target was down: %s at %s", a.State, a.FinishedAt.Sub(n.origin))
		}
		n.target.setDown(nil)
		time.Sleep(time.Millisecond)
		n.wantRungOnce(ids, 55*time.Second)
		for _, id := range ids {
			if a := n.db.get(id); a.RetryTimes != 0 {
				t.Fatalf("a try was counted: %+v", a)
			}
		}
	})
}

// Lanes open when the target comes up. They do not wait for the first due alarm.
func TestLanesOpenWhenTargetComesUp(t *testing.T) {
	cfg := defaultNode()
	cfg.targetDown = true
	inBubble(t, cfg, func(t *testing.T, n *node) {
		opened := func() int {
			synctest.Wait()
			n.target.mu.Lock()
			defer n.target.mu.Unlock()
			return n.target.openCalls
		}
		if got := opened(); got != 0 {
			t.Errorf("%d lanes were opened while the target was down", got)
		}
		n.target.setDown(nil)
		if got := opened(); got != ring.DefaultConfig().Workers+ring.QuarantineWorkers {
			t.Errorf("%d lanes were opened", got)
		}
	})
}

func TestClaimEndsExpiredAlarms(t *testing.T) {
	cfg := defaultNode()
	cfg.startLater = true
	inBubble(t, cfg, func(t *testing.T, n *node) {
		late := n.set("a", "late", time.Second, latestRingAfter(time.Second))
		fine := n.set("a", "fine", time.Second, latestRingAfter(time.Minute))
		time.Sleep(10 * time.Second)
		n.start()
		time.Sleep(time.Second)
		if a := n.db.get(late); a.State != clock.Expired {
			t.Errorf("%s", a.State)
		}
		n.wantRungOnce([]int64{fine}, 9*time.Second)
	})
}

func TestRingsAfterDatabaseOutage(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		ids := n.setMany("a", 300, 5*time.Second)
		far := n.setMany("b", 300, 2*time.Minute)
		n.db.slow(time.Millisecond)
		time.Sleep(time.Second)
		n.db.setDown(true)
		calls := n.db.count(&n.db.dueCalls)
		time.Sleep(time.Minute)
		if n.db.count(&n.db.dueCalls) == calls || n.db.count(&n.db.dueCalls)-calls > 1000 {
			t.Errorf("%d reads while the database was down for a minute", n.db.count(&n.db.dueCalls)-calls)
		}
		if tries := n.db.count(&n.db.claimCalls); tries < 20 || tries > 200 {
			t.Errorf("%d claims tried while the database was down for a minute", tries)
		}
		n.db.setDown(false)
		time.Sleep(6 * time.Second)
		n.wantRungOnce(ids, 62*time.Second)
		time.Sleep(2 * time.Minute)
		n.wantRungOnce(far, 3*time.Millisecond)
	})
}

// A database that is too slow for full batches gets smaller rounds of the quarantine, too. A quarantined application
// that recovers rings then, although no claim of a full round would succeed.
func TestSlowDatabaseGetsSmallerRounds(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.respond("a", clock.Nacked)
		n.setMany("a", 1000, time.Second, func(s *clock.Set) {
			s.Retry = clock.RetryPolicy{Initial: time.Second, Factor: 1, Cap: time.Second, Limit: clock.NoLimit}
		})
		time.Sleep(5 * time.Second)
		n.db.slowPerRow(5 * time.Millisecond) // 300 rows take longer than Config.WriteTimeout
		n.target.respond("a", clock.Confirmed)
		time.Sleep(2 * time.Minute)
		if states := n.states("a"); states[clock.Rung] != 1000 {
			t.Errorf("states after two minutes: %v", states)
		}
	})
}

// A database that is too slow for full batches gets smaller ones. It gets full ones again when it is fast.
func TestSlowDatabaseGetsSmallerBatches(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.db.slowPerRow(5 * time.Millisecond) // 300 rows take longer than Config.WriteTimeout
		slow := n.setMany("a", 2000, 5*time.Second)
		time.Sleep(time.Minute)
		n.wantRungOnce(slow, 50*time.Second)
		n.db.slowPerRow(0)
		fast := n.setMany("b", 3000, 70*time.Second)
		time.Sleep(15 * time.Second)
		n.wantRungOnce(fast, 10*time.Millisecond)
		before := n.db.count(&n.db.claimsDone)
		n.setMany("c", 3000, 80*time.Second)
		time.Sleep(15 * time.Second)
		if batches := n.db.count(&n.db.claimsDone) - before; batches > 15 {
			t.Errorf("3000 rings took %d batches", batches)
		}
	})
}

// A broker that is too slow to confirm full batches gets smaller ones, before it publishes many rings again. It gets
// full ones again when it is fast.
func TestSlowBrokerGetsSmallerBatches(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.update(func() { n.target.perRing = 12 * time.Millisecond }) // 300 confirms take longer than Config.ReplyTimeout
		const applications, each = 20, 300
		for a := range applications {
			n.setMany(fmt.Sprint("slow-", a), each, time.Second)
		}
		time.Sleep(2 * time.Minute)
		for a := range applications {
			n.wantStates(fmt.Sprint("slow-", a), map[clock.State]int{clock.Rung: each})
		}
		first := ring.DefaultConfig().Workers * ring.DefaultConfig().BatchRows // the batches that the loop handed out before it knew
		if copies := len(n.rungs()) - applications*each; copies > first {
			t.Errorf("%d rings were published again; the first batches had %d rings", copies, first)
		}
		n.target.update(func() { n.target.perRing = 0 })
		n.setMany("fast", 9000, 2*time.Minute+time.Second)
		time.Sleep(2 * time.Second)
		before := n.db.count(&n.db.claimsDone)
		n.setMany("full", 3000, 2*time.Minute+5*time.Second)
		time.Sleep(5 * time.Second)
		if batches := n.db.count(&n.db.claimsDone) - before; batches > 15 {
			t.Errorf("3000 rings took %d batches", batches)
		}
	})
}

func TestHalvingFindsRefusedMessage(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.update(func() { n.target.refused["137"] = true })
		ids := n.setMany("a", 300, time.Second, func(s *clock.Set) { s.Retry.Limit = 0 })
		n.setMany("b", 50, time.Second)
		time.Sleep(1900 * time.Millisecond) // halves do not wait for a sweep
		n.wantStates("a", map[clock.State]int{clock.Rung: 299, clock.Dead: 1})
		n.wantStates("b", map[clock.State]int{clock.Rung: 50})
		if a := n.db.get(ids[137]); a.State != clock.Dead || a.LastError == "" {
			t.Errorf("the refused alarm: %+v", a)
		}
		wantOneMessageIDPerAlarm(t, n.target.all())
		n.set("a", "after", 0)
		n.set("b", "after", 0)
		time.Sleep(time.Second)
		if u, _ := n.loop.Quarantined(); len(u) != 0 {
			t.Errorf("quarantined: %+v", u)
		}
	})
}

// wantOneMessageIDPerAlarm checks that all copies of an alarm's ring have one message id.
func wantOneMessageIDPerAlarm(t *testing.T, rungs []rung) {
	t.Helper()
	ids := map[int64]string{}
	for _, r := range rungs {
		if before, ok := ids[r.alarm]; ok && before != r.id {
			t.Errorf("alarm %d rang as %s and %s", r.alarm, before, r.id)
		}
		ids[r.alarm] = r.id
	}
}

// The target refuses one message of a batch and confirms the others. The refused try is counted at once.
func TestOnlyRefusedMessageCountsAtOnce(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.update(func() { n.target.refused["9"] = true }) // the last ring of its batch
		ids := n.setMany("a", 10, time.Second, func(s *clock.Set) { s.Retry.Limit = 0 })
		time.Sleep(2 * time.Second)
		n.wantStates("a", map[clock.State]int{clock.Rung: 9, clock.Dead: 1})
		n.wantRungOnce(ids[:9], 0)
	})
}

func TestRingInDoubtIsRepeatedUncounted(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.respond("a", clock.Doubtful)
		ids := n.setMany("a", 20, time.Second)
		for i := range 3 { // more applications than workers
			n.target.respond(fmt.Sprint("silent", i), clock.Doubtful)
			n.setMany(fmt.Sprint("silent", i), 20, time.Second)
		}
		others := n.setMany("b", 20, 10*time.Second)
		time.Sleep(9 * time.Second)
		if a := n.db.get(ids[0]); !a.InDoubt || a.RetryTimes != 0 || a.State != clock.Scheduled {
			t.Errorf("in doubt: %+v", a)
		}
		n.target.respond("a", clock.Confirmed)
		time.Sleep(10 * time.Second)
		wantOneMessageIDPerAlarm(t, n.target.all())
		n.wantStates("a", map[clock.State]int{clock.Rung: 20})
		n.wantRungOnce(others, 0)
		if copies := len(n.target.ofApplication("a")); copies < 30 || copies > 200 {
			t.Errorf("%d copies of 20 rings in 8 s of doubt", copies)
		}
	})
}

func TestNackedTriesCountUpToLimit(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.respond("a", clock.Nacked)
		retry := clock.RetryPolicy{Initial: 100 * time.Millisecond, Factor: 1, Cap: 100 * time.Millisecond, Limit: 3}
		ids := n.setMany("a", 50, time.Second, func(s *clock.Set) { s.Retry = retry })
		time.Sleep(4 * time.Second) // rounds become rarer while no ring is confirmed
		n.wantStates("a", map[clock.State]int{clock.Dead: 50})
		for _, id := range ids {
			if a := n.db.get(id); a.RetryTimes != 4 {
				t.Fatalf("%d tries, want 4", a.RetryTimes)
			}
		}
	})
}

// A receiver takes no rings. That delays no other application, and counts no try of its own alarms.
func TestUntakenRingsDelayNoOthersAndCountNoTry(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.respond("a", clock.Untaken)
		ids := n.setMany("a", 50, time.Second)
		n.set("b", "in the same batch", time.Second)
		var others []int64
		for i := range 500 {
			others = append(others, n.set("b", fmt.Sprint(i), 2*time.Second+time.Duration(i)*50*time.Millisecond))
		}
		time.Sleep(40 * time.Second)
		n.wantRungOnce(others, 0)
		n.target.respond("a", clock.Confirmed)
		time.Sleep(2 * time.Second)
		n.wantRungOnce(ids, 42*time.Second)
		if a := n.db.get(ids[0]); a.RetryTimes != 0 || a.InDoubt {
			t.Errorf("%+v", a)
		}
	})
}

// Every batch of the application has failures. Its other alarms still ring, and its backlog is read again page by page.
func TestSuspectApplicationRingsItsBacklog(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		fixed := func(s *clock.Set) {
			s.Retry = clock.RetryPolicy{Initial: time.Second, Factor: 1, Cap: time.Second, Limit: clock.NoLimit}
		}
		n.setMany("a", 4000, time.Second, fixed)
		n.target.update(func() {
			for i := 0; i < 4000; i += 10 {
				n.target.nacked[fmt.Sprint(i)] = true
			}
		})
		time.Sleep(1900 * time.Millisecond) // shorter than a sweep's interval: the backlog does not wait for a sweep
		n.wantStates("a", map[clock.State]int{clock.Scheduled: 400, clock.Rung: 3600})
		if u, _ := n.loop.Quarantined(); len(u) != 1 || u[0].Health != "suspect" {
			t.Errorf("quarantined: %+v", u)
		}
		n.target.update(func() { clear(n.target.nacked) })
		time.Sleep(3 * time.Second)
		n.wantStates("a", map[clock.State]int{clock.Rung: 4000})
	})
}

// The alarms of an application that the target does not accept are neither claimed nor lost.
func TestAbsentApplicationIsNotClaimed(t *testing.T) {
	for _, suspect := range []bool{false, true} {
		t.Run(fmt.Sprint("suspect=", suspect), func(t *testing.T) {
			inBubble(t, defaultNode(), func(t *testing.T, n *node) {
				if suspect { // the application is suspect before it is absent
					n.target.respond("a", clock.Nacked)
				}
				first := n.set("a", "first", time.Second)
				time.Sleep(1100 * time.Millisecond)
				n.target.update(func() { n.target.absent["a"] = true })
				n.target.respond("a", clock.Confirmed)
				ids := n.setMany("a", 3000, 2*time.Second)
				b := n.set("b", "b", 3*time.Second)
				claims := n.db.claimed("a")
				time.Sleep(time.Minute)
				if n.db.claimed("a") != claims {
					t.Errorf("%d claims while the application was absent", n.db.claimed("a")-claims)
				}
				if u, _ := n.loop.Quarantined(); len(u) != 1 || u[0].Health != "absent" {
					t.Errorf("quarantined: %+v", u)
				}
				n.target.update(func() { n.target.absent["a"] = false })
				time.Sleep(10 * time.Millisecond)
				n.wantRungOnce(ids, time.Minute)
				n.wantRungOnce([]int64{b}, 0)
				if a := n.db.get(first); a.State != clock.Rung {
					t.Errorf("the first alarm is %s", a.State)
				}
			})
		})
	}
}

// The alarms do not wait for a sweep.
func TestAlarmsDueDuringShortAbsenceRingAtOnce(t *testing.T) {
	inBubble(t, defaultNode(), func(_ *testing.T, n *node) {
		n.target.update(func() { n.target.absent["a"] = true })
		ids := n.setMany("a", 100, 2100*time.Millisecond)
		time.Sleep(2200 * time.Millisecond)
		n.target.update(func() { n.target.absent["a"] = false })
		time.Sleep(10 * time.Millisecond)
		n.wantRungOnce(ids, 110*time.Millisecond)
	})
}

// The backlog is far larger than the heap.
func TestSmallHeapRingsBacklogWithoutSweep(t *testing.T) {
	for _, applications := range []int{1, 3, 1000} {
		t.Run(fmt.Sprint(applications), func(t *testing.T) {
			cfg := defaultNode()
			cfg.capacity, cfg.startLater, cfg.preload.Page = 64, true, 64
			inBubble(t, cfg, func(t *testing.T, n *node) {
				var ids []int64
				for i := range 5000 {
					ids = append(ids,
						n.set(fmt.Sprint("app", i%applications), fmt.Sprint(i), time.Duration(i%100)*time.Millisecond))
				}
				time.Sleep(time.Second)
				n.start()
				time.Sleep(900 * time.Millisecond)
				n.wantRungOnce(ids, 2*time.Second)
				if reads := n.db.count(&n.db.dueCalls); reads > 3000 {
					t.Errorf("%d reads", reads)
				}
			})
		})
	}
}

// A flood of one application rings through a far smaller heap. Meanwhile the alarms of other applications ring almost
// on time.
func TestFloodDelaysNoOtherApplication(t *testing.T) {
	cfg := defaultNode()
	cfg.capacity, cfg.ring.BatchRows = 400, 50
	inBubble(t, cfg, func(t *testing.T, n *node) {
		n.target.slow(20 * time.Millisecond)
		n.db.slow(2 * time.Millisecond)
		flood := n.setMany("flood", 5000, 5*time.Second)
		var others []int64
		for i := range 300 {
			others = append(others, n.set("other", fmt.Sprint(i), time.Duration(i)*100*time.Millisecond))
		}
		time.Sleep(5 * time.Second)
		for i := range 30 { // set while the flood rings
			others = append(others, n.set("third", fmt.Sprint(i), 5*time.Second+time.Duration(i)*100*time.Millisecond))
		}
		time.Sleep(time.Minute)
		n.wantRungOnce(others, 100*time.Millisecond)
		n.wantRungOnce(flood, 10*time.Second)
	})
}

func priority(n int) func(*clock.Set) { return func(s *clock.Set) { s.Priority = n } }

// All loaded alarms that are due at one instant ring by priority, whichever loader read them. With one loader this also
// holds for a backlog that is far larger than the heap.
func TestAlarmsDueAtOneInstantRingByPriority(t *testing.T) {
	cfg := defaultNode()
	cfg.startLater, cfg.ring.Workers, cfg.ring.BatchRows = true, 1, 7
	t.Run("all loaders", func(t *testing.T) { testPriorities(t, cfg, 3*time.Second) })
	cfg.capacity, cfg.preload.Page, cfg.preload.Loaders = 64, 64, 1
	t.Run("small heap", func(t *testing.T) { testPriorities(t, cfg, 0) })
}

func testPriorities(t *testing.T, cfg nodeConfig, due time.Duration) {
	t.Helper()
	inBubble(t, cfg, func(t *testing.T, n *node) {
		for i := range 1000 {
			n.set("app", fmt.Sprint(i), due, priority(i*7%10))
		}
		time.Sleep(time.Second)
		n.start()
		time.Sleep(10 * time.Second)
		rungs := n.target.all()
		if len(rungs) != 1000 {
			t.Fatalf("%d of 1000 alarms rang", len(rungs))
		}
		for i, r := range rungs {
			if want := 9 - i/100; n.db.get(r.alarm).Priority != want {
				t.Fatalf("ring %d is of priority %d, not %d", i, n.db.get(r.alarm).Priority, want)
			}
		}
	})
}

func TestSweepFindsAlarmOfLostWakeUp(t *testing.T) {
	inBubble(t, defaultNode(), func(_ *testing.T, n *node) {
		time.Sleep(time.Second)
		n.losesWakeUps = true
		ids := []int64{n.set("a", "soon", 3*time.Second+500*time.Millisecond), n.set("a", "past", 0)}
		time.Sleep(10 * time.Second)
		n.wantRungOnce(ids[:1], time.Second)
		n.wantRungOnce(ids[1:], 2*time.Second)
	})
}

// The backlog of an absent application does not hide the alarm of a lost wake-up from the sweep.
func TestSweepFindsAlarmBehindBacklogOfAbsentApplication(t *testing.T) {
	cfg := defaultNode()
	cfg.preload.Page = 64
	inBubble(t, cfg, func(_ *testing.T, n *node) {
		n.target.update(func() { n.target.absent["away"] = true })
		n.setMany("away", 4000, time.Second)
		time.Sleep(10 * time.Second)
		n.losesWakeUps = true
		id := n.set("a", "soon", 15*time.Second+500*time.Millisecond)
		time.Sleep(10 * time.Second)
		n.wantRungOnce([]int64{id}, time.Second)
	})
}

func TestLockedRowRingsSoonAfterUnlock(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		short, long := n.set("a", "short", time.Second), n.set("a", "long", time.Second)
		n.db.setLocked(short, true)
		n.db.setLocked(long, true)
		time.Sleep(1010 * time.Millisecond)
		n.db.setLocked(short, false)
		time.Sleep(2 * time.Second)
		n.wantRungOnce([]int64{short}, 20*time.Millisecond)
		n.db.setLocked(long, false)
		time.Sleep(time.Second)
		n.wantRungOnce([]int64{long}, 3100*time.Millisecond)
		if n.db.count(&n.db.claimsDone) > 20 {
			t.Errorf("%d claims for a row that was locked for 2 s", n.db.count(&n.db.claimsDone))
		}
	})
}

// The reply to a COMMIT is lost. If the transaction was not committed, its rings come again under the same message ids.
func TestLostCommitRingsAgainUnderSameMessageID(t *testing.T) {
	for _, committed := range []bool{false, true} {
		t.Run(fmt.Sprint("committed=", committed), func(t *testing.T) {
			inBubble(t, defaultNode(), func(t *testing.T, n *node) {
				n.setMany("a", 10, time.Second)
				n.db.loseNextCommit(committed)
				time.Sleep(1100 * time.Millisecond)
				n.wantStates("a", map[clock.State]int{clock.Rung: 10})
				wantOneMessageIDPerAlarm(t, n.target.all())
				want := 20
				if committed {
					want = 10
				}
				if got := len(n.target.all()); got != want {
					t.Errorf("%d copies, want %d", got, want)
				}
			})
		})
	}
}

func TestTwoPhaseRingsThroughLostCommitsAndOutage(t *testing.T) {
	cfg := defaultNode()
	cfg.twoPhase = true
	inBubble(t, cfg, func(t *testing.T, n *node) {
		n.target.slow(5 * time.Millisecond)
		n.target.respond("b", clock.Untaken)
		ids := n.setMany("a", 100, time.Second)
		waiting := n.setMany("b", 10, time.Second)
		n.db.loseNextCommit(false)
		time.Sleep(10 * time.Second)
		n.wantRungOnce(ids, 0) // writing the outcome was tried again
		n.target.respond("b", clock.Confirmed)
		time.Sleep(5 * time.Second)
		n.wantRungOnce(waiting, 12*time.Second)
		// the database goes down while a batch is under way, for longer than the claim lasts
		more := n.set("a", "more", 20*time.Second)
		time.Sleep(5*time.Second + time.Millisecond)
		n.db.setDown(true)
		time.Sleep(20 * time.Second)
		n.db.setDown(false)
		time.Sleep(10 * time.Second)
		if a := n.db.get(more); a.State != clock.Rung {
			t.Errorf("%s", a.State)
		}
		wantOneMessageIDPerAlarm(t, n.target.all())
	})
}

func TestPayloadsBeyondBatchBytesRingInNextClaims(t *testing.T) {
	cfg := defaultNode()
	cfg.ring.BatchBytes = 64 << 10
	inBubble(t, cfg, func(t *testing.T, n *node) {
		ids := n.setMany("a", 100, time.Second, payload(20<<10))
		time.Sleep(1100 * time.Millisecond)
		n.wantRungOnce(ids, 0)
	})
}

func TestStopSettlesBatchesUnderWay(t *testing.T) {
	for _, twoPhase := range []bool{false, true} {
		t.Run(fmt.Sprint("twoPhase=", twoPhase), func(t *testing.T) {
			cfg := defaultNode()
			cfg.twoPhase, cfg.ring.BatchRows = twoPhase, 10
			inBubble(t, cfg, func(t *testing.T, n *node) {
				n.target.slow(300 * time.Millisecond)
				n.db.slow(10 * time.Millisecond)
				n.setMany("a", 100, time.Second)
				time.Sleep(1100 * time.Millisecond)
				began := time.Now()
				n.stop()
				if took := time.Since(began); took > time.Second {
					t.Errorf("stopping took %s", took)
				}
				n.wantStates("a", map[clock.State]int{clock.Rung: 30, clock.Scheduled: 70})
				if copies := len(n.target.all()); copies != 30 {
					t.Errorf("%d copies, want 30", copies)
				}
			})
		})
	}
}

// Entries of lost shards are dropped, and alarms of gained shards are loaded. Alarms that are set in other shards do
// not ring.
func TestOnlyOwnedShardsRing(t *testing.T) {
	cfg := defaultNode()
	cfg.shards = []int{0, 1, 2, 3}
	inBubble(t, cfg, func(t *testing.T, n *node) {
		n.setMany("a", 400, 5*time.Second)
		time.Sleep(2 * time.Second)
		n.owner.set(2, 3, 4, 5)
		time.Sleep(time.Second)
		n.set("a", "own or not", 6*time.Second)
		time.Sleep(5 * time.Second)
		n.db.mu.Lock()
		defer n.db.mu.Unlock()
		for _, r := range n.db.rows {
			want := clock.Scheduled
			if r.Shard >= 2 && r.Shard <= 5 {
				want = clock.Rung
			}
			if r.State != want {
				t.Fatalf("alarm of shard %d is %s, want %s", r.Shard, r.State, want)
			}
		}
	})
}
