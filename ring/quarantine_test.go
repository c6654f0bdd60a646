package ring_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// Many applications are silent. Another application fails in any way, recovers at any time, and then rings within two
// seconds of the model's time. Healthy applications ring on time.
func TestQuarantinedApplicationsDoNotWaitForEachOther(t *testing.T) {
	testQuarantinedApplications(t, 20, 2)
}

// testQuarantinedApplications lets an application recover in so many rounds beside so many silent applications.
func testQuarantinedApplications(t *testing.T, silent, rounds int) {
	t.Helper()
	for _, trouble := range []clock.OutcomeKind{clock.Doubtful, clock.Returned, clock.Nacked} {
		t.Run(trouble.String(), func(t *testing.T) {
			inBubble(t, defaultNode(), func(t *testing.T, n *node) {
				n.target.update(func() { n.target.breaksWithoutReply = true })
				for i := range silent {
					n.target.respond(fmt.Sprint("silent", i), clock.Doubtful)
					n.setMany(fmt.Sprint("silent", i), 20, time.Second)
				}
				time.Sleep(20 * time.Second)
				for round := range rounds {
					n.failAndRecover(t, trouble, round)
				}
				copies := len(n.target.ofApplication("silent7"))
				var healthy []int64
				for i := range 600 {
					healthy = append(healthy,
						n.set("healthy", fmt.Sprint(i),
							n.clock.now().Sub(n.origin)+time.Duration(i+10)*100*time.Millisecond))
				}
				time.Sleep(time.Minute)
				if more := len(n.target.ofApplication("silent7")) - copies; more < 20 || more > 60 {
					t.Errorf("%d copies in a minute of a silent application", more)
				}
				time.Sleep(2 * time.Second)
				n.wantRungOnce(healthy, 0)
				wantOneMessageIDPerAlarm(t, n.target.ofApplication("back"))
			})
		})
	}
}

// failAndRecover makes an application with 500 due alarms fail for a while, and recover.
func (n *node) failAndRecover(t *testing.T, trouble clock.OutcomeKind, round int) {
	t.Helper()
	fast := func(s *clock.Set) {
		s.Retry = clock.RetryPolicy{Initial: 100 * time.Millisecond, Factor: 1, Cap: 100 * time.Millisecond,
			Limit: clock.NoLimit}
	}
	n.target.respond("back", trouble)
	for i := range 500 {
		n.set("back", fmt.Sprint(round, "-", i), 0, fast)
	}
	time.Sleep(20*time.Second + time.Duration(round)*313*time.Millisecond)
	before := n.states("back")[clock.Rung]
	n.target.respond("back", clock.Confirmed)
	waited := 0
	for ; n.states("back")[clock.Rung] < before+400 && waited < 200_000; waited++ {
		time.Sleep(time.Millisecond)
	}
	t.Logf("outcome %s: 400 of 500 rang %d ms after the recovery", trouble, waited)
	if waited > 2100 {
		t.Error("the application waited for others")
	}
	time.Sleep(5 * time.Second)
	n.wantStates("back", map[clock.State]int{clock.Rung: 500 * (round + 1)})
}

// An application without due alarms does not stay in quarantine.
func TestIdleQuarantinedApplicationsAreForgotten(t *testing.T) {
	for _, trouble := range []clock.OutcomeKind{clock.Doubtful, clock.Returned, clock.Nacked, clock.Untaken} {
		t.Run(trouble.String(), func(t *testing.T) {
			inBubble(t, defaultNode(), func(t *testing.T, n *node) {
				n.target.respond("a", trouble)
				n.target.update(func() { n.target.absent["away"] = true })
				n.setMany("a", 30, time.Second, latestRingAfter(4*time.Minute)) // in doubt it cannot be cancelled
				n.setMany("away", 30, time.Second)
				time.Sleep(3 * time.Minute)
				if got := n.quarantined(); got == 0 {
					t.Fatal("no application is in quarantine")
				}
				for i := range 30 {
					n.cancel("a", fmt.Sprint(i))
					n.cancel("away", fmt.Sprint(i))
				}
				time.Sleep(4 * time.Minute)
				if some, all := n.loop.Quarantined(); all != 0 {
					t.Errorf("%d applications are in quarantine: %+v", all, some)
				}
				if waiting, inFlight := n.heap.Len(); waiting+inFlight != 0 {
					t.Errorf("%d waiting, %d in flight", waiting, inFlight)
				}
				n.target.respond("a", clock.Confirmed)
				n.target.update(func() { n.target.absent["away"] = false })
				ids := append(n.setMany("a", 5, 10*time.Minute, changeContent),
					n.setMany("away", 5, 10*time.Minute, changeContent)...)
				time.Sleep(10 * time.Minute)
				for _, id := range ids {
					if a := n.db.get(id); a.State != clock.Rung || a.RungAt.Sub(a.RingAt) > time.Second {
						t.Fatalf("afterwards %s is %s", a.Key, a.State)
					}
				}
			})
		})
	}
}

// changeContent makes the set differ from an earlier set of the same key.
func changeContent(s *clock.Set) { s.ContentType = "text/plain" }

// Most alarms of some applications fail, and are due again after a second. Beside the flood of a healthy application,
// their retries take no larger part of the rings than the quarantine has of the workers. It is much smaller here,
// because hardly any of them are confirmed.
func TestRetriesTakeABoundedPartOfTheRings(t *testing.T) {
	cfg := defaultNode()
	cfg.ring.BatchRows = 50
	inBubble(t, cfg, func(t *testing.T, n *node) {
		n.target.slow(20 * time.Millisecond)
		n.db.slow(2 * time.Millisecond)
		n.target.update(func() {
			for i := range 200 {
				n.target.nacked[fmt.Sprint(i)] = i%10 > 0 // business ids of setMany
			}
		})
		for i := range 5 {
			n.setMany(fmt.Sprint("failing", i), 200, time.Second, func(s *clock.Set) {
				s.Retry = clock.RetryPolicy{Initial: time.Second, Factor: 1, Cap: time.Second, Limit: clock.NoLimit}
			})
		}
		time.Sleep(5 * time.Second) // the failing applications are in quarantine, and have a backlog
		before := len(n.target.all())
		for i := range 10000 {
			n.set("healthy", fmt.Sprint("flood ", i), 0)
		}
		time.Sleep(1500 * time.Millisecond)
		retries, total, workers := 0, len(n.target.all())-before, ring.DefaultConfig().Workers
		for _, r := range n.target.all()[before:] {
			if r.application != "healthy" {
				retries++
			}
		}
		t.Logf("%d of %d rings were retries", retries, total)
		if most := total * ring.QuarantineWorkers / (workers + ring.QuarantineWorkers); retries > most ||
			retries == 0 || total < 5000 {
			t.Errorf("%d retries of %d rings, at most %d are allowed", retries, total, most)
		}
	})
}

// Hundreds of applications without a queue delay no healthy application.
func TestManyQuarantinedApplicationsDelayNoOther(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		const applications = 300
		for i := range applications {
			n.target.respond(fmt.Sprint("lost", i), clock.Returned)
			n.setMany(fmt.Sprint("lost", i), 3, time.Second)
		}
		var healthy []int64
		for i := range 300 {
			healthy = append(healthy,
				n.set("healthy", fmt.Sprint(i), 30*time.Second+time.Duration(i)*100*time.Millisecond))
		}
		time.Sleep(70 * time.Second)
		n.wantRungOnce(healthy, 0)
		if _, inFlight := n.heap.Len(); inFlight > 3*applications {
			t.Errorf("%d in flight", inFlight)
		}
		if some, all := n.loop.Quarantined(); len(some) == 0 || len(some) > 100 || all > applications {
			t.Errorf("%d of %d are shown", len(some), all)
		}
	})
}
