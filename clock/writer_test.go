package clock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestWriterAddsNoWaitWhenIdle(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		for i := range 3 {
			begun := time.Now()
			must(t, s.set(fmt.Sprint(i)))
			if took := time.Since(begun); took != s.store.latency {
				t.Errorf("a single set took %s, its transaction %s", took, s.store.latency)
			}
		}
	})
}

func TestWriterGroupsConcurrentRequests(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		first := s.set("first")
		synctest.Wait() // its transaction is under way
		var rest []*Pending
		for i := range 1200 {
			rest = append(rest, s.set(fmt.Sprint(i)))
		}
		for _, p := range append(rest, first) {
			if d := must(t, p); d.Verdict != Create || d.Alarm.Key != p.op.Key() {
				t.Fatalf("%s got %+v", p.op.Key(), d)
			}
		}
		if got, want := s.store.transactions(), []int{1, 500, 500, 200}; !slices.Equal(got, want) {
			t.Errorf("transactions of %d ops, want %d", got, want)
		}
		if len(s.woken) != 1201 || s.ops[Create] != 1201 {
			t.Errorf("%d woken, %d counted", len(s.woken), s.ops[Create])
		}
	})
}

// A few ops wait for the running transaction. Many ops get a second transaction beside it.
func TestWriterWritesManyBesideAnother(t *testing.T) {
	twoCommitters := func(cfg *ServiceConfig, _ *modelStore) { cfg.Writer.Committers = 2 }
	withService(t, twoCommitters, func(t *testing.T, s *testService) {
		all := []*Pending{s.set("first")}
		underWay := func(want ...int) {
			t.Helper()
			synctest.Wait() // time does not advance
			if got := s.store.transactions(); !slices.Equal(got, want) {
				t.Errorf("after %d sets transactions of %d ops, want %d", len(all), got, want)
			}
		}
		underWay(1)
		for i := range secondGroupOps - 1 {
			all = append(all, s.set(fmt.Sprint(i)))
		}
		underWay(1)
		all = append(all, s.set("enough"))
		underWay(1, secondGroupOps)
		all = append(all, s.set("one more"))
		underWay(1, secondGroupOps)
		for _, p := range all {
			must(t, p)
		}
		underWay(1, secondGroupOps, 1)
	})
}

// A caller that waits for many ops one after the other is woken once for each group, not once for each op.
func TestWriterDecidesTheFirstOfAGroupLast(t *testing.T) {
	oneCommitter := func(cfg *ServiceConfig, _ *modelStore) { cfg.Writer.Committers = 1 }
	withService(t, oneCommitter, func(t *testing.T, s *testService) {
		group, decided := make([]*Pending, 100), 0
		s.writer.metrics.Op = func(op Op, _ Verdict, _ time.Duration, _ error) { // called right before each op is finished
			if op.Key().BusinessID == "before" {
				return
			}
			if group[0].decided() {
				t.Errorf("the first is decided after %d of %d", decided, len(group))
			}
			decided++
		}
		s.set("before")
		synctest.Wait() // its transaction is under way
		for i := range group {
			group[i] = s.set(fmt.Sprint(i))
		}
		must(t, group[0])
		if decided != len(group) {
			t.Errorf("%d of %d are decided with the first", decided, len(group))
		}
	})
}

func TestWriterBoundsTheBytesOfAGroup(t *testing.T) {
	configure := func(cfg *ServiceConfig, _ *modelStore) {
		cfg.MaxPayload, cfg.Writer.GroupBytes = 32<<10, 64<<10
	}
	withService(t, configure, func(t *testing.T, s *testService) {
		var all []*Pending
		for i := range 200 {
			set := testSet(fmt.Sprint(i))
			set.Payload = make([]byte, i*7919%(32<<10))
			all = append(all, s.Submit(Op{Set: set}))
		}
		for _, p := range all {
			must(t, p)
		}
		for _, g := range s.store.groups {
			bytes := 0
			for _, op := range g.Ops {
				bytes += op.Size()
			}
			if bytes > 64<<10 {
				t.Errorf("a group of %d ops has %d bytes", len(g.Ops), bytes)
			}
		}
		if n := len(s.store.groups); n > 100 {
			t.Errorf("200 ops took %d transactions", n)
		}
	})
}

func TestWriterBoundsTheQueueOfAnApplication(t *testing.T) {
	configure := func(cfg *ServiceConfig, _ *modelStore) {
		cfg.MaxPayload, cfg.Writer.GroupBytes, cfg.Writer.QueueBytes = 32<<10, 64<<10, 64<<10
	}
	withService(t, configure, func(t *testing.T, s *testService) {
		fit := (48 << 10) / testOpSize() // the share of one application
		var taken []*Pending
		for i := range fit {
			taken = append(taken, s.set(fmt.Sprint(i)))
		}
		for i := range 5 {
			if code := codeOf(t, s.set(fmt.Sprint("beyond", i))); code != CodeOverloaded {
				t.Errorf("beyond the bound: %s", code)
			}
		}
		for _, p := range taken {
			must(t, p)
		}
		must(t, s.set("afterwards"))
		if s.ops[Create] != fit+1 || s.ops[Refuse] != 5 {
			t.Errorf("counted %v", s.ops)
		}
	})
}

func testOpSize() int { return Op{Set: testSet("")}.Size() }

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

// A hanging transaction delays the ops behind it for secondGroupAfter only, even if they are few.
func TestWriterGoesOnBesideAGroupWithoutAnswer(t *testing.T) {
	hang := func(r WriteRequest) error {
		if r.Ops[0].Key().BusinessID == "hangs" {
			time.Sleep(10 * time.Second)
		}
		return nil
	}
	withService(t, func(cfg *ServiceConfig, st *modelStore) { cfg.Writer.Committers, st.fail = 2, hang }, func(t *testing.T, s *testService) {
		begun := time.Now()
		slow := s.set("hangs")
		time.Sleep(time.Millisecond)
		for i, want := range []time.Duration{secondGroupAfter + s.store.latency, secondGroupAfter + 2*s.store.latency} {
			must(t, s.set(fmt.Sprint(i)))
			if took := time.Since(begun); took != want {
				t.Errorf("set %d was decided after %s, want %s", i, took, want)
			}
		}
		must(t, slow)
		begun = time.Now()
		must(t, s.set("afterwards"))
		if took := time.Since(begun); took != s.store.latency {
			t.Errorf("afterwards a set took %s", took)
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
		if d := must(t, s.cancel("locked")); d.Verdict != Stop {
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
		if d := must(t, second); d.Verdict != Stop {
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
		now, _ := s.time.Now()
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
					if d := must(t, p); d.Verdict != Stop {
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

func TestWriterPassesTheStoresErrors(t *testing.T) {
	for _, c := range []struct {
		err  error
		kind error
		code string
	}{
		{Unavailable(errors.New("refused")), ErrUnavailable, CodeUnavailable},
		{Unconfirmed(errors.New("reset")), ErrUnconfirmed, CodeUnconfirmed},
	} {
		var mu sync.Mutex
		var failing error
		configure := func(_ *ServiceConfig, st *modelStore) {
			st.fail = func(WriteRequest) error {
				mu.Lock()
				defer mu.Unlock()
				return failing
			}
		}
		setErr := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			failing = err
		}
		withService(t, configure, func(t *testing.T, s *testService) {
			first := s.set("first")
			synctest.Wait()
			setErr(c.err)
			group := []*Pending{s.set("a"), s.cancel("first"), s.set("b")}
			must(t, first)
			for _, p := range group {
				if _, err := p.Wait(t.Context()); !errors.Is(err, c.kind) {
					t.Errorf("got %v, want %v", err, c.kind)
				}
				if code := codeOf(t, p); code != c.code {
					t.Errorf("got %s", code)
				}
			}
			if got := s.store.transactions(); !slices.Equal(got, []int{1, 3}) {
				t.Errorf("transactions of %v ops: an op was repeated", got)
			}
			if len(s.woken) != 1 {
				t.Errorf("%d woken", len(s.woken))
			}
			setErr(nil)
			must(t, s.set("a"))
		})
	}
}

func TestWriterIsUnavailableWithoutTime(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		s.clock.set(func(c *remoteClock) { c.err = errors.New("down") })
		time.Sleep(20 * time.Second)
		if code := codeOf(t, s.set("a")); code != CodeUnavailable || len(s.store.groups) != 0 {
			t.Errorf("got %s after %d transactions", code, len(s.store.groups))
		}
	})
}

func TestWriterGivesUpAStoreThatHangs(t *testing.T) {
	configure := func(_ *ServiceConfig, st *modelStore) { st.latency = time.Hour }
	withService(t, configure, func(t *testing.T, s *testService) {
		begun := time.Now()
		if code := codeOf(t, s.set("a")); code != CodeUnavailable || time.Since(begun) != writeTimeout {
			t.Errorf("got %s after %s", code, time.Since(begun))
		}
	})
}

// shortStore returns one decision too few.
type shortStore struct{ *modelStore }

func (s shortStore) Write(ctx context.Context, r WriteRequest) ([]Decision, error) {
	decisions, err := s.modelStore.Write(ctx, r)
	return decisions[1:], err
}

func TestWriterIsUnconfirmedWhenAStoreReturnsTooFewDecisions(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		s.writer.store = shortStore{s.store}
		if code := codeOf(t, s.set("a")); code != CodeUnconfirmed {
			t.Errorf("got %s", code)
		}
	})
}

func TestWriterDecidesAllQueuedOpsBeforeItEnds(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		must(t, s.set("locked"))
		s.store.lock(Key{"shop", "locked"}, 3*time.Second)
		all := []*Pending{s.cancel("locked"), s.cancel("locked")}
		time.Sleep(50 * time.Millisecond)
		for i := range 700 {
			all = append(all, s.set(fmt.Sprint(i)))
		}
		s.stop()
		<-s.ended
		for _, p := range all {
			select {
			case <-p.Done():
				must(t, p)
			default:
				t.Fatalf("%v is not decided after Run", p.op.Key())
			}
		}
		before := len(s.store.groups)
		if code := codeOf(t, s.set("late")); code != CodeUnavailable || len(s.store.groups) != before {
			t.Errorf("after Run: %s", code)
		}
	})
}

func TestWriterDrainsUnderLoad(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		var load sync.WaitGroup
		begun := time.Now()
		for i := range 20 {
			load.Go(func() {
				for time.Since(begun) < time.Minute {
					if _, err := s.set(fmt.Sprint(i)).Wait(t.Context()); err != nil {
						return
					}
					time.Sleep(time.Duration(i%7) * time.Millisecond)
				}
			})
		}
		time.Sleep(time.Second)
		stopped := time.Now()
		s.stop()
		<-s.ended
		if took := time.Since(stopped); took > time.Second {
			t.Errorf("the end took %s", took)
		}
		load.Wait()
	})
}

func TestPendingWaitPrefersTheDecisionToTheEndOfItsContext(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p := newPending(t.Context(), Op{Set: testSet("a")})
	if _, err := p.Wait(ended); !errors.Is(err, ErrUnconfirmed) || !errors.Is(err, context.Canceled) {
		t.Errorf("without a decision: %v", err)
	}
	p.decide(&Decision{Verdict: Create})
	for range 100 {
		if d, err := p.Wait(ended); err != nil || d.Verdict != Create {
			t.Fatalf("with a decision: %v, %v", d.Verdict, err)
		}
	}
}

// The decision for a caller that reads no payload holds none, neither in the alarm nor in the error.
func TestBriefAnswersHoldNoPayload(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		absent := testSet("a")
		absent.If.Kind = Absent
		if d := must(t, s.Submit(Op{Set: absent, Brief: true})); d.Verdict != Create || d.Alarm.Payload != nil {
			t.Errorf("got %s and %q", d.Verdict, d.Alarm.Payload)
		}
		d, err := s.Submit(Op{Set: absent, Brief: true}).Wait(t.Context())
		var e *Error
		if !errors.As(err, &e) || e.Code != CodeConditionFailed || e.Alarm.Payload != nil || e.Alarm.Generation != 1 || d.Alarm.Payload != nil {
			t.Errorf("refused with %+v", err)
		}
		if stored, err := s.Get(t.Context(), absent.Key); err != nil || len(stored.Payload) == 0 {
			t.Errorf("stored %+v, %v", stored, err)
		}
		if d := must(t, s.cancel("a")); len(d.Alarm.Payload) == 0 {
			t.Error("a caller that reads the payload gets none")
		}
	})
}

// A group that loads large alarms decides a part of its ops. The next groups decide the other ops, in order.
func TestWriterBoundsTheBytesThatAGroupLoads(t *testing.T) {
	small := func(cfg *ServiceConfig, _ *modelStore) { cfg.Writer.LoadBytes = 64 << 10 }
	withService(t, small, func(t *testing.T, s *testService) {
		var sets, cancels []*Pending
		for i := range 100 {
			sets = append(sets, s.setOf("shop", fmt.Sprint(i), 8<<10))
		}
		for _, p := range sets {
			must(t, p)
		}
		before := len(s.store.transactions())
		cancels = append(cancels, s.cancel("0"))
		synctest.Wait() // the first is being written alone; time does not advance until the others are queued
		for i := range 99 {
			cancels = append(cancels, s.cancel(fmt.Sprint(i+1)))
		}
		for _, p := range cancels {
			if d := must(t, p); d.Verdict != Stop || len(d.Alarm.Payload) != 8<<10 {
				t.Fatalf("got %s, %d bytes", d.Verdict, len(d.Alarm.Payload))
			}
		}
		if n := len(s.store.transactions()) - before; n != 1+13 {
			t.Errorf("%d transactions for 8 KiB and 792 KiB, want 14 of 64 KiB", n)
		}
	})
}

// TestWriterIsSequentialPerKey submits random ops from many goroutines, on few keys of some applications. Then it applies the same ops
// one after the other, and the decisions must be equal. Sometimes keys are locked, transactions fail, callers leave, and the
// queue or a key is full.
func TestWriterIsSequentialPerKey(t *testing.T) {
	for range 10 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := &lockedRand{r: rand.New(rand.NewPCG(seed, 0))}
			configure := func(cfg *ServiceConfig, st *modelStore) {
				cfg.Writer.Committers, cfg.Writer.GroupOps, cfg.Writer.LockedWrites, cfg.Writer.KeyOps = 2, 4, 3, 8
				cfg.MaxPayload, cfg.Writer.GroupBytes, cfg.Writer.QueueBytes = 32<<10, 64<<10, 64<<10
				st.latency = 200 * time.Millisecond
				st.fail = func(WriteRequest) error {
					if rnd.n(20) == 0 {
						return Unavailable(errors.New("deadlock"))
					}
					return nil
				}
			}
			withService(t, configure, func(t *testing.T, s *testService) {
				s.writer.cfg.LoadBytes = 2 << 10 // less than the rows of a group have
				log := submitRandomly(s, rnd)
				for key, ps := range log {
					checkSequential(t, key, ps)
				}
				t.Logf("%v were decided, %v dropped", s.ops, s.dropped)
				if s.dropped[DropAbandoned] == 0 || s.dropped[DropKeyFull] == 0 || s.dropped[DropQueueFull] == 0 || s.ops[Keep] == 0 || s.store.postponed == 0 {
					t.Errorf("%v were decided and %v dropped: the test does not try every case", s.ops, s.dropped)
				}
			})
		})
	}
}

// submitRandomly submits random ops and waits for them. It returns the ops on each key, in the order of submission.
func submitRandomly(s *testService, rnd *lockedRand) map[Key][]*Pending {
	var mu sync.Mutex
	var load sync.WaitGroup
	log := map[Key][]*Pending{}
	for range 20 {
		load.Go(func() {
			callers, leave := context.WithTimeout(context.Background(), time.Minute)
			defer leave()
			for range 50 {
				op := randomOp(rnd)
				mu.Lock() // makes the order in log the order of arrival
				ctx, leave := context.WithTimeout(callers, time.Duration(200+rnd.n(5000))*time.Millisecond)
				p := s.Service.Submit(ctx, op)
				log[op.Key()] = append(log[op.Key()], p)
				mu.Unlock()
				context.AfterFunc(ctx, leave)
				if rnd.n(4) == 0 {
					leave()
				}
				if rnd.n(10) == 0 {
					s.store.lock(op.Key(), time.Duration(rnd.n(200))*time.Millisecond)
				}
				if rnd.n(3) == 0 {
					<-p.Done()
				}
				time.Sleep(time.Duration(rnd.n(15)) * time.Millisecond)
			}
		})
	}
	load.Wait()
	for _, ps := range log {
		for _, p := range ps {
			<-p.Done()
		}
	}
	return log
}

func randomOp(rnd *lockedRand) Op {
	key := Key{[]string{"shop", "shop", "shop", "books", "toys"}[rnd.n(5)], fmt.Sprint(rnd.n(4))}
	if rnd.n(4) == 0 {
		return Op{Cancel: &Cancel{Key: key}}
	}
	s := &Set{Key: key, Content: testContent()}
	s.RingAt += Instant(rnd.n(3))
	s.Payload = make([]byte, rnd.n(2<<10))
	s.If = Condition{Kind: ConditionKind(rnd.n(5)), Generation: int64(rnd.n(8))}
	return Op{Set: s}
}

// checkSequential applies the ops one after the other, except for unavailable ops, and compares the decisions.
func checkSequential(t *testing.T, key Key, ps []*Pending) {
	t.Helper()
	var row *Alarm
	for i, p := range ps {
		if errors.Is(p.decision.Err, ErrUnavailable) {
			continue
		}
		want := p.op.Decide(row, 0)
		if got, want := describe(p.decision), describe(want); got != want {
			t.Fatalf("%v, op %d of %d: got %s, want %s", key, i, len(ps), got, want)
		}
		if want.Writes() {
			row = &want.Alarm
		}
	}
}

// describe returns a decision as a text for comparison, without instants and ids.
func describe(d Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %d %d", d.Verdict, d.Alarm.State, d.Alarm.Generation, d.Alarm.RingAt)
	var e *Error
	if errors.As(d.Err, &e) {
		b.WriteString(" " + e.Code)
	}
	return b.String()
}

type lockedRand struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (l *lockedRand) n(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.IntN(n)
}

func TestServiceConfigNamesTheInvalidField(t *testing.T) {
	if err := DefaultServiceConfig().Validate(); err != nil {
		t.Fatalf("the default: %v", err)
	}
	for name, change := range map[string]func(c *ServiceConfig){
		"write committers":  func(c *ServiceConfig) { c.Writer.Committers = 0 },
		"write group ops":   func(c *ServiceConfig) { c.Writer.GroupOps = 5001 },
		"write group bytes": func(c *ServiceConfig) { c.Writer.GroupBytes = 64<<10 - 1 },
		"write queue bytes": func(c *ServiceConfig) { c.Writer.QueueBytes = c.Writer.GroupBytes - 1 },
		"locked writes":     func(c *ServiceConfig) { c.Writer.LockedWrites = 0 },
		"lock wait":         func(c *ServiceConfig) { c.Writer.LockWait = Patience },
		"max payload":       func(c *ServiceConfig) { c.MaxPayload = -1 },
		"half of the write": func(c *ServiceConfig) { c.MaxPayload = c.Writer.GroupBytes/2 + 1 },
	} {
		cfg := DefaultServiceConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if s, err := NewService(cfg, ServiceDeps{Store: newModelStore()}); s != nil || err == nil {
			t.Errorf("%s: a service with an invalid configuration", name)
		}
	}
}
