package ring_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
)

// pullNode is a node whose applications have workers that reserve rings.
type pullNode struct {
	*node
	workers sync.WaitGroup
	ctx     context.Context
	stopAll context.CancelFunc

	mu    sync.Mutex
	taken map[int64][]clock.Instant // times at which workers got each alarm
	most  int                       // most rings that a reserve got
}

// withPull runs a test in a bubble, with claims of both kinds.
func withPull(t *testing.T, test func(t *testing.T, n *pullNode)) {
	t.Helper()
	for name, twoPhase := range map[string]bool{"held": false, "two-phase": true} {
		t.Run(name, func(t *testing.T) {
			cfg := defaultNode()
			cfg.twoPhase, cfg.pull = twoPhase, true
			inBubble(t, cfg, func(t *testing.T, n *node) {
				p := &pullNode{node: n, taken: map[int64][]clock.Instant{}}
				p.ctx, p.stopAll = context.WithCancel(t.Context())
				test(t, p)
				p.stopAll()
				p.workers.Wait()
				n.stop()
				n.pulls.Close()
			})
		})
	}
}

// reserve reserves rings once, and writes them in the given time. It returns the number of rings.
func (n *pullNode) reserve(ctx context.Context, application string, rings int, takes time.Duration) int {
	d, ok := n.pulls.Reserve(ctx, application, rings)
	if !ok {
		return 0
	}
	n.mu.Lock()
	n.most = max(n.most, len(d.Rings))
	for i := range d.Rings {
		n.taken[d.Rings[i].AlarmID] = append(n.taken[d.Rings[i].AlarmID], n.clock.now())
	}
	n.mu.Unlock()
	time.Sleep(takes)
	d.Done(len(d.Rings), len(d.Rings), nil)
	return len(d.Rings)
}

// work adds a worker that reserves again and again, and works for some time after each reserve.
func (n *pullNode) work(application string, rings int, works func() time.Duration) {
	n.workers.Go(func() {
		for n.ctx.Err() == nil {
			if n.reserve(n.ctx, application, rings, time.Millisecond) > 0 {
				time.Sleep(works())
			}
		}
	})
}

// takenOnce checks that each alarm was taken once, with at most that lateness.
func (n *pullNode) takenOnce(ids []int64, most time.Duration) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		a := n.db.get(id)
		if len(n.taken[id]) != 1 || a.State != clock.Rung || a.InDoubt {
			n.t.Fatalf("alarm %s was taken %d times and is %s, in doubt %t", a.Key, len(n.taken[id]), a.State,
				a.InDoubt)
		}
		if was := n.taken[id][0].Sub(a.RingAt); was < 0 || was > most {
			n.t.Fatalf("alarm %s was taken %s late, want at most %s", a.Key, was, most)
		}
	}
}

// Waiting workers get their rings on time, however many rings they ask for.
func TestWaitingReservesGetTheirRingsOnTime(t *testing.T) {
	withPull(t, func(t *testing.T, n *pullNode) {
		for i := range 4 {
			n.work("shop", 1+20*i, func() time.Duration { return 0 })
			n.work("bank", 3, func() time.Duration { return time.Duration(rand.Int64N(int64(time.Millisecond))) })
		}
		ids := append(n.setEvery("shop", 300, 20*time.Millisecond), n.setEvery("bank", 300, 20*time.Millisecond)...)
		time.Sleep(10 * time.Second)
		n.takenOnce(ids, 5*time.Millisecond)
		if n.quarantined() != 0 {
			t.Error("an application is shown as unwell")
		}
	})
}

// A backlog is claimed only as workers ask for it. No ring is claimed in vain.
func TestOnlyReservedRingsAreClaimed(t *testing.T) {
	withPull(t, func(t *testing.T, n *pullNode) {
		ids := n.setMany("shop", 2000, time.Second)
		time.Sleep(5 * time.Second)
		if got := n.db.claimed("shop"); got != 0 {
			t.Fatalf("%d rows were claimed before any reserve", got)
		}
		for i := range 3 {
			if got := n.reserve(n.ctx, "shop", 10, 0); got != 10 {
				t.Fatalf("reserve %d got %d rings", i, got)
			}
			synctest.Wait()
			time.Sleep(time.Second)
			if got := n.db.claimed("shop"); got != 10*(i+1) {
				t.Fatalf("%d rows were claimed for %d rings", got, 10*(i+1))
			}
		}
		for range 8 {
			n.work("shop", 7, func() time.Duration { return 0 })
		}
		time.Sleep(time.Minute)
		n.takenOnce(ids, 2*time.Minute)
		if got := n.db.claimed("shop"); got > len(ids)+len(ids)/50 {
			t.Errorf("%d rows were claimed for %d alarms", got, len(ids))
		}
		if n.most > 10 {
			t.Errorf("a reserve got %d rings", n.most)
		}
	})
}

// A worker that leaves before a byte was written gives its rings back at once. A worker that leaves in the write leaves
// them in doubt, and they ring again under their ids.
func TestRingsOfVanishedWorkersRingAgain(t *testing.T) {
	withPull(t, func(t *testing.T, n *pullNode) {
		ids := n.setMany("shop", 4, time.Second)
		vanish := func(begun int) {
			d, ok := n.pulls.Reserve(n.ctx, "shop", 4)
			if !ok || len(d.Rings) != 4 {
				t.Fatalf("got %d rings", len(d.Rings))
			}
			d.Done(0, begun, errors.New("the client left"))
		}
		vanish(0)
		began := time.Now()
		vanish(4)
		if waited := time.Since(began); waited > 50*time.Millisecond {
			t.Errorf("rings that were not written came back after %s", waited)
		}
		for _, id := range ids {
			if tries := n.db.get(id).RetryTimes; tries > 1 {
				t.Errorf("alarm %d has %d counted tries", id, tries)
			}
		}
		n.work("shop", 10, func() time.Duration { return 0 })
		time.Sleep(30 * time.Second)
		n.takenOnce(ids, time.Minute)
	})
}

// Workers that write slowly, or whose reserves end again and again, delay no other application, and nothing is lost.
func TestSlowWorkersDelayNoOther(t *testing.T) {
	withPull(t, func(_ *testing.T, n *pullNode) {
		var slow, quick []int64
		for i := range 20 {
			application := fmt.Sprint("slow", i)
			n.workers.Go(func() {
				for n.ctx.Err() == nil {
					ctx, cancel := context.WithTimeout(n.ctx, 30*time.Millisecond)
					n.reserve(ctx, application, 5, time.Second)
					cancel()
				}
			})
			slow = append(slow, n.setEvery(application, 20, 500*time.Millisecond)...)
		}
		for i := range 5 {
			application := fmt.Sprint("quick", i)
			n.work(application, 5, func() time.Duration { return 0 })
			quick = append(quick, n.setEvery(application, 200, 50*time.Millisecond)...)
		}
		time.Sleep(time.Minute)
		n.takenOnce(quick, 250*time.Millisecond)
		n.takenOnce(slow, 5*time.Second)
	})
}

// After the last reserve the application stays for a while. Then its alarms leave memory, until a worker comes back.
func TestApplicationsWithoutWorkersLeaveMemory(t *testing.T) {
	withPull(t, func(t *testing.T, n *pullNode) {
		ids := n.setMany("shop", 100, time.Second)
		ctx, cancel := context.WithTimeout(n.ctx, 500*time.Millisecond)
		n.reserve(ctx, "shop", 1, 0)
		cancel()
		time.Sleep(10 * time.Second)
		if n.pulls.Accepts("shop") != nil {
			t.Error("the application was forgotten at once")
		}
		time.Sleep(time.Minute)
		if n.pulls.Accepts("shop") == nil {
			t.Error("the application was never forgotten")
		}
		n.work("shop", 30, func() time.Duration { return 0 })
		time.Sleep(5 * time.Second)
		n.takenOnce(ids, 2*time.Minute)
	})
}

// Alarms that may not ring any more end within seconds, although no worker asks for a ring.
func TestAlarmsEndWhileNoWorkerAsks(t *testing.T) {
	withPull(t, func(t *testing.T, n *pullNode) {
		unanswered := n.setUnanswered()
		if got := n.reserve(n.ctx, "shop", 1, 0); got != 1 {
			t.Fatalf("a reserve got %d rings", got)
		}
		late := n.setTooLate()
		time.Sleep(10 * time.Second)
		n.wantEnded(unanswered, late)
		if got := n.db.claimed("shop"); got != 1 {
			t.Errorf("%d rows were claimed for one reserve", got)
		}
	})
}

// setUnanswered sets an alarm of the shop that rings once at once, and waits a second for its acknowledgement.
func (n *node) setUnanswered() int64 {
	return n.set("shop", "unanswered", 0, func(s *clock.Set) { s.AckTimeout, s.MaxRings = time.Second, 1 })
}

// setTooLate sets an alarm of the shop that may ring only between the next second and two seconds later.
func (n *node) setTooLate() int64 {
	return n.set("shop", "too late", n.clock.now().Sub(n.origin)+time.Second,
		func(s *clock.Set) { s.LatestRingAt = s.RingAt.Add(2 * time.Second) })
}

// wantEnded checks that the alarms of setUnanswered and setTooLate have ended.
func (n *node) wantEnded(unanswered, late int64) {
	n.t.Helper()
	if a := n.db.get(unanswered); a.State != clock.Dead || a.LastError != "not acknowledged after 1 rings" {
		n.t.Errorf("the alarm without a ring left is %s: %s", a.State, a.LastError)
	}
	if a := n.db.get(late); a.State != clock.Expired || a.LastError != clock.ReasonExpired {
		n.t.Errorf("the alarm past latest_ring_at is %s: %s", a.State, a.LastError)
	}
}
