package clock

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
			if d := must(t, p); d.Verdict != Disarm || len(d.Alarm.Payload) != 8<<10 {
				t.Fatalf("got %s, %d bytes", d.Verdict, len(d.Alarm.Payload))
			}
		}
		if n := len(s.store.transactions()) - before; n != 1+13 {
			t.Errorf("%d transactions for 8 KiB and 792 KiB, want 14 of 64 KiB", n)
		}
	})
}
