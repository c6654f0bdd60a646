package ring_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
)

// history is a node with what applications do to it at random, and what must come of it.
type history struct {
	*node
	due    map[int64]clock.Instant // by alarm: when its last generation is due; none when cancelled
	setAt  map[int64]clock.Instant
	slow   bool // rings may come late
	faulty bool // and twice
}

func (h *history) set(t *rapid.T) {
	application := rapid.SampledFrom([]string{"a", "a", "a", "b", "c"}).Draw(t, "application")
	id := fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "id"))
	since := h.clock.now().Sub(h.origin)
	in := time.Duration(rapid.SampledFrom([]int{-1000, 0, 1, 500, 1000, 5000, 14_999, 15_000, 29_999, 30_000, 31_000, 45_000}).Draw(t, "in")+
		rapid.IntRange(0, 3).Draw(t, "more")) * time.Millisecond
	d := h.db.write(clock.Op{Set: &clock.Set{
		Key: clock.Key{Application: application, BusinessID: id},
		Content: clock.Content{
			RingAt: h.origin.Add(since + in), LatestRingAt: clock.NoInstant, Retry: clock.DefaultRetryPolicy(), MaxRings: 10,
			Priority: rapid.IntRange(0, 9).Draw(t, "priority"), Delivery: clock.DeliveryMode(rapid.IntRange(0, 1).Draw(t, "delivery")),
		},
	}})
	h.wake(d)
	if d.Writes() {
		h.due[d.Alarm.ID], h.setAt[d.Alarm.ID] = d.Alarm.RingAt, h.clock.now()
	}
}

func (h *history) wake(d clock.Decision) {
	if h.mute {
		return
	}
	h.pre.Wake([]clock.Decision{d})
}

func (h *history) cancel(t *rapid.T) {
	application := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "application")
	d := h.node.cancel(application, fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "id")))
	if d.Verdict == clock.Stop {
		delete(h.due, d.Alarm.ID)
	}
}

func (h *history) sleep(t *rapid.T) {
	time.Sleep(time.Duration(rapid.SampledFrom([]int{0, 1, 7, 100, 999, 1000, 4000, 16_000}).Draw(t, "ms")) * time.Millisecond)
}

// check holds after every step: nothing rang early, nothing confirmed rang twice.
func (h *history) check(t *rapid.T) {
	confirmed, copies := map[string]int{}, map[string]int{}
	for _, r := range h.target.all() {
		if r.once && r.kind != clock.Returned {
			copies[r.id]++
		}
		if copies[r.id] > 1 {
			t.Fatalf("%s was to be published at most once, and was %d times", r.id, copies[r.id])
		}
		if r.at < r.ringAt {
			t.Fatalf("alarm %d rang %s early", r.alarm, r.ringAt.Sub(r.at))
		}
		if r.confirmed {
			confirmed[r.id]++
		}
		if confirmed[r.id] > 1 && !h.faulty {
			t.Fatalf("%s was confirmed %d times", r.id, confirmed[r.id])
		}
	}
}

// end waits until everything must have rung, and checks that it has, on time where all was well.
func (h *history) end(t *rapid.T, late time.Duration) {
	time.Sleep(3 * time.Minute)
	h.check(t)
	rang := map[string]clock.Instant{}
	for _, r := range h.target.all() {
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
		if a.State == clock.Rung && a.InDoubt && a.Delivery == clock.AtMostOnce && h.faulty {
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
		actions := map[string]func(*rapid.T){"set": h.set, "set more": h.set, "cancel": h.cancel, "sleep": h.sleep, "": h.check}
		if h.faulty {
			h.faults(actions)
		}
		t.Repeat(actions)
		h.heal()
		var late time.Duration
		if h.slow || h.faulty {
			late = 3 * time.Minute
		}
		h.end(t, late)
	})
}

// faults adds what may go wrong.
func (h *history) faults(actions map[string]func(*rapid.T)) {
	applications := []string{"a", "b", "c"}
	actions["target"] = func(t *rapid.T) {
		h.target.setDown(rapid.SampledFrom([]error{nil, errDown}).Draw(t, "target"))
	}
	actions["database"] = func(t *rapid.T) { h.db.setDown(rapid.Bool().Draw(t, "down")) }
	actions["answer"] = func(t *rapid.T) {
		kind := rapid.SampledFrom(clock.OutcomeKinds()).Draw(t, "kind")
		h.target.answer(rapid.SampledFrom(applications).Draw(t, "application"), kind)
	}
	actions["absent"] = func(t *rapid.T) {
		application, absent := rapid.SampledFrom(applications).Draw(t, "application"), rapid.Bool().Draw(t, "absent")
		h.target.change(func() { h.target.absent[application] = absent })
	}
	actions["poison"] = func(t *rapid.T) {
		id := fmt.Sprint(rapid.IntRange(0, 40).Draw(t, "id"))
		h.target.change(func() { h.target.poison[id] = !h.target.poison[id] })
	}
	actions["commit"] = func(t *rapid.T) {
		h.db.lose(rapid.Bool().Draw(t, "committed"))
	}
	actions["wake-ups"] = func(t *rapid.T) { h.mute = rapid.Bool().Draw(t, "lost") }
}

func (h *history) heal() {
	h.db.setDown(false)
	h.mute = false
	h.db.mu.Lock()
	h.db.loseNext = nil
	h.db.mu.Unlock()
	h.target.change(func() {
		h.target.down = nil
		clear(h.target.answers)
		clear(h.target.absent)
		clear(h.target.poison)
	})
}

func drawNode(t *rapid.T) nodeConfig {
	cfg := defaultNode()
	cfg.capacity = rapid.SampledFrom([]int{4, 16, 64, 10_000}).Draw(t, "capacity")
	cfg.preload.Loaders = rapid.IntRange(1, 4).Draw(t, "loaders")
	cfg.preload.Page = rapid.SampledFrom([]int{16, 256}).Draw(t, "page")
	cfg.ring.Workers = rapid.IntRange(1, 3).Draw(t, "workers")
	cfg.ring.BatchRows = rapid.SampledFrom([]int{1, 5, 300}).Draw(t, "batch")
	cfg.ring.TwoPhase = rapid.Bool().Draw(t, "twoPhase")
	return cfg
}

// TestHistory: whatever applications do, in any order, each alarm rings once, when it is due.
func TestHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := drawNode(t)
		cfg.capacity = 10_000 // room for all: on time to the millisecond
		cfg.ring.Workers, cfg.ring.BatchRows = 3, 300
		runHistory(t, cfg, func(*history) {})
	})
}

// TestHistoryOfSlowParts: the same with a database and a target that take their time, through heaps of any size.
func TestHistoryOfSlowParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runHistory(t, drawNode(t), func(h *history) {
			h.db.slow(time.Duration(rapid.IntRange(0, 30).Draw(t, "database")) * time.Millisecond)
			h.target.slow(time.Duration(rapid.IntRange(0, 100).Draw(t, "target")) * time.Millisecond)
			h.slow = true
		})
	})
}

// TestHistoryOfFaults: whatever goes wrong, in the end everything has rung, every copy of a ring under one message id.
func TestHistoryOfFaults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		runHistory(t, drawNode(t), func(h *history) {
			h.faulty = true
			h.db.slow(time.Duration(rapid.IntRange(0, 5).Draw(t, "database")) * time.Millisecond)
		})
	})
}
