package ring_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// subscriberNode is a node that rings to subscribers of the stream.
type subscriberNode struct {
	*node
	stopReading context.CancelFunc
	ctx         context.Context
	readers     sync.WaitGroup

	mu    sync.Mutex
	taken map[int64][]clock.Instant // times at which the subscribers took each alarm
}

// withSubscribers runs a test in a bubble, with claims of both kinds.
func withSubscribers(t *testing.T, test func(t *testing.T, n *subscriberNode)) {
	t.Helper()
	for name, twoPhase := range map[string]bool{"held": false, "two-phase": true} {
		t.Run(name, func(t *testing.T) {
			cfg := defaultNode()
			cfg.twoPhase, cfg.subscribers = twoPhase, true
			inBubble(t, cfg, func(t *testing.T, n *node) {
				s := &subscriberNode{node: n, taken: map[int64][]clock.Instant{}}
				s.ctx, s.stopReading = context.WithCancel(t.Context())
				test(t, s)
				n.stop()
				s.stopReading()
				s.readers.Wait()
			})
		})
	}
}

// subscribe adds a subscriber that waits takes() before each report.
func (n *subscriberNode) subscribe(application string, takes func() time.Duration) {
	n.subscribeWith(application, func(d clock.Delivery) {
		n.note(d.Rings)
		time.Sleep(takes())
		d.Done(len(d.Rings), len(d.Rings), nil)
	})
}

// subscribeWith adds a subscriber that handles each delivery with handle.
func (n *subscriberNode) subscribeWith(application string, handle func(d clock.Delivery)) {
	s := n.streams.Subscribe(application)
	n.readers.Go(func() {
		defer s.Close()
		for {
			select {
			case d := <-s.Deliveries():
				handle(d)
			case <-n.ctx.Done():
				return
			}
		}
	})
}

func (n *subscriberNode) note(rings []clock.Ring) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i := range rings {
		n.taken[rings[i].AlarmID] = append(n.taken[rings[i].AlarmID], n.clock.now())
	}
}

// wantTakenOnce checks that each alarm was taken once, with at most that lateness.
func (n *subscriberNode) wantTakenOnce(ids []int64, most time.Duration) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, id := range ids {
		a := n.db.get(id)
		if len(n.taken[id]) != 1 {
			n.t.Fatalf("alarm %s was taken %d times", a.Key, len(n.taken[id]))
		}
		if was := n.taken[id][0].Sub(a.RingAt); was < 0 || was > most {
			n.t.Fatalf("alarm %s was taken %s late, want at most %s", a.Key, was, most)
		}
		if a.State != clock.Rung || a.InDoubt {
			n.t.Fatalf("alarm %s is %s, in doubt %t", a.Key, a.State, a.InDoubt)
		}
	}
}

func always(d time.Duration) func() time.Duration { return func() time.Duration { return d } }

// Subscribers that take up to two seconds for each delivery make no ring of another application late, and no ring of
// theirs is copied.
func TestSlowSubscribersDelayNoOther(t *testing.T) {
	withSubscribers(t, func(_ *testing.T, n *subscriberNode) {
		var quick, slow []int64
		for i := range 20 {
			application, rnd := fmt.Sprint("slow", i), rand.New(rand.NewPCG(1, uint64(i)))
			n.subscribe(application, func() time.Duration {
				return 100*time.Millisecond + time.Duration(rnd.Int64N(int64(1900*time.Millisecond)))
			})
			slow = append(slow, n.setEvery(application, 20, time.Second+time.Duration(i)*time.Millisecond)...)
		}
		for i := range 10 {
			application := fmt.Sprint("quick", i)
			n.subscribe(application, always(time.Millisecond))
			quick = append(quick, n.setEvery(application, 400, 50*time.Millisecond)...)
		}
		time.Sleep(time.Minute)
		n.wantTakenOnce(quick, 100*time.Millisecond)
		n.wantTakenOnce(slow, 3*time.Second) // they have few free moments
	})
}

// A subscriber that is slow but free when its next alarm is due leaves its application healthy, although only its rings
// are late in each batch.
func TestSlowSubscriberAloneMakesNoApplicationSuspect(t *testing.T) {
	withSubscribers(t, func(t *testing.T, n *subscriberNode) {
		var ids []int64
		for application, takes := range map[string]time.Duration{"slow": time.Second, "a": 0, "b": 0, "c": 0} {
			n.subscribe(application, always(takes))
			ids = append(ids, n.setEvery(application, 10, 2*time.Second)...)
		}
		for range 25 {
			time.Sleep(time.Second)
			if n.quarantined() != 0 {
				t.Fatal("an application is in quarantine")
			}
		}
		n.wantTakenOnce(ids, 0)
	})
}

// A subscriber that reports steadily, just quickly enough not to be slow, holds up other applications for at most 100
// ms, whatever its backlog.
func TestSteadySubscriberWithBacklogDelaysOthersLittle(t *testing.T) {
	withSubscribers(t, func(_ *testing.T, n *subscriberNode) {
		n.subscribe("steady", always(90*time.Millisecond))
		n.subscribe("quick", always(time.Millisecond))
		steady, quick := n.setMany("steady", 5000, 2*time.Second), n.setEvery("quick", 600, 20*time.Millisecond)
		time.Sleep(20 * time.Second)
		n.wantTakenOnce(quick, 150*time.Millisecond)
		n.wantTakenOnce(steady, 12*time.Second) // one subscriber alone needs 7 s
	})
}

// Subscribers that take nothing delay no application whose subscriber is slow, although all of them ring in the
// quarantine.
func TestStuckSubscribersDelayNoSlowOne(t *testing.T) {
	withSubscribers(t, func(_ *testing.T, n *subscriberNode) {
		for i := range 20 {
			stuck := fmt.Sprint("stuck", i)
			n.subscribe(stuck, always(5*time.Second))
			n.setEvery(stuck, 100, 100*time.Millisecond)
		}
		n.subscribe("slow", always(120*time.Millisecond))
		ids := n.setEvery("slow", 1000, 10*time.Millisecond)
		time.Sleep(15 * time.Second)
		n.wantTakenOnce(ids, time.Second)
		time.Sleep(time.Minute)
	})
}

// A slow subscriber whose first deliveries failed is not held for that: a report proves as much when it is late.
func TestSlowSubscriberRecoversAfterFailures(t *testing.T) {
	withSubscribers(t, func(t *testing.T, n *subscriberNode) {
		failures := 0
		n.subscribeWith("a", func(d clock.Delivery) {
			time.Sleep(150 * time.Millisecond)
			if failures++; failures <= 3 {
				d.Done(0, len(d.Rings), errors.New("cut"))
				return
			}
			n.note(d.Rings)
			d.Done(len(d.Rings), len(d.Rings), nil)
		})
		ids := n.setEvery("a", 600, 50*time.Millisecond)
		time.Sleep(40 * time.Second)
		n.wantTakenOnce(ids, 8*time.Second) // a probe, and the backlog since then
		if applications, _ := n.loop.Quarantined(); len(applications) > 0 && applications[0].Health != "suspect" {
			t.Errorf("the application is %s", applications[0].Health)
		}
	})
}

// A subscriber on a slow link writes some rings within the time limit. It gets the other rings later, and no copies.
func TestSubscriberOnASlowLinkGetsNoCopies(t *testing.T) {
	withSubscribers(t, func(_ *testing.T, n *subscriberNode) {
		n.subscribeWith("a", func(d clock.Delivery) {
			for i := range d.Rings {
				if d.TooLateToWrite() {
					d.Done(i, i, errors.New("too late"))
					return
				}
				time.Sleep(50 * time.Millisecond)
				n.note(d.Rings[i : i+1])
			}
			d.Done(len(d.Rings), len(d.Rings), nil)
		})
		ids := n.setMany("a", 300, time.Second)
		time.Sleep(time.Minute)
		n.wantTakenOnce(ids, 20*time.Second)
	})
}

// A subscriber is cut in the middle of a delivery, in time or late. A ring without a written byte rings again, also if
// it rings at most once. A begun ring is repeated, but not if it rings at most once.
func TestCutSubscriberLeavesOnlyBegunRingsInDoubt(t *testing.T) {
	const count, written, begun = 20, 3, 5
	for name, takes := range map[string]time.Duration{"in time": time.Millisecond, "late": time.Second} {
		for _, mode := range []clock.DeliveryMode{clock.AtLeastOnce, clock.AtMostOnce} {
			t.Run(fmt.Sprint(name, " ", mode), func(t *testing.T) {
				withSubscribers(t, func(t *testing.T, n *subscriberNode) {
					cut, broken := false, map[int64]bool{} // alarms whose first ring was begun and not written
					n.subscribeWith("a", func(d clock.Delivery) {
						if !cut {
							cut = true
							n.note(d.Rings[:begun])
							for _, r := range d.Rings[written:begun] {
								broken[r.AlarmID] = true
							}
							time.Sleep(takes)
							d.Done(written, begun, errors.New("cut"))
							return
						}
						n.note(d.Rings)
						d.Done(len(d.Rings), len(d.Rings), nil)
					})
					ids := n.setMany("a", count, time.Second, func(s *clock.Set) { s.Delivery = mode })
					time.Sleep(3 * time.Minute)
					n.mu.Lock()
					defer n.mu.Unlock()
					for _, id := range ids {
						copies, doubtful := 1, broken[id] && mode == clock.AtMostOnce
						if broken[id] && mode == clock.AtLeastOnce {
							copies = 2
						}
						if a := n.db.get(id); len(n.taken[id]) != copies || a.State != clock.Rung ||
							a.InDoubt != doubtful {
							t.Errorf("alarm %d, broken %t, was taken %d times; it is %s, in doubt %t", id, broken[id],
								len(n.taken[id]), a.State, a.InDoubt)
						}
					}
					if len(broken) != begun-written {
						t.Errorf("%d rings were broken", len(broken))
					}
				})
			})
		}
	}
}

// A node with many late deliveries stops in time although the database does not reply.
func TestNodeWithLateDeliveriesStopsWhileTheDatabaseHangs(t *testing.T) {
	withSubscribers(t, func(t *testing.T, n *subscriberNode) {
		for i := range 20 {
			application := fmt.Sprint("slow", i)
			n.subscribe(application, always(1500*time.Millisecond))
			n.set(application, "1", time.Second+time.Duration(i)*20*time.Millisecond)
		}
		time.Sleep(2300 * time.Millisecond)
		n.db.slow(time.Minute)
		time.Sleep(1500 * time.Millisecond)
		began := time.Now()
		n.stop()
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("the stop took %s", took)
		}
		n.db.slow(0)
	})
}

// Alarms that may not ring any more end within seconds, although the last subscriber has left.
func TestAlarmsEndWithoutASubscriber(t *testing.T) {
	withSubscribers(t, func(t *testing.T, n *subscriberNode) {
		s := n.streams.Subscribe("shop")
		unanswered := n.setUnanswered()
		d := <-s.Deliveries()
		d.Done(len(d.Rings), len(d.Rings), nil)
		s.Close()
		late := n.setTooLate()
		time.Sleep(10 * time.Second)
		n.wantEnded(unanswered, late)
	})
}
