package ring_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

func atMostOnce(s *clock.Set) { s.Delivery = clock.AtMostOnce }

// Alarms that ring at most once share a batch with others, under every outcome. A ring that may have arrived stays in
// doubt and is never published again. A returned or unsent ring rings later.
func TestAtMostOnceRingIsPublishedOnceUnderEveryOutcome(t *testing.T) {
	for _, twoPhase := range []bool{false, true} {
		for _, kind := range clock.OutcomeKinds() {
			cfg := defaultNode()
			cfg.twoPhase = twoPhase
			t.Run(fmt.Sprint(kind, " ", twoPhase), func(t *testing.T) {
				inBubble(t, cfg, func(t *testing.T, n *node) {
					n.target.respond("once", kind)
					ids := n.setMany("once", 20, time.Second, atMostOnce)
					others := n.setMany("other", 20, time.Second)
					time.Sleep(10 * time.Second)
					n.wantRungOnce(others, 5*time.Second)
					n.target.respond("once", clock.Confirmed)
					time.Sleep(3 * time.Minute)
					mayHaveArrived := kind == clock.Nacked || kind == clock.Refused || kind == clock.Doubtful
					n.wantRungAtMostOnce(ids, mayHaveArrived)
					if a := n.db.get(ids[0]); mayHaveArrived && a.UpdateTime <= a.RungAt {
						t.Fatalf("the settled row has the update_time of its claim: a repeated settlement would take it for its own")
					}
					if tries := n.db.count(&n.db.claimCalls); kind == clock.Confirmed && tries != 2 {
						t.Fatalf("%d claims for one round", tries)
					}
				})
			})
		}
	}
}

// The target stores nothing of a batch in which it refuses one ring. The others ring, and none is in doubt.
func TestRefusedBatchPutsNoRingInDoubtThatWasNotStored(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.update(func() { n.target.wholeBatches, n.target.refused["137"] = true, true })
		limit := func(s *clock.Set) { s.Delivery, s.Retry.Limit = clock.AtMostOnce, 0 }
		bad := n.setMany("a", 300, time.Second, limit)
		innocent := n.setMany("b", 300, time.Second, limit, func(s *clock.Set) { s.BusinessID = "b" + s.BusinessID })
		repeated := n.setMany("c", 300, time.Second, func(s *clock.Set) { s.BusinessID = "c" + s.BusinessID })
		time.Sleep(5 * time.Second)
		n.wantStates("a", map[clock.State]int{clock.Rung: 299, clock.Dead: 1})
		for _, ids := range [][]int64{bad, innocent, repeated} {
			for i, id := range ids {
				a := n.db.get(id)
				if is := i == 137 && a.Application == "a"; a.InDoubt || a.RetryTimes > 0 != is || a.RingNo == 0 != is {
					t.Fatalf("%s/%s is %s, in doubt %t, with %d failed tries", a.Application, a.BusinessID, a.State, a.InDoubt,
						a.RetryTimes)
				}
			}
		}
		wantOneMessageIDPerAlarm(t, n.target.all())
	})
}

// wantRungAtMostOnce checks that every alarm has rung with one copy, confirmed or, with doubtful, in doubt. Returned
// copies do not count.
func (n *node) wantRungAtMostOnce(ids []int64, doubtful bool) {
	n.t.Helper()
	copies := map[int64]int{}
	for _, r := range n.target.all() {
		if r.kind != clock.Returned {
			copies[r.alarm]++
		}
	}
	for _, id := range ids {
		a := n.db.get(id)
		if a.State != clock.Rung || a.InDoubt != doubtful || copies[id] != 1 || (a.RingNo == 1) == doubtful {
			n.t.Fatalf("alarm %d is %s, ring %d, in doubt %t, with %d copies", id, a.State, a.RingNo, a.InDoubt,
				copies[id])
		}
	}
}

// In one batch, alarms that ring at most once have another claim and another settlement than the others.
func TestAtMostOnceAlarmsHaveTheirOwnClaim(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.db.loseNextCommit(false)
		others := n.setMany("app", 10, time.Second)
		ids := n.setMany("app", 10, time.Second,
			func(s *clock.Set) { s.BusinessID += " once"; s.Delivery = clock.AtMostOnce })
		time.Sleep(time.Minute)
		n.wantRungAtMostOnce(ids, false)
		for _, id := range others {
			if a := n.db.get(id); a.State != clock.Rung {
				t.Fatalf("alarm %d is %s", id, a.State)
			}
		}
		claims := map[string]clock.DeliveryMode{}
		for _, id := range append(ids, others...) {
			a := n.db.get(id)
			if before, known := claims[a.ClaimID]; known && before != a.Delivery {
				t.Fatalf("claim %s has alarms of both delivery modes", a.ClaimID)
			}
			claims[a.ClaimID] = a.Delivery
		}
	})
}

// The database is down from the claim until the settlement has given up. The alarm stays rung and in doubt, and never
// rings again.
func TestAtMostOnceRingStaysInDoubtAfterLostSettlement(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.slow(100 * time.Millisecond)
		ids := n.setMany("once", 5, time.Second, atMostOnce)
		time.Sleep(time.Second + 50*time.Millisecond)
		n.db.setDown(true)
		time.Sleep(time.Minute)
		n.db.setDown(false)
		time.Sleep(time.Minute)
		n.wantRungAtMostOnce(ids, true)
	})
}

// The database is down for a shorter time than a claim lasts. The outcome is written when it is back.
func TestAtMostOnceOutcomeIsWrittenAfterOutage(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.slow(100 * time.Millisecond)
		ids := n.setMany("once", 5, time.Second, atMostOnce)
		time.Sleep(time.Second + 50*time.Millisecond)
		n.db.setDown(true)
		time.Sleep(6 * time.Second)
		n.db.setDown(false)
		time.Sleep(time.Minute)
		n.wantRungAtMostOnce(ids, false)
	})
}

// The claim of the alarms that ring at most once fails, after the other alarms of the batch have rung. They ring later.
func TestAtMostOnceAlarmsRingAfterFailedClaim(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		once := true
		n.db.onSettled = func() {
			if once {
				once = false
				n.db.setDown(true)
				time.AfterFunc(3*time.Second, func() { n.db.setDown(false) })
			}
		}
		others := n.setMany("other", 3, time.Second)
		ids := n.setMany("once", 3, time.Second, atMostOnce)
		time.Sleep(time.Minute)
		n.wantRungAtMostOnce(ids, false)
		n.wantRungOnce(others, 100*time.Millisecond)
		n.wantRungOnce(ids, 10*time.Second)
	})
}
