package ring_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/store"
)

// routes returns the routes and the router of a configuration.
func (n *node) routes(cfg nodeConfig) ([]*ring.Route, ring.Router) {
	if cfg.subscribers {
		return []*ring.Route{{Name: "stream", Target: n.streams, HoldsClaims: !cfg.twoPhase, SeparateReplies: true}}, nil
	}
	if cfg.pull {
		return []*ring.Route{{Name: "pull", Target: n.pulls, HoldsClaims: !cfg.twoPhase, SeparateReplies: true}}, nil
	}
	if cfg.webhooks != nil {
		n.hooks = cfg.webhooks()
		return []*ring.Route{{Name: "webhook", Target: n.hooks, SeparateReplies: true}}, nil
	}
	first := &ring.Route{Name: "first", Target: n.target, Kind: clock.TargetAMQP, HoldsClaims: !cfg.twoPhase,
		Ability: "first"}
	if cfg.second == nil {
		if cfg.hasNoRoute == nil {
			return []*ring.Route{first}, nil
		}
		return []*ring.Route{first}, func(to store.Addressee) *ring.Route {
			if cfg.hasNoRoute(to.Application) {
				return nil
			}
			return first
		}
	}
	n.second = newModelTarget(n.clock)
	second := &ring.Route{Name: "second", Target: n.second, Kind: clock.TargetStream, HoldsClaims: cfg.secondHolds,
		Ability: cfg.secondAbility}
	return []*ring.Route{first, second}, func(to store.Addressee) *ring.Route {
		switch {
		case cfg.hasNoRoute != nil && cfg.hasNoRoute(to.Application):
			return nil
		case to.Target == second.Kind || to.Target == clock.NoTarget && cfg.second(to.Application):
			return second
		default:
			return first
		}
	}
}

// targets returns the targets of all routes.
func (n *node) targets() []*modelTarget {
	if n.second == nil {
		return []*modelTarget{n.target}
	}
	return []*modelTarget{n.target, n.second}
}

// rungs returns the copies of rings at all targets.
func (n *node) rungs() (all []rung) {
	for _, target := range n.targets() {
		all = append(all, target.all()...)
	}
	return all
}

// isSlow tells the applications of the second route by their names.
func isSlow(application string) bool { return strings.HasPrefix(application, "slow") }

func twoRoutes() nodeConfig {
	cfg := defaultNode()
	cfg.second, cfg.ring.BatchRows = isSlow, 10
	return cfg
}

// setEvery sets count alarms of an application. The first is due after a second, each other that long after the one
// before.
func (n *node) setEvery(application string, count int, interval time.Duration) (ids []int64) {
	for i := range count {
		ids = append(ids, n.set(application, fmt.Sprint(i), time.Second+time.Duration(i)*interval))
	}
	return ids
}

func TestSlowTargetDelaysNoOtherTarget(t *testing.T) {
	testSlowTarget(t, 2)
}

// testSlowTarget: the target of some applications needs nearly two seconds for each batch, and they have a backlog for
// a minute. Alarms of the other target ring on time. The same holds if the slow target has no replies at all.
func testSlowTarget(t *testing.T, numbersOfWorkers ...int) {
	t.Helper()
	for _, workers := range numbersOfWorkers {
		for _, kind := range []clock.OutcomeKind{clock.Confirmed, clock.Nacked, clock.Doubtful, clock.Untaken} {
			t.Run(fmt.Sprintf("%d workers, %s", workers, kind), func(t *testing.T) {
				cfg := twoRoutes()
				cfg.ring.Workers = workers
				inBubble(t, cfg, func(t *testing.T, n *node) {
					n.second.slow(1900 * time.Millisecond)
					slowIDs := []int64(nil)
					for i := range 30 {
						slow := fmt.Sprint("slow", i)
						n.second.respond(slow, kind)
						slowIDs = append(slowIDs, n.setMany(slow, 50, time.Second)...)
					}
					ids := n.setEvery("well", 600, 100*time.Millisecond)
					time.Sleep(70 * time.Second)
					n.wantRungOnce(ids, 0)
					if len(n.second.all()) == 0 && kind != clock.Untaken {
						t.Error("the slow target got no ring")
					}
					for i := range 30 {
						n.second.respond(fmt.Sprint("slow", i), clock.Confirmed)
					}
					n.second.slow(0)
					time.Sleep(time.Minute)
					for _, id := range slowIDs {
						if a := n.db.get(id); a.State != clock.Rung {
							t.Fatalf("alarm %s is %s after the target has recovered", a.Key, a.State)
						}
					}
				})
			})
		}
	}
}

// A suspect application of one target recovers at once, while another target leaves its applications' rings without a
// reply.
func TestSilentTargetDelaysNoRecoveryAtAnotherTarget(t *testing.T) {
	inBubble(t, twoRoutes(), func(t *testing.T, n *node) {
		for i := range 40 {
			slow := fmt.Sprint("slow", i)
			n.second.respond(slow, clock.Doubtful)
			n.setMany(slow, 20, time.Second)
		}
		time.Sleep(20 * time.Second)
		for round := range 5 {
			n.target.respond("well", clock.Nacked)
			id := n.set("well", fmt.Sprint(round), n.clock.now().Sub(n.origin))
			time.Sleep(200 * time.Millisecond)
			n.target.respond("well", clock.Confirmed)
			time.Sleep(1100 * time.Millisecond) // the alarm's backoff is at most a second
			if a := n.db.get(id); a.State != clock.Rung {
				t.Errorf("round %d: the alarm is %s", round, a.State)
			}
		}
	})
}

// While one target is not usable, its alarms are not claimed, and alarms of the other target ring on time. When the
// target is usable again, its alarms ring at once.
func TestUnusableTargetHoldsOnlyItsRoute(t *testing.T) {
	inBubble(t, twoRoutes(), func(t *testing.T, n *node) {
		n.second.setDown(errDown)
		held := n.setMany("slow", 500, time.Second)
		expiring := n.set("slow", "expires", time.Second, latestRingAfter(5*time.Second))
		ids := n.setEvery("well", 300, 100*time.Millisecond)
		time.Sleep(40 * time.Second)
		n.wantRungOnce(ids, 0)
		if claimed := n.db.claimed("slow"); claimed != 0 {
			t.Errorf("%d alarms were claimed for the unusable target", claimed)
		}
		if a := n.db.get(expiring); a.State != clock.Expired {
			t.Errorf("the alarm past latest_ring_at is %s", a.State)
		}
		if first, second := n.loop.Routes()[0], n.loop.Routes()[1]; first.CannotRing != nil || second.Unusable == nil ||
			second.CannotRing == nil {
			t.Errorf("routes: %+v, %+v", first, second)
		}
		n.second.setDown(nil)
		time.Sleep(time.Second)
		n.wantRungOnce(held, 40*time.Second)
	})
}

// All rings of a claim have one route, and the route decides whether the claim is held or two-phase. This holds for
// rounds of the quarantine as well.
func TestClaimsAreOfOneRouteAndItsKind(t *testing.T) {
	inBubble(t, twoRoutes(), func(t *testing.T, n *node) {
		n.db.onClaim = func(applications map[string]int, twoPhase bool) {
			for application := range applications {
				if isSlow(application) != twoPhase {
					t.Errorf("two-phase is %t for %v", twoPhase, slices.Sorted(maps.Keys(applications)))
				}
			}
		}
		var ids []int64
		for i := range 10 {
			well, slow := fmt.Sprint("well", i), fmt.Sprint("slow", i)
			if i%2 == 0 {
				n.target.respond(well, clock.Nacked)
				n.second.respond(slow, clock.Nacked)
			}
			ids = append(append(ids, n.setEvery(well, 50, 50*time.Millisecond)...),
				n.setEvery(slow, 50, 50*time.Millisecond)...)
		}
		time.Sleep(10 * time.Second)
		for i := range 10 {
			n.target.respond(fmt.Sprint("well", i), clock.Confirmed)
			n.second.respond(fmt.Sprint("slow", i), clock.Confirmed)
		}
		time.Sleep(time.Minute)
		for _, id := range ids {
			if a := n.db.get(id); a.State != clock.Rung {
				t.Fatalf("alarm %s is %s", a.Key, a.State)
			}
		}
		for i, target := range n.targets() {
			for _, r := range target.all() {
				if isSlow(r.application) != (i == 1) {
					t.Fatalf("target %d got a ring of %s", i, r.application)
				}
			}
		}
	})
}

// The overdue alarms of a target that is down, or slow, are far more than the heap holds. Alarms of the other target
// ring on time, also when they come from more applications than the target's own part of the heap has room for. They
// cost few reads of the overdue alarms. At the end all alarms ring.
func TestBacklogOfOneTargetLeavesHeapRoomToOtherTarget(t *testing.T) {
	for _, c := range []struct {
		name                      string
		slowApplications, perSlow int
		wellApplications, perWell int
		interval, latency         time.Duration
	}{
		{"down", 50, 20, 1, 600, 100 * time.Millisecond, 0},
		{"slow", 50, 20, 1, 600, 100 * time.Millisecond, 1900 * time.Millisecond},
		{"one alarm an application", 1000, 1, 150, 2, 30 * time.Second, 0},
		{"one alarm an application, one by one", 1000, 1, 1, 600, 100 * time.Millisecond, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := twoRoutes()
			cfg.capacity = 500
			inBubble(t, cfg, func(t *testing.T, n *node) {
				if n.second.slow(c.latency); c.latency == 0 {
					n.second.setDown(errDown)
				}
				var overdue, ids []int64
				for i := range c.slowApplications {
					overdue = append(overdue, n.setMany(fmt.Sprint("slow", i), c.perSlow, 0)...)
				}
				time.Sleep(10 * time.Second)
				for i := range c.wellApplications {
					for k := range c.perWell {
						ids = append(ids,
							n.set(fmt.Sprint("well", i), fmt.Sprint(k), 11*time.Second+time.Duration(k)*c.interval))
					}
				}
				rowsRead := n.db.count(&n.db.dueRows)
				time.Sleep(80 * time.Second)
				n.wantRungOnce(ids, 0)
				if rowsRead = n.db.count(&n.db.dueRows) - rowsRead; rowsRead > 50_000 { // sweeps read about 30,000
					t.Errorf("%d rows were read", rowsRead)
				}
				n.second.slow(0)
				n.second.setDown(nil)
				time.Sleep(10 * time.Second)
				n.wantRungOnce(overdue, 100*time.Second)
			})
		})
	}
}

// Two targets with a backlog take turns with the workers that neither has to itself.
func TestTargetsWithBacklogsTakeTurns(t *testing.T) {
	inBubble(t, twoRoutes(), func(t *testing.T, n *node) {
		for _, target := range n.targets() {
			target.slow(100 * time.Millisecond)
		}
		n.setMany("well", 3000, time.Second)
		n.setMany("slow", 3000, time.Second)
		time.Sleep(21 * time.Second)
		first, second := len(n.target.all()), len(n.second.all())
		if first+second < 5000 || first < second*9/10 || second < first*9/10 {
			t.Errorf("the targets got %d and %d rings in 20 s", first, second)
		}
	})
}

// The router returns no route for some applications. Their alarms wait, untried, and the others ring on time. This
// holds for one route as well.
func TestApplicationsWithoutRouteAreNotRung(t *testing.T) {
	for name, cfg := range map[string]nodeConfig{"one route": defaultNode(), "two routes": twoRoutes()} {
		t.Run(name, func(t *testing.T) {
			cfg.hasNoRoute = func(application string) bool { return strings.HasPrefix(application, "lost") }
			inBubble(t, cfg, func(t *testing.T, n *node) {
				for i := range 30 {
					n.setMany(fmt.Sprint("lost", i), 100, time.Second)
				}
				ids := append(n.setEvery("well", 100, 100*time.Millisecond),
					n.setEvery("slow", 100, 100*time.Millisecond)...)
				time.Sleep(20 * time.Second)
				n.wantRungOnce(ids, 0)
				n.wantStates("lost7", map[clock.State]int{clock.Scheduled: 100})
				if claimed := n.db.claimed("lost7"); claimed != 0 {
					t.Errorf("%d alarms of an application without a route were claimed", claimed)
				}
				sample, all := n.loop.Quarantined()
				if all != 30 || sample[0].Health != "absent" || !strings.Contains(sample[0].Reason, "no route") {
					t.Errorf("%d quarantined: %+v", all, sample)
				}
			})
		})
	}
}

// A node lacks the ability of each route that cannot ring.
func TestNodeLacksAbilitiesOfRoutesThatCannotRing(t *testing.T) {
	for _, c := range []struct {
		secondAbility string
		down          []int
		want          string
	}{
		{"", nil, ""}, {"", []int{1}, ""}, {"", []int{0}, "first"}, {"", []int{0, 1}, "first"},
		{"second", []int{0}, "first"}, {"second", []int{1}, "second"}, {"second", []int{1, 0}, "first second"},
		{"a", []int{1, 0}, "a first"},
	} {
		t.Run(fmt.Sprintf("%q, down %v", c.secondAbility, c.down), func(t *testing.T) {
			cfg := twoRoutes()
			cfg.secondAbility = c.secondAbility
			inBubble(t, cfg, func(t *testing.T, n *node) {
				for _, i := range c.down {
					n.targets()[i].setDown(errDown)
				}
				synctest.Wait()
				if got := strings.Join(n.loop.Lacks(), " "); got != c.want {
					t.Errorf("lacks %q, want %q", got, c.want)
				}
				for _, target := range n.targets() {
					target.setDown(nil)
				}
				synctest.Wait()
				if lacks := n.loop.Lacks(); len(lacks) > 0 {
					t.Errorf("lacks %v with both targets", lacks)
				}
			})
		})
	}
}

func TestInvalidRoutesAreRefused(t *testing.T) {
	route := func(name string) *ring.Route { return &ring.Route{Name: name, Target: newModelTarget(modelClock{})} }
	able := func(name string) *ring.Route {
		r := route(name)
		r.Ability = "rings"
		return r
	}
	same := newModelTarget(modelClock{})
	router := func(store.Addressee) *ring.Route { return nil }
	for name, c := range map[string]struct {
		workers int
		routes  []*ring.Route
		router  ring.Router
		want    string
	}{
		"none":        {3, nil, nil, "need a route"},
		"no name":     {3, []*ring.Route{route("")}, nil, "different names"},
		"equal names": {3, []*ring.Route{route("a"), route("a")}, router, "different names"},
		"no target":   {3, []*ring.Route{{Name: "a"}, {Name: "b"}}, router, "no target"},
		"equal targets": {3, []*ring.Route{{Name: "a", Target: same}, route("b"), {Name: "c", Target: same}}, router,
			`"a" and "c" have the same target`},
		"equal abilities": {3, []*ring.Route{able("a"), route("b"), able("c")}, router,
			`"a" and "c" have the same ability`},
		"no router":       {3, []*ring.Route{route("a"), route("b")}, nil, "need a router"},
		"too few workers": {1, []*ring.Route{route("a"), route("b")}, router, "too few"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := ring.DefaultConfig()
			cfg.Workers = c.workers
			_, err := ring.New(cfg, ring.Deps{
				Heap: ring.NewHeap(1, 10), Database: newModelDB(modelClock{}), Routes: c.routes, Router: c.router,
				Log: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(),
			})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
