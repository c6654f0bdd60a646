package ring_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// inBubbleWithLateReplies runs a test of a node whose target replies that long after each delivery.
func inBubbleWithLateReplies(t *testing.T, late time.Duration, test func(t *testing.T, n *node)) {
	t.Helper()
	for name, twoPhase := range map[string]bool{"held": false, "two-phase": true} {
		t.Run(name, func(t *testing.T) {
			cfg := defaultNode()
			cfg.twoPhase = twoPhase
			cfg.preload.Sweep = 5 * time.Second // so that no sweep finds a row soon by chance
			inBubble(t, cfg, func(t *testing.T, n *node) {
				n.target.update(func() { n.target.late = late })
				test(t, n)
				n.stop()
				if n.target.lateDeliveries != 0 {
					t.Errorf("%d deliveries are still awaited", n.target.lateDeliveries)
				}
			})
		})
	}
}

// wantCopies checks how often each alarm was published.
func (n *node) wantCopies(ids []int64, want int) {
	n.t.Helper()
	copies := map[int64]int{}
	for _, r := range n.rungs() {
		copies[r.alarm]++
	}
	for _, id := range ids {
		if copies[id] != want {
			n.t.Fatalf("alarm %d was published %d times, want %d", id, copies[id], want)
		}
	}
}

// A reply that comes long after the reply limit settles its ring. Nothing is published again meanwhile, and the alarm
// cannot be changed.
func TestLateReplyMakesNoCopy(t *testing.T) {
	inBubbleWithLateReplies(t, 5*time.Minute, func(t *testing.T, n *node) {
		ids := n.setMany("a", 100, time.Second)
		once := n.setMany("once", 100, time.Second, func(s *clock.Set) { s.Delivery = clock.AtMostOnce })
		for range 4 {
			time.Sleep(time.Minute)
			if a := n.db.get(ids[0]); a.State != clock.Scheduled || !a.InDoubt || a.LastError != "" {
				t.Fatalf("while it is awaited: %+v", a)
			}
			if d := n.cancel("a", "0"); d.Verdict != clock.Refuse || !strings.Contains(d.Err.Error(), "unknown") {
				t.Fatalf("a cancel while the ring is awaited: %+v", d)
			}
		}
		time.Sleep(2 * time.Minute)
		n.wantCopies(append(ids, once...), 1)
		for _, id := range append(ids, once...) {
			if a := n.db.get(id); a.State != clock.Rung || a.InDoubt || a.RingNo != 1 || a.RetryTimes != 0 {
				t.Fatalf("after the reply: %+v", a)
			}
		}
		if n.quarantined() != 0 {
			t.Error("late replies put the application in quarantine")
		}
	})
}

// A late return is a failed try.
func TestLateReturnCounts(t *testing.T) {
	inBubbleWithLateReplies(t, time.Minute, func(t *testing.T, n *node) {
		n.target.respond("a", clock.Returned)
		id := n.set("a", "1", time.Second)
		time.Sleep(59 * time.Second)
		if a := n.db.get(id); a.RetryTimes != 0 {
			t.Fatalf("before the reply: %+v", a)
		}
		n.target.update(func() { n.target.late = 0 })
		time.Sleep(2500 * time.Millisecond)
		if a := n.db.get(id); a.RetryTimes == 0 || a.InDoubt || !strings.Contains(a.LastError, "returned") {
			t.Fatalf("after the return: %+v", a)
		}
		n.target.respond("a", clock.Confirmed)
		time.Sleep(time.Minute)
		n.wantStates("a", map[clock.State]int{clock.Rung: 1})
	})
}

// An application that is in quarantine for failures with replies gets no copies either.
func TestLateReplyInQuarantineMakesNoCopy(t *testing.T) {
	inBubbleWithLateReplies(t, 0, func(t *testing.T, n *node) {
		n.target.update(func() { n.target.nacked["full"] = true })
		n.set("a", "full", time.Second)
		time.Sleep(1500 * time.Millisecond)
		if n.quarantined() != 1 {
			t.Fatal("the application is not in quarantine")
		}
		n.target.update(func() { n.target.late = time.Minute })
		var ids []int64
		for i := range 100 {
			ids = append(ids, n.set("a", fmt.Sprint(i), time.Duration(i)*100*time.Millisecond))
		}
		time.Sleep(50 * time.Second)
		n.wantCopies(ids[:1], 1)
		n.target.update(func() { n.target.late = 0 })
		time.Sleep(30 * time.Second)
		n.wantCopies(ids, 1)
		n.wantStates("a", map[clock.State]int{clock.Rung: 101})
	})
}

// Two applications are in quarantine for failures with replies. When the replies of one alone are late, the other does
// not wait for it in each round.
func TestLateRepliesInQuarantineDelayNoOther(t *testing.T) {
	inBubbleWithLateReplies(t, 0, func(t *testing.T, n *node) {
		n.target.update(func() {
			for i := range 1000 {
				n.target.nacked[fmt.Sprint(i)] = i%2 > 0
			}
		})
		for _, application := range []string{"slow", "quick"} {
			n.setMany(application, 2, time.Second)
		}
		time.Sleep(1500 * time.Millisecond)
		if n.quarantined() != 2 {
			t.Fatalf("%d applications are in quarantine", n.quarantined())
		}
		n.target.update(func() { n.target.late, n.target.lateOf = time.Minute, "slow" })
		ids := n.setMany("slow", 1000, time.Second, changeContent)
		n.setMany("quick", 1000, time.Second, changeContent)
		time.Sleep(8 * time.Second)
		if confirmed := n.states("quick")[clock.Rung]; confirmed < 500 {
			t.Errorf("%d alarms of the other application have rung", confirmed)
		}
		n.wantCopies(ids[100:101], 1)
	})
}

// A target that works but does not reply to some rings has a queue at fault: its rings are in doubt soon, and its
// application is suspect.
func TestStuckRingsAreInDoubt(t *testing.T) {
	inBubbleWithLateReplies(t, time.Hour, func(t *testing.T, n *node) {
		n.target.update(func() { n.target.stuck = true })
		n.target.respond("a", clock.Doubtful)
		ids := n.setMany("a", 3, time.Second)
		time.Sleep(4 * time.Second)
		if n.quarantined() != 1 {
			t.Error("the application is not in quarantine")
		}
		n.target.update(func() { n.target.late = 0 })
		n.target.respond("a", clock.Confirmed)
		time.Sleep(10 * time.Second)
		for _, id := range ids {
			if a := n.db.get(id); a.State != clock.Rung || a.InDoubt {
				t.Errorf("after the queue has recovered: %+v", a)
			}
		}
	})
}

// A reply that never comes is awaited for lateLimit. Then the ring is published again.
func TestAwaitedRingIsPublishedAgainAfterTheLimit(t *testing.T) {
	inBubbleWithLateReplies(t, time.Hour, func(t *testing.T, n *node) {
		ids := n.setMany("a", 10, time.Second)
		time.Sleep(10 * time.Minute)
		n.wantCopies(ids, 1)
		n.target.update(func() { n.target.late = 0 })
		time.Sleep(10 * time.Second)
		n.wantCopies(ids, 2)
		n.wantStates("a", map[clock.State]int{clock.Rung: 10})
		const limit = 3*time.Second + 10*time.Minute // from the settlement
		for _, r := range n.rungs()[len(ids):] {
			if at := r.at.Sub(n.origin); at < limit || at > limit+400*time.Millisecond {
				t.Fatalf("published again after %s, although it was due again after %s", at, limit)
			}
		}
	})
}

// A set, or the end of the alarm's time, is stronger than a late reply.
func TestLateReplyChangesNoOtherRow(t *testing.T) {
	inBubbleWithLateReplies(t, time.Minute, func(t *testing.T, n *node) {
		expires := n.set("a", "expires", time.Second, latestRingAfter(20*time.Second))
		time.Sleep(30 * time.Second)
		want := n.db.get(expires)
		if want.State != clock.Expired || !want.InDoubt {
			t.Fatalf("after latest_ring_at: %+v", want)
		}
		time.Sleep(time.Minute)
		if got := n.db.get(expires); got.RingRow != want.RingRow {
			t.Errorf("after the late reply: %+v, want %+v", got.RingRow, want.RingRow)
		}
		n.wantCopies([]int64{expires}, 1)
	})
}

// A node that stops waits a little for late replies. Then the rings are in doubt, and due for any node at once.
func TestStopEndsTheWaitForLateReplies(t *testing.T) {
	inBubbleWithLateReplies(t, time.Hour, func(t *testing.T, n *node) {
		ids := n.setMany("a", 10, time.Second)
		time.Sleep(time.Minute)
		begun := time.Now()
		n.stop()
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("the stop took %s", took)
		}
		now := n.clock.now()
		for _, id := range ids {
			if a := n.db.get(id); a.State != clock.Scheduled || !a.InDoubt || a.NextTryTime > now {
				t.Errorf("after the stop: %+v at %d", a, now)
			}
		}
	})
}

// A node that knows when its process ends waits for late replies until shortly before.
func TestStopUsesItsTimeForLateReplies(t *testing.T) {
	inBubbleWithLateReplies(t, 8*time.Second, func(t *testing.T, n *node) {
		ids := n.setMany("a", 10, time.Second)
		time.Sleep(4 * time.Second)
		n.loop.EndBy(time.Now().Add(10 * time.Second))
		begun := time.Now()
		n.stop()
		if took := time.Since(begun); took > 6*time.Second {
			t.Errorf("the stop took %s, although all replies came within 5s", took)
		}
		for _, id := range ids {
			if a := n.db.get(id); a.State != clock.Rung || a.InDoubt {
				t.Errorf("after the stop: %+v", a)
			}
		}
		n.wantCopies(ids, 1)
	})
	inBubbleWithLateReplies(t, time.Hour, func(t *testing.T, n *node) {
		n.setMany("a", 10, time.Second)
		time.Sleep(4 * time.Second)
		end := time.Now().Add(10 * time.Second)
		n.loop.EndBy(end)
		n.stop()
		if left := time.Until(end); left < time.Second {
			t.Errorf("the stop has left %s for what ends after it", left)
		}
	})
}

// While the database is down, late outcomes wait. Even if it is down for so long that the rows are due again, their
// node publishes no copy.
func TestLateRepliesAreWrittenAfterOutage(t *testing.T) {
	inBubbleWithLateReplies(t, 20*time.Second, func(t *testing.T, n *node) {
		ids := n.setMany("a", 10, time.Second)
		time.Sleep(18 * time.Second)
		n.db.setDown(true)
		time.Sleep(5 * time.Second) // the replies come meanwhile
		n.db.setDown(false)
		time.Sleep(5 * time.Second)
		n.wantCopies(ids, 1)
		n.wantStates("a", map[clock.State]int{clock.Rung: 10})
		more := n.setMany("b", 10, time.Second)
		once := n.setMany("once", 10, time.Second, func(s *clock.Set) { s.Delivery = clock.AtMostOnce })
		time.Sleep(10 * time.Second)
		n.db.setDown(true)
		time.Sleep(time.Minute)
		n.target.update(func() { n.target.late = 0 })
		n.db.setDown(false)
		time.Sleep(30 * time.Second)
		n.wantStates("b", map[clock.State]int{clock.Rung: len(more)})
		n.wantCopies(append(more, once...), 1)
	})
}

// A settlement of late rings whose COMMIT has no reply is repeated unchanged. So the claim does not lose its rows,
// whether it was committed or not.
func TestLateSettlementIsRepeatedAfterLostCommit(t *testing.T) {
	for _, committed := range []bool{false, true} {
		inBubbleWithLateReplies(t, 30*time.Second, func(t *testing.T, n *node) {
			ids := n.setMany("a", 10, time.Second)
			time.Sleep(5 * time.Second)
			n.db.loseNextCommit(committed) // the next settlement postpones the time at which the rings are due again
			time.Sleep(20 * time.Second)
			n.db.loseNextCommit(committed)
			time.Sleep(time.Minute)
			n.wantCopies(ids, 1)
			n.wantStates("a", map[clock.State]int{clock.Rung: 10})
		})
	}
}

// An application whose replies alone are late leaves the batches of the others. Its late rings are awaited all the
// same, so that none is published twice, and all ring although they are many.
func TestSlowApplicationDelaysNoOther(t *testing.T) {
	for _, late := range []time.Duration{3 * time.Second, 20 * time.Second, 50 * time.Second} {
		t.Run(late.String(), func(t *testing.T) { testSlowApplication(t, late) })
	}
}

func testSlowApplication(t *testing.T, late time.Duration) {
	t.Helper()
	inBubbleWithLateReplies(t, late, func(t *testing.T, n *node) {
		n.target.update(func() { n.target.lateOf = "slow" })
		var others, slow []int64
		for i := range 300 { // for 30 s
			due := time.Second + time.Duration(i)*100*time.Millisecond
			for _, application := range []string{"a", "b", "c"} {
				others = append(others, n.set(application, fmt.Sprint(i), due))
			}
			slow = append(slow, n.set("slow", fmt.Sprint(i), due))
		}
		time.Sleep(4 * time.Second)
		if n.quarantined() != 1 {
			t.Errorf("%d applications are in quarantine", n.quarantined())
		}
		time.Sleep(30*time.Second + 2*late)
		n.wantRungOnce(others, 2*time.Second) // the first batches wait for the slow replies
		n.wantCopies(slow, 1)
		n.wantStates("slow", map[clock.State]int{clock.Rung: len(slow)})
	})
}
