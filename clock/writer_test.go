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
				t.Fatalf("%s is answered with %+v", p.op.Key(), d)
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

// Few wait for the transaction under way, many do not.
func TestWriterWritesManyBesideAnother(t *testing.T) {
	twoLanes := func(cfg *ServiceConfig, _ *modelStore) { cfg.Writer.Lanes = 2 }
	withService(t, twoLanes, func(t *testing.T, s *testService) {
		all := []*Pending{s.set("first")}
		underWay := func(want ...int) {
			t.Helper()
			synctest.Wait() // no time passes
			if got := s.store.transactions(); !slices.Equal(got, want) {
				t.Errorf("after %d sets transactions of %d ops, want %d", len(all), got, want)
			}
		}
		underWay(1)
		for i := range besideOps - 1 {
			all = append(all, s.set(fmt.Sprint(i)))
		}
		underWay(1)
		all = append(all, s.set("enough"))
		underWay(1, besideOps)
		all = append(all, s.set("one more"))
		underWay(1, besideOps)
		for _, p := range all {
			must(t, p)
		}
		underWay(1, besideOps, 1)
	})
}

// Who waits for many, one after the other, is woken once a group, not once an op.
func TestWriterAnswersTheFirstOfAGroupLast(t *testing.T) {
	oneLane := func(cfg *ServiceConfig, _ *modelStore) { cfg.Writer.Lanes = 1 }
	withService(t, oneLane, func(t *testing.T, s *testService) {
		group, answered := make([]*Pending, 100), 0
		s.writer.metrics.Op = func(op Op, _ Verdict, _ time.Duration, _ error) { // right before each is answered
			if op.Key().BusinessID == "before" {
				return
			}
			if group[0].answered() {
				t.Errorf("the first is answered after %d of %d", answered, len(group))
			}
			answered++
		}
		s.set("before")
		synctest.Wait() // its transaction is under way
		for i := range group {
			group[i] = s.set(fmt.Sprint(i))
		}
		must(t, group[0])
		if answered != len(group) {
			t.Errorf("%d of %d are answered with the first", answered, len(group))
		}
	})
}

func TestWriterRespectsTheBytesOfAGroup(t *testing.T) {
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

func TestWriterBoundsItsQueue(t *testing.T) {
	configure := func(cfg *ServiceConfig, _ *modelStore) {
		cfg.MaxPayload, cfg.Writer.GroupBytes, cfg.Writer.QueueBytes = 32<<10, 64<<10, 64<<10
	}
	withService(t, configure, func(t *testing.T, s *testService) {
		fit := (64 << 10) / testOpSize()
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

func TestWriterKeepsAHeldKeyFromDelayingOthers(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		must(t, s.set("held"))
		begun := time.Now()
		s.store.lock(Key{"shop", "held"}, 3*time.Second)
		later := testSet("held")
		later.RingAt++
		first, second, third := s.Submit(Op{Set: later}), s.cancel("held"), s.cancel("held")
		for i := range 10 {
			must(t, s.set(fmt.Sprint(i)))
		}
		fourth := s.set("held") // the key is held already
		if took := time.Since(begun); took > 12*s.store.latency {
			t.Errorf("ten sets of other keys took %s", took)
		}
		var got []string
		for _, p := range []*Pending{first, second, third, fourth} {
			d := must(t, p)
			got = append(got, fmt.Sprintf("%s %d", d.Verdict, d.Alarm.Generation))
		}
		if want := []string{"replaced 2", "cancelled 2", "kept 2", "rearmed 3"}; !slices.Equal(got, want) {
			t.Errorf("the held key's ops were %v, want %v", got, want)
		}
		if took := time.Since(begun); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("the held key took %s", took)
		}
		begun = time.Now()
		must(t, s.cancel("held")) // it is back in its lane
		if took := time.Since(begun); took != s.store.latency {
			t.Errorf("afterwards it took %s", took)
		}
	})
}

// A transaction without an answer keeps what comes behind it waiting for a moment only, however little that is.
func TestWriterGoesOnBesideAGroupWithoutAnswer(t *testing.T) {
	hang := func(r WriteRequest) error {
		if r.Ops[0].Key().BusinessID == "hangs" {
			time.Sleep(10 * time.Second)
		}
		return nil
	}
	withService(t, func(cfg *ServiceConfig, st *modelStore) { cfg.Writer.Lanes, st.fail = 2, hang }, func(t *testing.T, s *testService) {
		begun := time.Now()
		slow := s.set("hangs")
		time.Sleep(time.Millisecond)
		for i, want := range []time.Duration{besideAfter + s.store.latency, besideAfter + 2*s.store.latency} {
			must(t, s.set(fmt.Sprint(i)))
			if took := time.Since(begun); took != want {
				t.Errorf("set %d was answered after %s, want %s", i, took, want)
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

func TestWriterGivesAHeldKeyUp(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		must(t, s.set("held"))
		s.store.lock(Key{"shop", "held"}, 20*time.Second)
		begun := time.Now()
		first, second := s.cancel("held"), s.cancel("held")
		time.Sleep(2 * time.Second)
		third := s.cancel("held")
		for _, c := range []struct {
			p  *Pending
			at time.Duration
		}{{first, 5 * time.Second}, {second, 5 * time.Second}, {third, 7 * time.Second}} {
			if code := codeOf(t, c.p); code != CodeUnavailable {
				t.Errorf("answered with %s", code)
			}
			if took := time.Since(begun); took < c.at || took > c.at+100*time.Millisecond {
				t.Errorf("given up after %s, want %s", took, c.at)
			}
		}
		time.Sleep(20 * time.Second)
		if d := must(t, s.cancel("held")); d.Verdict != Stop {
			t.Errorf("afterwards: %s", d.Verdict)
		}
	})
}

func TestWriterLetsFollowersWaitToo(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		must(t, s.set("held"))
		s.store.lock(Key{"shop", "held"}, time.Second)
		first, second := s.set("held"), s.cancel("held")
		must(t, first)
		s.store.lock(Key{"shop", "held"}, time.Second)
		if d := must(t, second); d.Verdict != Stop {
			t.Errorf("answered with %s", d.Verdict)
		}
	})
}

func TestWriterBoundsTheTransactionsThatWait(t *testing.T) {
	const waiting = 2
	configure := func(cfg *ServiceConfig, _ *modelStore) { cfg.Writer.HeldWrites = waiting }
	withService(t, configure, func(t *testing.T, s *testService) {
		var held []*Pending
		for i := range 5 {
			must(t, s.set(fmt.Sprint(i)))
			s.store.lock(Key{"shop", fmt.Sprint(i)}, time.Second)
			held = append(held, s.cancel(fmt.Sprint(i)))
			time.Sleep(50 * time.Millisecond)
		}
		if n := len(s.writer.held); n != waiting {
			t.Errorf("%d transactions wait, want %d", n, waiting)
		}
		must(t, s.set("free")) // is not delayed
		for _, p := range held {
			must(t, p)
		}
	})
}

// claimTwoPhase makes the row one that a two-phase claim holds, for that long.
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
				time.Sleep(6 * time.Second) // longer than HeldWait
				s.store.change(Key{"shop", "a"}, c.settle)
				if c.want == "" {
					if d := must(t, p); d.Verdict != Stop {
						t.Errorf("answered with %s", d.Verdict)
					}
				} else if code := codeOf(t, p); code != c.want {
					t.Errorf("answered with %s", code)
				}
				if took := time.Since(begun); took > 6200*time.Millisecond {
					t.Errorf("answered after %s", took)
				}
			})
		})
	}
}

func TestWriterGivesAClaimUpAtItsEnd(t *testing.T) {
	for end, want := range map[time.Duration]time.Duration{
		2 * time.Second: 2 * time.Second,
		time.Hour:       claimWait, // or the caller would not get a definite answer any more
	} {
		withService(t, nil, func(t *testing.T, s *testService) {
			must(t, s.set("a"))
			s.claimTwoPhase("a", end)
			begun := time.Now()
			other := testSet("a")
			other.RingAt++
			if code := codeOf(t, s.Submit(Op{Set: other})); code != CodeRingInDoubt {
				t.Errorf("answered with %s", code)
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
					t.Errorf("answered with %v, want %v", err, c.kind)
				}
				if code := codeOf(t, p); code != c.code {
					t.Errorf("answered with %s", code)
				}
			}
			if got := s.store.transactions(); !slices.Equal(got, []int{1, 3}) {
				t.Errorf("transactions of %v: something was repeated", got)
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
			t.Errorf("answered with %s after %d transactions", code, len(s.store.groups))
		}
	})
}

func TestWriterLeavesAStoreThatDoesNotAnswer(t *testing.T) {
	configure := func(_ *ServiceConfig, st *modelStore) { st.latency = time.Hour }
	withService(t, configure, func(t *testing.T, s *testService) {
		begun := time.Now()
		if code := codeOf(t, s.set("a")); code != CodeUnavailable || time.Since(begun) != writeTimeout {
			t.Errorf("answered with %s after %s", code, time.Since(begun))
		}
	})
}

// shortStore answers less than it is asked.
type shortStore struct{ *modelStore }

func (s shortStore) Write(ctx context.Context, r WriteRequest) ([]Decision, error) {
	ds, err := s.modelStore.Write(ctx, r)
	return ds[1:], err
}

func TestWriterAnswersAllOfAStoreThatAnswersSome(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		s.writer.store = shortStore{s.store}
		if code := codeOf(t, s.set("a")); code != CodeUnconfirmed {
			t.Errorf("answered with %s", code)
		}
	})
}

func TestWriterDrains(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		must(t, s.set("held"))
		s.store.lock(Key{"shop", "held"}, 3*time.Second)
		all := []*Pending{s.cancel("held"), s.cancel("held")}
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
				t.Fatalf("%v is not answered after Run", p.op.Key())
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

func TestPendingWait(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p := newPending(Op{Set: testSet("a")})
	if _, err := p.Wait(ended); !errors.Is(err, ErrUnconfirmed) || !errors.Is(err, context.Canceled) {
		t.Errorf("without an answer: %v", err)
	}
	p.answer(&Decision{Verdict: Create})
	for range 100 {
		if d, err := p.Wait(ended); err != nil || d.Verdict != Create {
			t.Fatalf("with an answer: %v, %v", d.Verdict, err)
		}
	}
}

// TestWriterIsSequentialPerKey compares random ops of many goroutines on few keys, some of them held at times, some
// transactions failing, with one after the other.
func TestWriterIsSequentialPerKey(t *testing.T) {
	for range 10 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := &lockedRand{r: rand.New(rand.NewPCG(seed, 0))}
			configure := func(cfg *ServiceConfig, st *modelStore) {
				cfg.Writer.Lanes, cfg.Writer.GroupOps, cfg.Writer.HeldWrites = 2, 4, 3
				st.fail = func(WriteRequest) error {
					if rnd.n(20) == 0 {
						return Unavailable(errors.New("deadlock"))
					}
					return nil
				}
			}
			withService(t, configure, func(t *testing.T, s *testService) {
				log := submitRandomly(s, rnd)
				for key, ps := range log {
					checkSequential(t, key, ps)
				}
			})
		})
	}
}

// submitRandomly returns what was submitted on each key, in order, all answered.
func submitRandomly(s *testService, rnd *lockedRand) map[Key][]*Pending {
	var mu sync.Mutex
	var load sync.WaitGroup
	log := map[Key][]*Pending{}
	for range 20 {
		load.Go(func() {
			for range 50 {
				op := randomOp(rnd)
				mu.Lock() // order of arrival is order of submission
				p := s.Submit(op)
				log[op.Key()] = append(log[op.Key()], p)
				mu.Unlock()
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
	key := Key{"shop", fmt.Sprint(rnd.n(5))}
	if rnd.n(4) == 0 {
		return Op{Cancel: &Cancel{Key: key}}
	}
	s := &Set{Key: key, Content: testContent()}
	s.RingAt += Instant(rnd.n(3))
	s.If = Condition{Kind: ConditionKind(rnd.n(5)), Generation: int64(rnd.n(8))}
	return Op{Set: s}
}

// checkSequential applies the ops one after the other, but for those that failed, and compares the answers.
func checkSequential(t *testing.T, key Key, ps []*Pending) {
	t.Helper()
	var row *Alarm
	for i, p := range ps {
		if errors.Is(p.decision.Err, ErrUnavailable) {
			continue
		}
		want := p.op.Decide(row, 0)
		if got, want := answer(p.decision), answer(want); got != want {
			t.Fatalf("%v, op %d of %d: answered %s, want %s", key, i, len(ps), got, want)
		}
		if want.Writes() {
			row = &want.Alarm
		}
	}
}

// answer is what a caller sees of a decision, without instants and ids.
func answer(d Decision) string {
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

func TestWriterConfig(t *testing.T) {
	if err := DefaultServiceConfig().Validate(); err != nil {
		t.Fatalf("the default: %v", err)
	}
	for name, change := range map[string]func(c *ServiceConfig){
		"write lanes":       func(c *ServiceConfig) { c.Writer.Lanes = 0 },
		"write group ops":   func(c *ServiceConfig) { c.Writer.GroupOps = 5001 },
		"write group bytes": func(c *ServiceConfig) { c.Writer.GroupBytes = 64<<10 - 1 },
		"write queue bytes": func(c *ServiceConfig) { c.Writer.QueueBytes = c.Writer.GroupBytes - 1 },
		"held writes":       func(c *ServiceConfig) { c.Writer.HeldWrites = 0 },
		"held wait":         func(c *ServiceConfig) { c.Writer.HeldWait = Patience },
		"max payload":       func(c *ServiceConfig) { c.MaxPayload = -1 },
		"half of the write": func(c *ServiceConfig) { c.MaxPayload = c.Writer.GroupBytes/2 + 1 },
	} {
		cfg := DefaultServiceConfig()
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
		if s, err := NewService(cfg, newModelStore(), nil, nil, nil); s != nil || err == nil {
			t.Errorf("%s: a service with an invalid configuration", name)
		}
	}
}
