package ring_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// openTries returns the number of tries to open a lane.
func (t *modelTarget) openTries() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.openCalls
}

// Without an open lane no batch is claimed, the route cannot ring, and alarms expire on time.
func TestNoClaimWithoutOpenLane(t *testing.T) {
	for name, fault := range map[string]func(*modelTarget){
		"lanes do not open":   func(m *modelTarget) { m.openFails = true },
		"opening lasts":       func(m *modelTarget) { m.openBlocks = true },
		"lanes end when open": func(m *modelTarget) { m.breaksAtOpen = true },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := defaultNode()
			cfg.targetDown = true
			inBubble(t, cfg, func(t *testing.T, n *node) {
				if err := n.route().CannotRing; !errors.Is(err, errDown) {
					t.Errorf("without the target: %v", err)
				}
				n.target.update(func() {
					fault(n.target)
					n.target.down = nil
				})
				ids := n.setMany("shop", 100, time.Second)
				ended := n.set("shop", "ends", time.Second, latestRingAfter(3*time.Second))
				time.Sleep(1900 * time.Millisecond)
				if err := n.route().CannotRing; err != nil {
					t.Errorf("in the first two seconds: %v", err)
				}
				time.Sleep(time.Minute)
				if err := n.route().CannotRing; err == nil {
					t.Error("the route can ring without a lane")
				}
				r := n.route()
				if r.OpenLanes == r.Lanes || r.Lanes != ring.DefaultConfig().Workers+ring.QuarantineWorkers ||
					r.LaneFailure == nil && name != "opening lasts" {
					t.Errorf("%d of %d lanes are open, %v", r.OpenLanes, r.Lanes, r.LaneFailure)
				}
				if tries := n.db.count(&n.db.claimCalls); tries != 0 {
					t.Errorf("%d claims without a lane", tries)
				}
				// per lane: 6 tries until the wait is 5 s, then one every 2.5 to 5 s
				if openCalls := n.target.openTries(); openCalls > 5*(6+60*2/5) {
					t.Errorf("%d tries to open five lanes in a minute", openCalls)
				}
				if a := n.db.get(ended); a.State != clock.Expired {
					t.Errorf("the alarm past its latest time is %s", a.State)
				}
				n.target.update(func() { n.target.openFails, n.target.openBlocks, n.target.breaksAtOpen = false, false, false })
				time.Sleep(10 * time.Second)
				n.wantRungOnce(ids, time.Minute+10*time.Second)
				if err := n.route().CannotRing; err != nil {
					t.Errorf("with lanes: %v", err)
				}
				if r := n.route(); r.OpenLanes != r.Lanes || r.LaneFailure != nil {
					t.Errorf("%d of %d lanes are open, %v", r.OpenLanes, r.Lanes, r.LaneFailure)
				}
			})
		})
	}
}

// A lane breaks at the moment at which a batch is handed out for it. The batch goes back to the heap, and is not in
// flight.
func TestBatchOfBrokenLaneGoesBackToHeap(t *testing.T) {
	cfg := defaultNode()
	cfg.ring.Workers = 1
	inBubble(t, cfg, func(t *testing.T, n *node) {
		var ids []int64
		for round := range 50 {
			due := time.Duration(round+1) * 20 * time.Second
			ids = append(ids, n.setMany(fmt.Sprint("shop", round), 10, due)...)
			time.Sleep(due - n.clock.now().Sub(n.origin))
			n.target.update(func() { n.target.openFails = true })
			n.target.breakLanes()
			time.Sleep(time.Second)
			if _, inFlight := n.heap.Len(); inFlight != 0 {
				t.Fatalf("round %d: %d alarms are in flight without a lane", round, inFlight)
			}
			n.target.update(func() { n.target.openFails = false })
		}
		time.Sleep(10 * time.Second)
		n.wantRungOnce(ids, 7*time.Second)
	})
}

// Lanes that stayed open for laneTrial are opened again at once.
func TestUsedLanesReopenAtOnce(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		time.Sleep(10 * time.Second)
		tried := n.target.openTries()
		n.target.breakLanes()
		synctest.Wait()
		if again := n.target.openTries() - tried; again != ring.DefaultConfig().Workers+ring.QuarantineWorkers {
			t.Errorf("%d lanes were opened again at once", again)
		}
		if err := n.route().CannotRing; err != nil {
			t.Error(err)
		}
	})
}

// A lane that awaits too many late replies opens as soon as one has come.
func TestFullLanesOpenWithTheNextReply(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		time.Sleep(10 * time.Second)
		n.target.update(func() { n.target.openFull = true })
		n.target.breakLanes()
		time.Sleep(time.Minute)
		if r := n.route(); r.OpenLanes != 0 || !errors.Is(r.LaneFailure, ring.ErrLaneFull) || r.CannotRing == nil {
			t.Errorf("%d lanes are open, %v, %v", r.OpenLanes, r.LaneFailure, r.CannotRing)
		}
		n.target.update(func() { n.target.openFull = false })
		time.Sleep(200 * time.Millisecond)
		if r := n.route(); r.OpenLanes != r.Lanes {
			t.Errorf("%d of %d lanes are open", r.OpenLanes, r.Lanes)
		}
	})
}

// A quorum queue without its majority sends no confirms, and its lane gives up its connection each time. That is not
// the lane's fault, so the lane opens again at once.
func TestSilentQueueDoesNotDelayItsProbes(t *testing.T) {
	inBubble(t, defaultNode(), func(t *testing.T, n *node) {
		n.target.update(func() { n.target.outcomes["silent"], n.target.breaksWithoutReply = clock.Doubtful, true })
		n.setMany("silent", 50, time.Second)
		time.Sleep(30 * time.Second)
		before := n.db.claimed("silent")
		time.Sleep(30 * time.Second)
		if probes := n.db.claimed("silent") - before; probes < 8 { // one every 3 s: 1 s of pause, and 2 s without a reply
			t.Errorf("%d probes in 30 s", probes)
		}
		if err := n.route().LaneFailure; err != nil {
			t.Errorf("a lane has a failure: %v", err)
		}
	})
}

// The alarms of a batch that ring at most once are claimed after the others, unless the lane has broken since.
func TestAtMostOnceAlarmsAreNotClaimedForBrokenLane(t *testing.T) {
	cfg := defaultNode()
	cfg.ring.Workers = 1
	inBubble(t, cfg, func(t *testing.T, n *node) {
		n.db.onSettled = sync.OnceFunc(func() {
			n.target.update(func() { n.target.openFails = true })
			n.target.breakLanes()
		})
		n.setMany("shop", 10, time.Second)
		once := n.setMany("once", 10, time.Second, atMostOnce)
		time.Sleep(10 * time.Second)
		if tries := n.db.count(&n.db.claimCalls); tries != 1 {
			t.Errorf("%d claims, the second without a lane", tries)
		}
		n.target.update(func() { n.target.openFails = false })
		time.Sleep(10 * time.Second)
		n.wantRungAtMostOnce(once, false)
	})
}
