package ring_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

func atMostOnce(s *clock.Set) { s.Delivery = clock.AtMostOnce }

// TestAtMostOnce mixes alarms that ring at most once with others, under every outcome: what may have arrived is never published
// again and says so; what came back or was not sent rings later.
func TestAtMostOnce(t *testing.T) {
	for _, twoPhase := range []bool{false, true} {
		for _, kind := range clock.OutcomeKinds() {
			cfg := defaultNode()
			cfg.ring.TwoPhase = twoPhase
			t.Run(fmt.Sprint(kind, " ", twoPhase), func(t *testing.T) {
				inBubble(t, cfg, func(t *testing.T, n *node) {
					n.target.answer("once", kind)
					ids := n.many("once", 20, time.Second, atMostOnce)
					others := n.many("other", 20, time.Second)
					time.Sleep(10 * time.Second)
					n.wantRungOnce(others, 5*time.Second)
					n.target.answer("once", clock.Confirmed)
					time.Sleep(3 * time.Minute)
					mayHaveArrived := kind == clock.Nacked || kind == clock.Refused || kind == clock.Doubtful
					n.checkOnce(ids, mayHaveArrived)
					if tries := n.db.count(&n.db.tries); kind == clock.Confirmed && tries != 2 {
						t.Fatalf("%d claims for one round", tries)
					}
				})
			})
		}
	}
}

// checkOnce demands that every alarm is rung, by one copy of a confirmed ring or, in doubt, by at most one of another.
func (n *node) checkOnce(ids []int64, doubtful bool) {
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
			n.t.Fatalf("alarm %d is %s, ring %d, in doubt %t, with %d copies", id, a.State, a.RingNo, a.InDoubt, copies[id])
		}
	}
}

// TestAtMostOnceShared shares nothing with the others but the round: not their claim, not their settlement.
func TestAtMostOnceShared(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.db.lose(false)
		others := n.many("app", 10, time.Second)
		ids := n.many("app", 10, time.Second, func(s *clock.Set) { s.BusinessID += " once"; s.Delivery = clock.AtMostOnce })
		time.Sleep(time.Minute)
		n.checkOnce(ids, false)
		for _, id := range others {
			if a := n.db.get(id); a.State != clock.Rung {
				t.Fatalf("alarm %d is %s", id, a.State)
			}
		}
		claims := map[string]clock.DeliveryMode{}
		for _, id := range append(ids, others...) {
			a := n.db.get(id)
			if before, known := claims[a.ClaimID]; known && before != a.Delivery {
				t.Fatalf("claim %s is of both", a.ClaimID)
			}
			claims[a.ClaimID] = a.Delivery
		}
	})
}

// TestAtMostOnceLost loses the database between claim and settlement for good: rung, in doubt, never again.
func TestAtMostOnceLost(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.slow(100 * time.Millisecond)
		ids := n.many("once", 5, time.Second, atMostOnce)
		time.Sleep(time.Second + 50*time.Millisecond)
		n.db.setDown(true)
		time.Sleep(time.Minute)
		n.db.setDown(false)
		time.Sleep(time.Minute)
		n.checkOnce(ids, true)
	})
}

// TestAtMostOnceSettledLate tries to write the outcome again while the database is away.
func TestAtMostOnceSettledLate(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.slow(100 * time.Millisecond)
		ids := n.many("once", 5, time.Second, atMostOnce)
		time.Sleep(time.Second + 50*time.Millisecond)
		n.db.setDown(true)
		time.Sleep(6 * time.Second)
		n.db.setDown(false)
		time.Sleep(time.Minute)
		n.checkOnce(ids, false)
	})
}

// TestAtMostOnceClaimFails fails the claim of those that ring at most once, after the others have rung: they come back.
func TestAtMostOnceClaimFails(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		once := true
		n.db.settled = func() {
			if once {
				once = false
				n.db.setDown(true)
				time.AfterFunc(3*time.Second, func() { n.db.setDown(false) })
			}
		}
		others := n.many("other", 3, time.Second)
		ids := n.many("once", 3, time.Second, atMostOnce)
		time.Sleep(time.Minute)
		n.checkOnce(ids, false)
		n.wantRungOnce(others, 100*time.Millisecond)
		n.wantRungOnce(ids, 10*time.Second)
	})
}
