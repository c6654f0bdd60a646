package ring_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
)

// history is a node, the random sets and cancels of its applications, and the expected result.
type history struct {
	*node
	due          map[int64]clock.Instant // due time of each alarm's last generation; absent for a cancelled alarm
	setAt        map[int64]clock.Instant // time of each alarm's last set
	mayBeLate    bool                    // rings may be late
	mayRingTwice bool                    // rings may be late and come twice
}

func (h *history) set(t *rapid.T) {
	application := rapid.SampledFrom([]string{"a", "a", "a", "b", "c"}).Draw(t, "application")
	id := fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "id"))
	since := h.clock.now().Sub(h.origin)
	delay := time.Duration(rapid.SampledFrom([]int{-1000, 0, 1, 500, 1000, 5000, 14_999, 15_000, 29_999, 30_000, 31_000,
		45_000}).Draw(t, "in")+
		rapid.IntRange(0, 3).Draw(t, "more")) * time.Millisecond
	d := h.db.write(clock.Op{Set: &clock.Set{
		Key: clock.Key{Application: application, BusinessID: id},
		Content: clock.Content{
			RingAt: h.origin.Add(since + delay), LatestRingAt: clock.NoInstant, Retry: clock.DefaultRetryPolicy(),
			MaxRings: 10,
			Priority: rapid.IntRange(0, 9).Draw(t, "priority"),
			Delivery: clock.DeliveryMode(rapid.IntRange(0, 1).Draw(t, "delivery")),
		},
	}})
	h.wake(d)
	if d.Writes() {
		h.due[d.Alarm.ID], h.setAt[d.Alarm.ID] = d.Alarm.RingAt, h.clock.now()
	}
}

func (h *history) wake(d clock.Decision) {
	if h.losesWakeUps {
		return
	}
	h.preloader.Committed([]clock.Decision{d})
}

func (h *history) cancel(t *rapid.T) {
	application := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "application")
	d := h.node.cancel(application, fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "id")))
	if d.Verdict == clock.Disarm {
		delete(h.due, d.Alarm.ID)
	}
}

func (h *history) sleep(t *rapid.T) {
	ms := rapid.SampledFrom([]int{0, 1, 7, 100, 999, 1000, 4000, 16_000}).Draw(t, "ms")
	time.Sleep(time.Duration(ms) * time.Millisecond)
}

// check runs after every step. It checks that no alarm rang early, and that no ring was confirmed twice.
func (h *history) check(t *rapid.T) {
	confirmed, copies := map[string]int{}, map[string]int{}
	for _, r := range h.rungs() {
		if r.atMostOnce && r.kind != clock.Returned {
			copies[r.id]++
		}
		if copies[r.id] > 1 {
			t.Fatalf("%s rings at most once, and was published %d times", r.id, copies[r.id])
		}
		if r.at < r.ringAt {
			t.Fatalf("alarm %d rang %s early", r.alarm, r.ringAt.Sub(r.at))
		}
		if r.confirmed {
			confirmed[r.id]++
		}
		if confirmed[r.id] > 1 && !h.mayRingTwice {
			t.Fatalf("%s was confirmed %d times", r.id, confirmed[r.id])
		}
	}
}

// checkEnd waits until every alarm must have rung, and checks that it has, at most late after its due time.
func (h *history) checkEnd(t *rapid.T, late time.Duration) {
	time.Sleep(3 * time.Minute)
	h.check(t)
	rang := map[string]clock.Instant{}
	for _, r := range h.rungs() {
		if r.confirmed {
			if _, ok := rang[r.id]; !ok {
				rang[r.id] = r.at
			}
		}
	}
	for id := range h.db.rows {
		a := h.db.get(id)
		if _, pending := h.due[id]; !pending {
			if a.State != clock.Cancelled {
				t.Fatalf("alarm %d was cancelled and is %s", id, a.State)
			}
			continue
		}
		if a.State == clock.Rung && a.InDoubt && a.Delivery == clock.AtMostOnce && h.mayRingTwice {
			continue
		}
		at, ok := rang[fmt.Sprintf("%d.%d.1", id, a.Generation)]
		if !ok || a.State != clock.Rung {
			t.Fatalf("alarm %d, generation %d, is %s, rang %t", id, a.Generation, a.State, ok)
		}
		if by := at.Sub(max(a.RingAt, h.setAt[id])); by > late {
			t.Fatalf("alarm %d rang %s late", id, by)
		}
	}
}

func runHistory(t *rapid.T, cfg nodeConfig, prepare func(h *history)) {
	rapid.SyncTest(t, func(t *rapid.T) {
		h := &history{node: newNode(t, cfg), due: map[int64]clock.Instant{}, setAt: map[int64]clock.Instant{}}
		defer h.stop()
		prepare(h)
		actions := map[string]func(*rapid.T){"set": h.set, "set more": h.set, "cancel": h.cancel, "sleep": h.sleep,
			"": h.check}
		if h.mayRingTwice {
			h.addFaults(actions)
		}
		t.Repeat(actions)
		h.heal()
		var late time.Duration
		if h.mayBeLate || h.mayRingTwice {
			late = 3 * time.Minute
		}
		h.checkEnd(t, late)
	})
}

// addFaults adds the faults to the actions.
func (h *history) addFaults(actions map[string]func(*rapid.T)) {
	applications := []string{"a", "b", "c"}
	actions["target"] = func(t *rapid.T) {
		which := rapid.SampledFrom(h.targets()).Draw(t, "which")
		which.setDown(rapid.SampledFrom([]error{nil, errDown}).Draw(t, "target"))
	}
	actions["database"] = func(t *rapid.T) { h.db.setDown(rapid.Bool().Draw(t, "down")) }
	actions["outcome"] = func(t *rapid.T) {
		kind := rapid.SampledFrom(clock.OutcomeKinds()).Draw(t, "kind")
		application := rapid.SampledFrom(applications).Draw(t, "application")
		for _, target := range h.targets() {
			target.respond(application, kind)
		}
	}
	actions["absent"] = func(t *rapid.T) {
		application, absent := rapid.SampledFrom(applications).Draw(t, "application"), rapid.Bool().Draw(t, "absent")
		for _, target := range h.targets() {
			target.update(func() { target.absent[application] = absent })
		}
	}
	actions["refusal"] = func(t *rapid.T) {
		id := fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "id"))
		for _, target := range h.targets() {
			target.update(func() { target.refused[id] = !target.refused[id] })
		}
	}
	actions["commit"] = func(t *rapid.T) {
		h.db.loseNextCommit(rapid.Bool().Draw(t, "committed"))
	}
	actions["wake-ups"] = func(t *rapid.T) { h.losesWakeUps = rapid.Bool().Draw(t, "lost") }
}

func (h *history) heal() {
	h.db.setDown(false)
	h.losesWakeUps = false
	h.db.mu.Lock()
	h.db.loseCommits = nil
	h.db.mu.Unlock()
	for _, target := range h.targets() {
		target.update(func() {
			target.down = nil
			clear(target.outcomes)
			clear(target.absent)
			clear(target.refused)
		})
	}
}

func drawNode(t *rapid.T) nodeConfig {
	cfg := defaultNode()
	cfg.capacity = rapid.SampledFrom([]int{4, 16, 64, 10_000}).Draw(t, "capacity")
	cfg.preload.Loaders = rapid.IntRange(1, 4).Draw(t, "loaders")
	cfg.preload.Page = rapid.SampledFrom([]int{16, 256}).Draw(t, "page")
	cfg.ring.Workers = rapid.IntRange(1, 3).Draw(t, "workers")
	cfg.ring.BatchRows = rapid.SampledFrom([]int{1, 5, 300}).Draw(t, "batch")
	cfg.twoPhase = rapid.Bool().Draw(t, "twoPhase")
	if rapid.Bool().Draw(t, "twoRoutes") {
		cfg.second = func(application string) bool { return application == "b" }
		cfg.ring.Workers = max(cfg.ring.Workers, 2)
	}
	return cfg
}

// Each alarm rings once, when it is due, whatever applications do in any order.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawNode(t)
		cfg.capacity = 10_000 // room for all alarms, so they ring on time to the millisecond
		cfg.ring.Workers, cfg.ring.BatchRows = 3, 300
		runHistory(t, cfg, func(*history) {})
	})
}

// The same with a slow database, a slow target, and heaps of any size.
func TestHistoryOfSlowParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runHistory(t, drawNode(t), func(h *history) {
			h.db.slow(time.Duration(rapid.IntRange(0, 30).Draw(t, "database")) * time.Millisecond)
			h.target.slow(time.Duration(rapid.IntRange(0, 100).Draw(t, "target")) * time.Millisecond)
			h.mayBeLate = true
		})
	})
}

// After any faults, in the end every alarm has rung, and all copies of a ring have one message id.
func TestHistoryOfFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runHistory(t, drawNode(t), func(h *history) {
			h.mayRingTwice = true
			h.db.slow(time.Duration(rapid.IntRange(0, 5).Draw(t, "database")) * time.Millisecond)
		})
	})
}
