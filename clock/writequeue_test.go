package clock

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// setOf submits a set of an application. payload is the size of its payload, in bytes.
func (s *testService) setOf(application, id string, payload int) *Pending {
	set := testSet(id)
	set.Application, set.Payload = application, make([]byte, payload)
	return s.Submit(Op{Set: set})
}

// smallQueue limits the queue to 256 KiB and a group to 64 KiB.
func smallQueue(cfg *ServiceConfig, _ *modelStore) {
	cfg.MaxPayload, cfg.Writer.GroupBytes, cfg.Writer.QueueBytes = 32<<10, 64<<10, 256<<10
}

// fill submits sets of an application until one is refused, and returns the queued ones.
func (s *testService) fill(application string, payload int) (queued []*Pending) {
	for i := 0; ; i++ {
		p := s.setOf(application, fmt.Sprint(i), payload)
		if p.decided() {
			return queued
		}
		queued = append(queued, p)
	}
}

// One application cannot fill the queue. Beyond its share it is refused.
func TestWriterLeavesRoomForOtherApplications(t *testing.T) {
	withService(t, smallQueue, func(t *testing.T, s *testService) {
		all := s.fill("flood", 1024)
		if code := codeOf(t, s.setOf("flood", "beyond", 1024)); code != CodeOverloaded {
			t.Errorf("beyond its share: %s", code)
		}
		for i := range 20 {
			all = append(all, s.setOf("shop", fmt.Sprint(i), 1024))
		}
		for _, p := range all {
			must(t, p)
		}
	})
}

// A full queue accepts the new op and refuses the newest op of the application with the most queued bytes.
func TestWriterPushesOutTheNewestOfTheLargestApplication(t *testing.T) {
	withService(t, smallQueue, func(t *testing.T, s *testService) {
		first := s.setOf("shop", "first", 0)
		synctest.Wait() // its transaction is under way
		large := s.fill("large", 1024)
		var few []*Pending
		for i := range 30 {
			few = append(few, s.setOf("shop", fmt.Sprint(i), 1024), s.setOf("books", fmt.Sprint(i), 1024))
		}
		for _, p := range append(few, first) {
			must(t, p)
		}
		refused := 0
		for i, p := range large {
			if _, err := p.Wait(t.Context()); err == nil {
				if refused > 0 {
					t.Fatalf("set %d of %d is written, an earlier one is not", i, len(large))
				}
				continue
			}
			refused++
			if code := codeOf(t, p); code != CodeOverloaded {
				t.Errorf("pushed out with %s", code)
			}
		}
		if refused == 0 || refused > len(few) || s.dropped[DropQueueFull] != refused+1 {
			t.Errorf("%d ops of the largest application were refused for %d new ops; counted: %v", refused, len(few),
				s.dropped)
		}
	})
}

// An application whose ops wait too long gets no further sets, and after twice that wait no other ops. Other
// applications are accepted.
func TestWriterRefusesAnApplicationWhoseOpsWaitTooLong(t *testing.T) {
	slow := func(_ *ServiceConfig, st *modelStore) { st.latency = 10 * time.Second }
	withService(t, slow, func(t *testing.T, s *testService) {
		first := s.setOf("flood", "first", 0)
		synctest.Wait() // its transaction is under way
		accepted := []*Pending{first, s.setOf("flood", "waits", 0)}
		time.Sleep(DefaultWriterConfig().QueueWait - 10*time.Millisecond)
		accepted = append(accepted, s.setOf("flood", "just in time", 0))
		time.Sleep(11 * time.Millisecond)
		if code := codeOf(t, s.setOf("flood", "too late", 0)); code != CodeOverloaded {
			t.Errorf("a set after the wait: %s", code)
		}
		accepted = append(accepted, s.setOf("shop", "other", 0))
		cancel := s.Submit(Op{Cancel: &Cancel{Key: Key{Application: "flood", BusinessID: "waits"}}})
		time.Sleep(DefaultWriterConfig().QueueWait)
		if code := codeOf(t, s.Submit(Op{Cancel: &Cancel{Key: Key{Application: "flood", BusinessID: "first"}}})); code != CodeOverloaded {
			t.Errorf("a cancel after twice the wait: %s", code)
		}
		for _, p := range append(accepted, cancel) {
			must(t, p)
		}
		accepted = append(accepted, s.setOf("flood", "again", 0))
		must(t, accepted[len(accepted)-1])
		if s.dropped[DropQueueSlow] != 2 {
			t.Errorf("counted %v", s.dropped)
		}
	})
}

// An op that would wait past its caller's deadline is refused at once.
func TestWriterRefusesOpsThatWouldMissTheirDeadline(t *testing.T) {
	slow := func(_ *ServiceConfig, st *modelStore) { st.latency = 10 * time.Second }
	withService(t, slow, func(t *testing.T, s *testService) {
		accepted := []*Pending{s.setOf("shop", "first", 0)}
		synctest.Wait() // its transaction is under way
		accepted = append(accepted, s.setOf("shop", "waits", 0))
		time.Sleep(2 * time.Second)
		within := func(id string, limit time.Duration) *Pending {
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			t.Cleanup(cancel)
			return s.Service.Submit(ctx, Op{Set: &Set{Key: Key{"shop", id}, Content: testContent()}})
		}
		if code := codeOf(t, within("hasty", 1999*time.Millisecond)); code != CodeOverloaded {
			t.Errorf("an op with less time than the others have waited: %s", code)
		}
		accepted = append(accepted, within("patient", time.Minute))
		for _, p := range accepted {
			must(t, p)
		}
		if s.dropped[DropQueueSlow] != 1 {
			t.Errorf("counted %v", s.dropped)
		}
	})
}

// What counts is the wait that the new op would have. A long queue refuses sets before any op has waited too long, and
// a queue that is almost written accepts them although its ops have waited longer.
func TestWriterExpectsTheWaitOfNewOps(t *testing.T) {
	slow := func(cfg *ServiceConfig, st *modelStore) { cfg.Writer.GroupOps, st.latency = 100, 2*time.Second }
	withService(t, slow, func(t *testing.T, s *testService) {
		all := []*Pending{s.set("first")}
		synctest.Wait() // its transaction is under way
		for i := range 300 {
			all = append(all, s.set(fmt.Sprint(i)))
		}
		time.Sleep(3 * time.Second) // the first group of three is being written
		if code := codeOf(t, s.set("early")); code != CodeOverloaded {
			t.Errorf("a set behind two groups, after 3 s for two transactions: %s", code)
		}
		time.Sleep(2 * time.Second) // only the third group is queued; its ops have waited for 5 s
		all = append(all, s.set("late"))
		for _, p := range all {
			must(t, p)
		}
	})
}

// The wait for an earlier op on the same key does not count as a wait for a group.
func TestWriterCountsNoWaitForAKey(t *testing.T) {
	slow := func(cfg *ServiceConfig, st *modelStore) {
		smallQueue(cfg, st)
		st.latency = 3 * time.Second
	}
	withService(t, slow, func(t *testing.T, s *testService) {
		all := []*Pending{s.set("first")}
		synctest.Wait()                              // its transaction is under way, until 3 s
		for _, payload := range []int{0, 31 << 10} { // the first sets are written until 6 s; two of the second sets fill a group
			for _, id := range []string{"a", "b", "c"} {
				all = append(all, s.setOf("shop", id, payload))
			}
		}
		time.Sleep(7 * time.Second)
		all = append(all, s.set("another")) // beside the second set of c, which is ready since 6 s
		for _, p := range all {
			must(t, p)
		}
	})
}

// Every application with ready ops has a turn in each group.
func TestWriterTakesApplicationsInTurn(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		first := s.set("first")
		synctest.Wait() // its transaction is under way
		var flood, few []*Pending
		for i := range 3000 {
			flood = append(flood, s.setOf("flood", fmt.Sprint(i), 0))
		}
		for i := range 10 {
			few = append(few, s.setOf(fmt.Sprint("shop-", i), "order", 0))
		}
		for _, p := range slices.Concat(few, flood, []*Pending{first}) {
			must(t, p)
		}
		ofFew := 0
		for _, op := range s.store.groups[1].Ops {
			if strings.HasPrefix(op.Key().Application, "shop-") {
				ofFew++
			}
		}
		if ofFew != len(few) {
			t.Errorf("the second group has %d ops of the small applications, want %d", ofFew, len(few))
		}
	})
}

// Turns count bytes, so an application with large payloads does not fill the groups beside an application with small
// payloads.
func TestWriterCountsTurnsInBytes(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		first := s.set("first")
		synctest.Wait()
		var large, small []*Pending
		for i := range 150 {
			large = append(large, s.setOf("large", fmt.Sprint(i), 64<<10))
		}
		for i := range 600 {
			small = append(small, s.setOf("small", fmt.Sprint(i), 0))
		}
		for _, p := range slices.Concat(large, small, []*Pending{first}) {
			must(t, p)
		}
		ofLarge, next := 0, s.store.groups[1].Ops
		for _, op := range next {
			if op.Key().Application == "large" {
				ofLarge++
			}
		}
		if len(next) != 500 || ofLarge < 10 || ofLarge > 20 {
			t.Errorf("the second group has %d ops, %d of them large; a turn is %d bytes", len(next), ofLarge, turnBytes)
		}
	})
}

// An op may be larger than a turn, up to half of a group's bytes.
func TestWriterWritesOpsLargerThanATurn(t *testing.T) {
	large := func(cfg *ServiceConfig, _ *modelStore) { cfg.MaxPayload = 2 << 20 }
	withService(t, large, func(t *testing.T, s *testService) {
		all := []*Pending{s.setOf("large", "a", 2<<20), s.setOf("large", "b", 2<<20), s.setOf("shop", "c", 0)}
		for _, p := range all {
			must(t, p)
		}
	})
}

func TestWriterBoundsTheOpsOfAKey(t *testing.T) {
	configure := func(cfg *ServiceConfig, _ *modelStore) { cfg.Writer.KeyOps = 10 }
	withService(t, configure, func(t *testing.T, s *testService) {
		var taken []*Pending
		for range 10 {
			taken = append(taken, s.set("hot"))
		}
		if code := codeOf(t, s.set("hot")); code != CodeKeyOverloaded {
			t.Errorf("beyond the bound: %s", code)
		}
		taken = append(taken, s.set("another"))
		for _, p := range taken {
			must(t, p)
		}
		must(t, s.set("hot"))
		if s.dropped[DropKeyFull] != 1 {
			t.Errorf("counted %v", s.dropped)
		}
	})
}

// An op whose caller has left is not written. The op behind it on its key is written.
func TestWriterDropsAbandonedOps(t *testing.T) {
	slow := func(_ *ServiceConfig, st *modelStore) { st.latency = 2 * time.Second }
	withService(t, slow, func(t *testing.T, s *testService) {
		first := s.set("first")
		synctest.Wait() // its transaction is under way, for longer than halfClosedWait
		left, leave := context.WithCancel(t.Context())
		overdue, done := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer done()
		var gone []*Pending
		for i := range 100 {
			gone = append(gone, s.Service.Submit(left, Op{Set: testSet(fmt.Sprint(i))}))
		}
		gone = append(gone, s.Service.Submit(overdue, Op{Set: testSet("overdue")}))
		behind := s.cancel("0")
		stays := s.set("stays")
		leave()
		for _, p := range gone {
			if code := codeOf(t, p); code != CodeUnavailable {
				t.Errorf("got %s", code)
			}
		}
		if code := codeOf(t, behind); code != CodeUnknownAlarm {
			t.Errorf("the cancel behind an abandoned set got %s", code)
		}
		must(t, first)
		must(t, stays)
		if got := s.store.transactions(); !slices.Equal(got, []int{1, 2}) || s.dropped[DropAbandoned] != len(gone) {
			t.Errorf("transactions of %d ops, %v dropped", got, s.dropped)
		}
	})
}

// A queued op that is withdrawn is not written, and says so at once. An op that is being written stays.
func TestWithdrawnOpsAreNotWritten(t *testing.T) {
	slow := func(_ *ServiceConfig, st *modelStore) { st.latency = 2 * time.Second }
	withService(t, slow, func(t *testing.T, s *testService) {
		written := s.set("a")
		synctest.Wait() // its transaction is under way
		behind, ready := s.set("a"), s.set("b")
		cancel := s.cancel("a")
		begun := time.Now()
		for _, p := range []*Pending{written, behind, ready, ready} {
			p.Withdraw()
		}
		for _, p := range []*Pending{behind, ready} {
			if code := codeOf(t, p); code != CodeUnavailable || time.Since(begun) > 0 {
				t.Errorf("withdrawn: %s after %s", code, time.Since(begun))
			}
		}
		must(t, written)
		must(t, cancel)
		cancel.Withdraw() // too late
		must(t, cancel)
		if got := s.store.transactions(); !slices.Equal(got, []int{1, 1}) || s.dropped[DropAbandoned] != 2 {
			t.Errorf("transactions of %d ops, %v dropped", got, s.dropped)
		}
		if ops, bytes := s.writer.undecided(); ops != 0 || bytes != 0 {
			t.Errorf("%d ops with %d bytes are queued", ops, bytes)
		}
	})
}

// While no group is taken, callers with little time are refused at once, although each withdraws its op when its time
// is over. Nothing of their ops stays.
func TestWithdrawnOpsShowThatTheStoreHangs(t *testing.T) {
	withService(t, func(_ *ServiceConfig, st *modelStore) { st.latency = 14 * time.Second }, func(t *testing.T, s *testService) {
		written := s.set("written")
		synctest.Wait()
		waited := 0
		for i := range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			set := testSet("a")
			set.Application = fmt.Sprint("shop", i)
			if p := s.Service.Submit(ctx, Op{Set: set}); !p.decided() {
				waited++
				time.AfterFunc(time.Second, p.Withdraw)
			} else if code := codeOf(t, p); code != CodeOverloaded {
				t.Errorf("refused with %s", code)
			}
			time.Sleep(100 * time.Millisecond)
			t.Cleanup(cancel)
		}
		if waited > 12 {
			t.Errorf("%d of 100 callers waited in vain", waited)
		}
		s.writer.mu.Lock()
		if len(s.writer.turns) != 0 || len(s.writer.apps) != 1 || len(s.writer.appsBySize) != 1 {
			t.Errorf("%d turns and %d applications are left", len(s.writer.turns), len(s.writer.apps))
		}
		s.writer.mu.Unlock()
		must(t, written)
		hasty, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if s.Service.Submit(hasty, Op{Set: testSet("after the stall")}).decided() {
			t.Error("refused after the stall")
		}
		must(t, s.set("patient"))
		synctest.Wait()
		if !s.writer.stalledSince.IsZero() {
			t.Error("an idle queue waits")
		}
	})
}

// An op that is withdrawn before a committer wakes up leaves no trace of a stall.
func TestWithdrawnOpOfAnIdleQueueIsNoStall(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		for i := range 100 {
			p := s.set(fmt.Sprint(i))
			p.Withdraw()
			<-p.Done() // a committer may have taken it before
			synctest.Wait()
			if !s.writer.stalledSince.IsZero() {
				t.Fatal("an idle queue is stalled")
			}
		}
	})
}

// The op behind a withdrawn one on its key is written without another op to begin a group.
func TestOpBehindAWithdrawnOneIsWritten(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		s.store.lock(Key{"shop", "a"}, 2*time.Second)
		first := s.set("a")
		time.Sleep(100 * time.Millisecond)
		second, third := s.set("a"), s.set("a")
		second.Withdraw()
		first.Withdraw() // it waits for its row
		must(t, first)
		must(t, third)
		if code := codeOf(t, second); code != CodeUnavailable {
			t.Errorf("withdrawn: %s", code)
		}
	})
}

// A client that has closed only its sending half looks like a client that has left. Its op is written if a group begins
// soon.
func TestWriterServesAClientThatHalfClosed(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		closed, cancel := context.WithCancel(t.Context())
		cancel()
		must(t, s.Service.Submit(closed, Op{Set: testSet("a")}))
	})
}
