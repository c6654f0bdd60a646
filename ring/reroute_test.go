package ring_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/store"
)

// switchboard is the routing of a test: the applications that ring by the second route.
type switchboard struct {
	n      *node
	first  *ring.Route
	second *ring.Route
	moved  map[string]bool
	log    map[string][]clock.Instant // times at which each application was moved
}

// withSwitchboard runs a test in a bubble, with claims of both kinds. At first all applications ring by the first
// route.
func withSwitchboard(t *testing.T, change func(*nodeConfig), test func(t *testing.T, b *switchboard)) {
	t.Helper()
	for name, twoPhase := range map[string]bool{"held": false, "two-phase": true} {
		t.Run(name, func(t *testing.T) {
			cfg := defaultNode()
			cfg.second, cfg.twoPhase, cfg.secondHolds = func(string) bool { return false }, twoPhase, !twoPhase
			if change != nil {
				change(&cfg)
			}
			inBubble(t, cfg, func(t *testing.T, n *node) {
				test(t, &switchboard{
					n: n, first: n.allRoutes[0], second: n.allRoutes[1], moved: map[string]bool{},
					log: map[string][]clock.Instant{},
				})
			})
		})
	}
}

// smallHeap leaves part of the alarms out of the heap. With two-phase claims the loaders read claimed rows too. These
// may fill a small heap until their claim's end, so the heap stays large then.
func smallHeap(cfg *nodeConfig, capacity int) {
	if !cfg.twoPhase {
		cfg.capacity = capacity
	}
}

// move gives the application its other route.
func (b *switchboard) move(application string) {
	b.moved[application] = !b.moved[application]
	b.log[application] = append(b.log[application], b.n.clock.now())
	b.n.loop.Reroute(b.router(), []store.Addressee{{Application: application}})
}

func (b *switchboard) router() ring.Router {
	moved := map[string]bool{}
	for application, is := range b.moved {
		moved[application] = is
	}
	return func(to store.Addressee) *ring.Route {
		if moved[to.Application] {
			return b.second
		}
		return b.first
	}
}

// wantRoutes checks that each ring went to the route that its application had. A ring that was claimed just before a
// move may come just after it.
func (b *switchboard) wantRoutes(t *testing.T, slack time.Duration) {
	t.Helper()
	for i, target := range b.n.targets() {
		for _, r := range target.all() {
			moves := b.log[r.application]
			at := func(d time.Duration) int {
				n, _ := slices.BinarySearch(moves, r.at.Add(-d))
				return n % 2
			}
			if at(0) != i && at(slack) != i {
				t.Fatalf("alarm %d of %s rang at target %d at %s, moves %v", r.alarm, r.application, i, r.at, moves)
			}
		}
	}
}

// Applications get other routes again and again while their alarms ring. No alarm is lost, early, late or rung twice,
// and each rings by the route that its application has.
func TestRoutesChangeUnderLoad(t *testing.T) {
	withSwitchboard(t, func(cfg *nodeConfig) { cfg.ring.BatchRows = 20; smallHeap(cfg, 400) }, func(t *testing.T, b *switchboard) {
		rnd := rand.New(rand.NewPCG(1, 2))
		for _, target := range b.n.targets() {
			target.slow(20 * time.Millisecond)
		}
		var ids []int64
		applications := []string{"a", "b", "c", "d"}
		for _, application := range applications {
			ids = append(ids, b.n.setEvery(application, 1500, 40*time.Millisecond)...)
		}
		for range 300 {
			time.Sleep(time.Duration(rnd.Int64N(int64(400 * time.Millisecond))))
			b.move(applications[rnd.IntN(len(applications))])
		}
		time.Sleep(30 * time.Second)
		b.n.wantRungOnce(ids, 500*time.Millisecond)
		b.wantRoutes(t, 100*time.Millisecond)
		if len(b.n.target.all()) < 1000 || len(b.n.second.all()) < 1000 {
			t.Errorf("%d rings at the first target, %d at the second", len(b.n.target.all()), len(b.n.second.all()))
		}
	})
}

// A target that is away holds the alarms of its applications. A new route sets them free at once, in the heap and
// beyond it.
func TestNewRouteFreesHeldAlarms(t *testing.T) {
	withSwitchboard(t, func(cfg *nodeConfig) { smallHeap(cfg, 100) }, func(t *testing.T, b *switchboard) {
		ids := b.n.setMany("orders", 1000, time.Second)
		b.n.target.setDown(errDown)
		time.Sleep(30 * time.Second)
		b.move("orders")
		time.Sleep(5 * time.Second)
		b.n.wantRungOnce(ids, 35*time.Second)
		if rung := len(b.n.second.all()); rung != len(ids) {
			t.Errorf("%d rings at the second target", rung)
		}
	})
}

// An application that is held at one target has no such past at another.
func TestNewRouteEndsTheQuarantine(t *testing.T) {
	withSwitchboard(t, nil, func(t *testing.T, b *switchboard) {
		b.n.target.respond("orders", clock.Returned)
		ids := b.n.setMany("orders", 500, time.Second)
		time.Sleep(30 * time.Second)
		if b.n.quarantined() != 1 {
			t.Fatal("the application is not in quarantine")
		}
		b.move("orders")
		time.Sleep(time.Minute) // the retries of the tries that were returned
		for _, id := range ids {
			if a := b.n.db.get(id); a.State != clock.Rung {
				t.Fatalf("alarm %s is %s", a.Key, a.State)
			}
		}
		if b.n.quarantined() != 0 {
			t.Error("the application is in quarantine")
		}
	})
}

// doubtful lets some rings at the first target have no outcome, and moves the application. It returns their alarms and
// the others.
func (b *switchboard) doubtful(t *testing.T, application string) (inDoubt, others []int64) {
	t.Helper()
	b.n.target.respond(application, clock.Doubtful)
	inDoubt = b.n.setMany(application, 30, time.Second)
	for i := range 300 {
		others = append(others,
			b.n.set(application, fmt.Sprint("later", i), 20*time.Second+time.Duration(i)*100*time.Millisecond))
	}
	time.Sleep(10 * time.Second)
	for _, id := range inDoubt[:3] {
		if a := b.n.db.get(id); !a.InDoubt && !a.Claimed() {
			t.Fatalf("alarm %s is not in doubt", a.Key)
		}
	}
	b.move(application)
	return inDoubt, others
}

// triedAt returns the numbers of the alarms' copies at a target.
func triedAt(target *modelTarget) map[int64]int {
	tried := map[int64]int{}
	for _, r := range target.all() {
		tried[r.alarm]++
	}
	return tried
}

// A try in doubt stays with its target, whatever target its application gets. All other alarms ring at the new target,
// on time.
func TestDoubtfulTriesKeepTheirTarget(t *testing.T) {
	withSwitchboard(t, nil, func(t *testing.T, b *switchboard) {
		inDoubt, others := b.doubtful(t, "orders")
		tried := triedAt(b.n.target)
		time.Sleep(50 * time.Second)
		b.n.wantRungOnce(others, 10*time.Millisecond)
		stillDoubtful := 0
		for _, id := range inDoubt {
			if tried[id] > 0 && b.n.db.get(id).State != clock.Rung {
				stillDoubtful++
			}
			if tried[id] > 0 && triedAt(b.n.second)[id] > 0 {
				t.Fatalf("alarm %d was tried at both targets", id)
			}
		}
		if stillDoubtful < 3 {
			t.Fatalf("%d alarms are in doubt", stillDoubtful)
		}
		b.n.target.respond("orders", clock.Confirmed)
		time.Sleep(10 * time.Second)
		for _, id := range inDoubt {
			a := b.n.db.get(id)
			if a.State != clock.Rung || tried[id] > 0 && triedAt(b.n.second)[id] > 0 ||
				tried[id] == 0 && triedAt(b.n.second)[id] != 1 {
				t.Errorf("alarm %s is %s; tried %d times before the move, %d times at the new target", a.Key, a.State,
					tried[id], triedAt(b.n.second)[id])
			}
		}
		wantOneMessageIDPerAlarm(t, b.n.rungs())
	})
}

// A node that starts after the move does not know where its predecessor has tried what. The database does.
func TestDoubtfulTriesKeepTheirTargetAtANewNode(t *testing.T) {
	withSwitchboard(t, func(cfg *nodeConfig) { cfg.keepsRoutes = true }, func(t *testing.T, b *switchboard) {
		inDoubt, others := b.doubtful(t, "orders")
		b.n.stop()
		tried := triedAt(b.n.target)
		b.n.build(b.n.cfg)
		b.n.loop.Reroute(b.router(), []store.Addressee{{Application: "orders"}})
		b.n.start()
		b.n.target.respond("orders", clock.Confirmed)
		time.Sleep(time.Minute)
		b.n.wantRungOnce(others, 10*time.Millisecond)
		for _, id := range inDoubt {
			a := b.n.db.get(id)
			if a.State != clock.Rung || tried[id] > 0 && triedAt(b.n.second)[id] > 0 {
				t.Errorf("alarm %s is %s; tried %d times at the first target, %d times at the second", a.Key, a.State,
					tried[id], triedAt(b.n.second)[id])
			}
		}
	})
}

// A former target that does not accept the application gets a minute. Then its tries in doubt go to the present target.
func TestDoubtfulTriesLeaveATargetThatDoesNotAcceptThem(t *testing.T) {
	withSwitchboard(t, nil, func(t *testing.T, b *switchboard) {
		inDoubt, others := b.doubtful(t, "orders")
		b.n.target.update(func() { b.n.target.absent["orders"] = true })
		tried := triedAt(b.n.target)
		time.Sleep(50 * time.Second)
		for _, id := range inDoubt {
			if tried[id] > 0 && triedAt(b.n.second)[id] > 0 {
				t.Fatalf("alarm %d went to the present target too soon", id)
			}
		}
		time.Sleep(30 * time.Second)
		b.n.wantRungOnce(others, 10*time.Millisecond)
		for _, id := range inDoubt {
			if a := b.n.db.get(id); a.State != clock.Rung || triedAt(b.n.second)[id] != 1 {
				t.Errorf("alarm %s is %s, tried %d times at the present target", a.Key, a.State,
					triedAt(b.n.second)[id])
			}
		}
	})
}

// A late reply that comes after the move settles its ring, and the ring is not tried again.
func TestAwaitedRingsAreSettledAfterAMove(t *testing.T) {
	withSwitchboard(t, nil, func(t *testing.T, b *switchboard) {
		b.n.target.update(func() { b.n.target.late = 25 * time.Second })
		ids := b.n.setMany("orders", 30, time.Second)
		time.Sleep(5 * time.Second)
		b.move("orders")
		time.Sleep(time.Minute)
		b.n.wantRungOnce(ids, 30*time.Second)
		if len(b.n.second.all()) > 0 {
			t.Errorf("%d rings at the second target", len(b.n.second.all()))
		}
	})
}

// An application that has moved back rings by its first route again, its tries in doubt as well as its other alarms.
func TestMovingBackAndForth(t *testing.T) {
	withSwitchboard(t, nil, func(t *testing.T, b *switchboard) {
		inDoubt, others := b.doubtful(t, "orders")
		time.Sleep(5 * time.Second)
		b.n.target.respond("orders", clock.Confirmed)
		b.move("orders")
		time.Sleep(time.Minute)
		b.n.wantRungOnce(others, 10*time.Millisecond)
		for _, id := range inDoubt {
			if a := b.n.db.get(id); a.State != clock.Rung {
				t.Errorf("alarm %s is %s", a.Key, a.State)
			}
		}
		if b.n.quarantined() > 0 {
			t.Error("the application is in quarantine")
		}
	})
}
