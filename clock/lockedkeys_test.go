package clock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestWriterDelaysNoOtherKeyForALockedKey(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		must(t, s.set("locked"))
		begun := time.Now()
		s.store.lock(Key{"shop", "locked"}, 3*time.Second)
		later := testSet("locked")
		later.RingAt++
		first, second, third := s.Submit(Op{Set: later}), s.cancel("locked"), s.cancel("locked")
		for i := range 10 {
			must(t, s.set(fmt.Sprint(i)))
		}
		fourth := s.set("locked") // the key is locked already
		if took := time.Since(begun); took > 12*s.store.latency {
			t.Errorf("ten sets of other keys took %s", took)
		}
		var got []string
		for _, p := range []*Pending{first, second, third, fourth} {
			d := must(t, p)
			got = append(got, fmt.Sprintf("%s %d", d.Verdict, d.Alarm.Generation))
		}
		if want := []string{"replaced 2", "cancelled 2", "kept 2", "rearmed 3"}; !slices.Equal(got, want) {
			t.Errorf("the ops on the locked key were %v, want %v", got, want)
		}
		if took := time.Since(begun); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("the ops on the locked key took %s", took)
		}
		begun = time.Now()
		must(t, s.cancel("locked")) // groups take the key again
		if took := time.Since(begun); took != s.store.latency {
			t.Errorf("afterwards it took %s", took)
		}
	})
}

func TestWriterRefusesOpsOnAKeyThatStaysLocked(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		must(t, s.set("locked"))
		s.store.lock(Key{"shop", "locked"}, 20*time.Second)
		begun := time.Now()
		first, second := s.cancel("locked"), s.cancel("locked")
		time.Sleep(2 * time.Second)
		third := s.cancel("locked")
		for _, c := range []struct {
			p  *Pending
			at time.Duration
		}{{first, 5 * time.Second}, {second, 5 * time.Second}, {third, 7 * time.Second}} {
			if code := codeOf(t, c.p); code != CodeUnavailable {
				t.Errorf("got %s", code)
			}
			if took := time.Since(begun); took < c.at || took > c.at+100*time.Millisecond {
				t.Errorf("given up after %s, want %s", took, c.at)
			}
		}
		time.Sleep(20 * time.Second)
		if d := must(t, s.cancel("locked")); d.Verdict != Disarm {
			t.Errorf("afterwards: %s", d.Verdict)
		}
	})
}

func TestWriterLetsTheNextOpOnALockedKeyWaitToo(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		must(t, s.set("locked"))
		s.store.lock(Key{"shop", "locked"}, time.Second)
		first, second := s.set("locked"), s.cancel("locked")
		must(t, first)
		s.store.lock(Key{"shop", "locked"}, time.Second)
		if d := must(t, second); d.Verdict != Disarm {
			t.Errorf("got %s", d.Verdict)
		}
	})
}

func TestWriterBoundsTheTransactionsThatWait(t *testing.T) {
	const waiting = 2
	configure := func(cfg *ServiceConfig, _ *modelStore) { cfg.Writer.LockedWrites = waiting }
	withService(t, configure, func(t *testing.T, s *testService) {
		var locked []*Pending
		for i := range 5 {
			must(t, s.set(fmt.Sprint(i)))
			s.store.lock(Key{"shop", fmt.Sprint(i)}, time.Second)
			locked = append(locked, s.cancel(fmt.Sprint(i)))
			time.Sleep(50 * time.Millisecond)
		}
		if n := s.writer.lockSlots.free; n != 0 {
			t.Errorf("%d slots are free while five rows are locked", n)
		}
		if n := s.store.waiting(); n > waiting {
			t.Errorf("%d transactions wait, want %d at most", n, waiting)
		}
		must(t, s.set("free")) // not delayed
		for _, p := range locked {
			must(t, p)
		}
	})
}

// claimTwoPhase changes the row as a two-phase claim does that ends after the duration d.
func (s *testService) claimTwoPhase(id string, d time.Duration) {
	s.store.change(Key{"shop", id}, func(a *Alarm) {
		now, _ := s.time.AtLeast()
		a.State, a.RungAt, a.NextTryTime = Ringing, NoInstant, now.Add(d)
	})
}

func TestWriterWaitsForTheOutcomeOfAClaim(t *testing.T) {
	for _, c := range []struct {
		name, want string
		settle     func(a *Alarm)
	}{
		{"confirmed", CodeAlreadyRung, func(a *Alarm) { a.State, a.RungAt, a.NextTryTime = Rung, 5, NoInstant }},
		{"returned", "", func(a *Alarm) { a.State = Scheduled }},
		{"in doubt", CodeRingInDoubt, func(a *Alarm) { a.State, a.InDoubt = Scheduled, true }},
	} {
		t.Run(c.name, func(t *testing.T) {
			withService(t, nil, func(t *testing.T, s *testService) {
				must(t, s.set("a"))
				s.claimTwoPhase("a", 30*time.Second)
				begun := time.Now()
				p := s.cancel("a")
				time.Sleep(6 * time.Second) // longer than LockWait
				s.store.change(Key{"shop", "a"}, c.settle)
				if c.want == "" {
					if d := must(t, p); d.Verdict != Disarm {
						t.Errorf("got %s", d.Verdict)
					}
				} else if code := codeOf(t, p); code != c.want {
					t.Errorf("got %s", code)
				}
				if took := time.Since(begun); took > 6200*time.Millisecond {
					t.Errorf("decided after %s", took)
				}
			})
		})
	}
}

func TestWriterWaitsNoLongerThanTheClaim(t *testing.T) {
	for end, want := range map[time.Duration]time.Duration{
		2 * time.Second: 2 * time.Second,
		time.Hour:       twoPhaseWait, // a longer wait would leave the caller without a definite result
	} {
		withService(t, nil, func(t *testing.T, s *testService) {
			must(t, s.set("a"))
			s.claimTwoPhase("a", end)
			begun := time.Now()
			other := testSet("a")
			other.RingAt++
			if code := codeOf(t, s.Submit(Op{Set: other})); code != CodeRingInDoubt {
				t.Errorf("got %s", code)
			}
			if took := time.Since(begun); took < want || took > want+100*time.Millisecond {
				t.Errorf("claim of %s: given up after %s, want %s", end, took, want)
			}
		})
	}
}

// All rows of one application stay locked. An op of another application, whose row is locked for a second, gets its
// turn among the transactions that wait.
func TestWriterLetsApplicationsTakeTurnsAmongLockedRows(t *testing.T) {
	configure := func(cfg *ServiceConfig, _ *modelStore) { cfg.Writer.LockedWrites = 2 }
	withService(t, configure, func(t *testing.T, s *testService) {
		const rows = 20
		var stuck []*Pending
		for i := range rows {
			must(t, s.setOf("flood", fmt.Sprint(i), 0))
			s.store.lock(Key{"flood", fmt.Sprint(i)}, time.Hour)
		}
		must(t, s.set("order"))
		for i := range rows {
			stuck = append(stuck, s.Submit(Op{Cancel: &Cancel{Key: Key{"flood", fmt.Sprint(i)}}}))
		}
		time.Sleep(100 * time.Millisecond)
		s.store.lock(Key{"shop", "order"}, time.Second)
		if d := must(t, s.cancel("order")); d.Verdict != Disarm {
			t.Errorf("got %s", d.Verdict)
		}
		for _, p := range stuck {
			if code := codeOf(t, p); code != CodeUnavailable {
				t.Errorf("a row that stays locked: %s", code)
			}
		}
	})
}

// An op whose caller has left takes no turn among the transactions that wait.
func TestWriterDropsAbandonedOpsOnLockedKeys(t *testing.T) {
	configure := func(cfg *ServiceConfig, _ *modelStore) { cfg.Writer.LockedWrites = 1 }
	withService(t, configure, func(t *testing.T, s *testService) {
		left, leave := context.WithCancel(t.Context())
		var gone []*Pending
		for i := range 10 {
			id := fmt.Sprint(i)
			must(t, s.set(id))
			s.store.lock(Key{"shop", id}, time.Hour)
			gone = append(gone, s.Service.Submit(left, Op{Cancel: &Cancel{Key: Key{"shop", id}}}))
		}
		time.Sleep(100 * time.Millisecond)
		before := len(s.store.transactions())
		leave()
		for _, p := range gone {
			if code := codeOf(t, p); code != CodeUnavailable {
				t.Errorf("got %s", code)
			}
		}
		if n := len(s.store.transactions()) - before; n > 2 || s.dropped[DropAbandoned] != len(gone) {
			t.Errorf("%d transactions for clients that left, %v dropped", n, s.dropped)
		}
	})
}

// All ops on a locked key are written in order, even if the node stops meanwhile.
func TestWriterDecidesAllOpsOnALockedKeyBeforeItEnds(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		must(t, s.set("locked"))
		s.store.lock(Key{"shop", "locked"}, 3*time.Second)
		var all []*Pending
		for range 5 {
			all = append(all, s.cancel("locked"), s.set("locked"))
		}
		time.Sleep(50 * time.Millisecond)
		s.stop()
		<-s.ended
		for i, p := range all {
			if d := must(t, p); (i%2 == 0) != (d.Verdict == Disarm) {
				t.Errorf("op %d: %s", i, d.Verdict)
			}
		}
		if _, err := s.set("late").Wait(t.Context()); !errors.Is(err, ErrUnavailable) || s.dropped[DropStopping] != 1 {
			t.Errorf("after the end: %v, %v dropped", err, s.dropped)
		}
	})
}
