package targettest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

const (
	// hangGuard ends a test that hangs.
	hangGuard = 30 * time.Second
	// replyTime is the time until the reply limit of deliveries whose replies are late.
	replyTime = 1500 * time.Millisecond
)

// Run runs the suite.
func Run(t *testing.T, e Engine) {
	for _, c := range []struct {
		name string
		test func(s *suite)
	}{
		{"rings are delivered once and whole", testDelivered},
		{"no byte is written after the write limit", testWriteLimit},
		{"no byte is written after a suspension of the machine", testSuspended},
		{"rings of a lane that is not open are not sent", testNotOpen},
		{"a ration is what receivers have asked for", testRation},
		{"a refused ring says why, and refuses no other", testRefused},
		{"a ring without a receiver is not in doubt", testAbsent},
		{"a receiver that comes is noticed", testReceiverComes},
		{"alarms of a removed destination end", testRemovedDestination},
		{"a receiver of an alarm's own gets its rings", testOwnReceiver},
		{"late replies become outcomes", testLate},
		{"the end of the wait leaves doubt, and the copy has the same id", testEndOfWait},
		{"without a wait late replies are in doubt", testNoWait},
		{"a cancelled delivery returns early", testCancelled},
		{"lanes are independent", testLanes},
		{"a delivery of no rings has no outcomes", testNoRings},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(&suite{T: t, Engine: e, bench: e.Open(t)}) })
	}
}

type suite struct {
	*testing.T
	Engine

	bench Bench
}

// lane returns an open lane, which ends with the test.
func (s *suite) lane() ring.Lane {
	s.Helper()
	l := s.bench.Target().Lane(4)
	s.Cleanup(func() { _ = l.Close() })
	s.open(l)
	return l
}

func (s *suite) open(l ring.Lane) {
	s.Helper()
	s.eventually("the target is usable", func() bool { return s.bench.Target().Usable() == nil })
	ctx, cancel := context.WithTimeout(s.Context(), hangGuard)
	defer cancel()
	if err := l.Open(ctx, 64); err != nil {
		s.Fatalf("open: %v", err)
	}
}

// rings makes n rings of each application, in turn.
func rings(n int, applications ...string) (all []clock.Ring) {
	for i := range n {
		for j, application := range applications {
			payload := fmt.Sprintf(`{"n":%d}`, i)
			all = append(all, clock.Ring{
				AlarmID: int64(1000*j + i + 1),
				Key:     clock.Key{Application: application, BusinessID: fmt.Sprintf("order/%d", i)}, Generation: 2,
				RingNo: 3,
				RingAt: 1_700_000_000_000, RungAt: clock.Instant(time.Now().UnixMilli()), ClaimID: "claim",
				Payload: []byte(payload), PayloadKind: clock.JSON,
				ContentType: "application/json",
			})
		}
	}
	return all
}

// ample are limits that no healthy delivery meets.
func ample() ring.Limits {
	return ring.Limits{WriteBy: time.Now().Add(hangGuard), ReplyBy: time.Now().Add(hangGuard + time.Second)}
}

// short are limits of deliveries whose replies are late.
func short() ring.Limits {
	return ring.Limits{WriteBy: time.Now().Add(replyTime * 2 / 3), ReplyBy: time.Now().Add(replyTime)}
}

// deliver delivers rings under ample limits. It demands that Limits.OnConfirmed gets only confirmed rings, each at most
// once.
func (s *suite) deliver(l ring.Lane, all []clock.Ring) []clock.Outcome {
	s.Helper()
	early, limits := map[int]bool{}, ample()
	limits.OnConfirmed = func(i int) {
		if early[i] {
			s.Errorf("ring %d was reported twice", i)
		}
		early[i] = true
	}
	outcomes := l.Deliver(s.Context(), all, limits)
	for i := range early {
		if outcomes[i].Kind != clock.Confirmed {
			s.Errorf("ring %d was reported as confirmed and is %s", i, outcomes[i].Kind)
		}
	}
	return outcomes
}

func (s *suite) eventually(what string, holds func() bool) {
	s.Helper()
	eventually(s.T, what, holds)
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(hangGuard); !holds(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// want checks the outcome of every ring of an application.
func (s *suite) want(all []clock.Ring, outcomes []clock.Outcome, application string, kind clock.OutcomeKind) {
	s.Helper()
	if len(outcomes) != len(all) {
		s.Fatalf("%d outcomes of %d rings", len(outcomes), len(all))
	}
	for i, o := range outcomes {
		if all[i].Application == application && o.Kind != kind {
			s.Errorf("ring %d of %s is %s (%s), want %s", i, application, o.Kind, o.Reason, kind)
		}
		if o.Kind != clock.Confirmed && o.Kind != clock.Awaited && o.Reason == "" {
			s.Errorf("ring %d of %s is %s without a reason", i, application, o.Kind)
		}
	}
}

// wantReceived waits until the application has received these rings, each that many times, and no others.
func (s *suite) wantReceived(all []clock.Ring, application string, times int) {
	s.Helper()
	s.wantReceivedBy(slices.DeleteFunc(slices.Clone(all),
		func(r clock.Ring) bool { return r.Application != application }), application, times)
}

// wantReceivedBy demands that the application's receiver got these rings and no others, each so many times.
func (s *suite) wantReceivedBy(all []clock.Ring, application string, times int) {
	s.Helper()
	want := map[string]*clock.Ring{}
	for i := range all {
		want[all[i].MessageID()] = &all[i]
	}
	s.eventually(fmt.Sprintf("%s received %d rings", application, times*len(want)), func() bool {
		return len(s.bench.Received(application)) >= times*len(want)
	})
	copies := map[string]int{}
	for _, got := range s.bench.Received(application) {
		copies[got.MessageID]++
		r := want[got.MessageID]
		if r == nil || got.BusinessID != r.BusinessID || got.Payload != string(r.Payload) ||
			got.ContentType != r.ContentType {
			s.Errorf("%s received %+v", application, got)
		}
	}
	for id := range want {
		if copies[id] != times {
			s.Errorf("%s received %s %d times, want %d", application, id, copies[id], times)
		}
	}
}

func testDelivered(s *suite) {
	applications := []string{"a", "b", "c"}
	for _, name := range applications {
		s.bench.Receive(name, Well)
	}
	all := rings(20, applications...)
	outcomes := s.deliver(s.lane(), all)
	for _, name := range applications {
		s.want(all, outcomes, name, clock.Confirmed)
		s.wantReceived(all, name, 1)
	}
}

func testRefused(s *suite) {
	if s.Refused == 0 {
		s.Log("receivers of this target cannot refuse a ring")
		return
	}
	s.bench.Receive("a", Refusing)
	s.bench.Receive("b", Well)
	all := rings(5, "a", "b")
	outcomes := s.deliver(s.lane(), all)
	s.want(all, outcomes, "a", s.Refused)
	s.want(all, outcomes, "b", clock.Confirmed)
	s.wantReceived(all, "b", 1)
}

func testAbsent(s *suite) {
	s.bench.Receive("b", Well)
	all := rings(5, "a", "b")
	outcomes := s.deliver(s.lane(), all)
	s.want(all, outcomes, "a", s.Absent)
	s.want(all, outcomes, "b", clock.Confirmed)
	s.wantReceived(all, "b", 1)
}

// The rings of a destination that the settings do not have go nowhere: not to the receiver of their application either.
func testRemovedDestination(s *suite) {
	if !s.Destinations {
		s.Log("this target has no destinations")
		return
	}
	s.bench.Receive("a", Well)
	s.bench.Receive("b", Well)
	if err := s.bench.Target().Accepts(clock.ReceiverOf("a", 7)); err != nil {
		s.Errorf("the destination is not accepted, so its alarms would wait: %v", err)
	}
	all := rings(5, "a", "b", "a")
	for i := range all {
		if i%3 == 0 {
			all[i].Destination = 7
		}
		if i%6 == 0 { // its second try
			all[i].Before.LastError = clock.NoReceiver(&all[i], "").Reason
			all[i].Before.UpdateTime = all[i].RungAt.Add(-time.Hour)
		}
	}
	outcomes := s.deliver(s.lane(), all)
	var delivered []clock.Ring
	for i, o := range outcomes {
		switch {
		case i%3 != 0:
			delivered = append(delivered, all[i])
			if o.Kind != clock.Confirmed {
				s.Errorf("ring %d is %s: %s", i, o.Kind, o.Reason)
			}
		case o != clock.NoReceiver(&all[i], "") || o.Final != (i%6 == 0):
			s.Errorf("ring %d of the destination is %+v", i, o)
		}
	}
	s.wantReceived(delivered, "a", 1)
	s.wantReceived(delivered, "b", 1)
}

// Alarms of one application bring receivers of their own, in one queue. One of them is allowed no more.
func testOwnReceiver(s *suite) {
	if !s.Destinations {
		s.Log("this target has no receivers that alarms could bring")
		return
	}
	s.bench.Receive("b", Well)
	s.bench.Receive("c", Well)
	all := rings(6, "a")
	var toB, toC []clock.Ring
	for i := range all {
		all[i].Destination, all[i].Own.Fields = clock.OwnNumber(""), []string{"b", "c", Withdrawn}[i%3]
	}
	outcomes := s.deliver(s.lane(), all)
	for i, o := range outcomes {
		switch {
		case i%3 == 2:
			if want := clock.Withdrawn(&all[i], ErrWithdrawn.Error()); o != want || o.Final {
				s.Errorf("ring %d that is not allowed is %+v, want %+v", i, o, want)
			}
			continue
		case o.Kind != clock.Confirmed:
			s.Errorf("ring %d is %s: %s", i, o.Kind, o.Reason)
		}
		if i%3 == 0 {
			toB = append(toB, all[i])
		} else {
			toC = append(toC, all[i])
		}
	}
	s.wantReceivedBy(toB, "b", 1)
	s.wantReceivedBy(toC, "c", 1)
}

func testReceiverComes(s *suite) {
	target := s.bench.Target()
	if accepts := target.Accepts("a") == nil; accepts == s.KnowsReceivers {
		s.Fatalf("accepts an application without a receiver: %t", accepts)
	}
	if !s.KnowsReceivers {
		s.Log("this target learns of a missing receiver only from its rings")
		return
	}
	select { // a signal from the start
	case <-target.Changed():
	default:
	}
	s.bench.Receive("a", Well)
	select {
	case <-target.Changed():
	case <-time.After(hangGuard):
		s.Error("the target does not signal the receiver")
	}
	s.eventually("the application is accepted", func() bool { return target.Accepts("a") == nil })
	all := rings(3, "a")
	s.want(all, s.lane().Deliver(s.Context(), all, ample()), "a", clock.Confirmed)
}

// deliverLate delivers rings of a, whose receiver is late, and of b. It returns the rings, and those whose replies are
// late.
func (s *suite) deliverLate(l ring.Lane) (all []clock.Ring, late ring.LateRings) {
	s.Helper()
	s.bench.Receive("b", Well)
	s.bench.Receive("a", Late)
	all, limits := rings(5, "a", "b"), short()
	limits.Await = func(r ring.LateRings) {
		if late != nil {
			s.Error("Await was called twice")
		}
		late = r
	}
	outcomes := l.Deliver(s.Context(), all, limits)
	if late == nil {
		s.Fatalf("no ring is awaited: %+v", outcomes)
	}
	s.Cleanup(late.End)
	s.want(all, outcomes, "a", clock.Awaited)
	s.wantHealthy(all, outcomes)
	return all, late
}

// wantHealthy demands that the rings of b are confirmed although the receiver of a is late.
func (s *suite) wantHealthy(all []clock.Ring, outcomes []clock.Outcome) {
	s.Helper()
	if s.LateTogether {
		s.Log("the replies of this target are late for all applications at once: b is not checked")
		return
	}
	s.want(all, outcomes, "b", clock.Confirmed)
}

func awaited(outcomes []clock.Outcome) (n int) {
	for _, o := range outcomes {
		if o.Kind == clock.Awaited {
			n++
		}
	}
	return n
}

func testLate(s *suite) {
	l := s.lane()
	all, late := s.deliverLate(l)
	s.bench.Reply()
	s.eventually("the replies have come", func() bool { return awaited(late.Outcomes()) == 0 })
	for _, name := range []string{"a", "b"} {
		s.want(all, late.Outcomes(), name, clock.Confirmed)
		s.wantReceived(all, name, 1)
	}
}

func testEndOfWait(s *suite) {
	l := s.lane()
	all, late := s.deliverLate(l)
	late.End()
	if n := awaited(late.Outcomes()); n > 0 {
		s.Fatalf("%d rings are awaited after the end of the wait", n)
	}
	s.want(all, late.Outcomes(), "a", clock.Doubtful)
	s.bench.Reply()
	s.open(l)
	var again []clock.Ring
	for _, r := range all {
		if r.Application == "a" {
			again = append(again, r)
		}
	}
	s.want(again, s.deliverTaken(l, again), "a", clock.Confirmed)
	if !s.LateTogether {
		s.wantReceived(all, "a", 2)
		return
	}
	got := map[string]bool{} // the first copies may have been lost with their connection
	s.eventually("all rings have arrived", func() bool {
		for _, r := range s.bench.Received("a") {
			got[r.MessageID] = true
		}
		return len(got) >= len(again)
	})
	for i := range again {
		delete(got, again[i].MessageID())
	}
	if len(got) > 0 {
		s.Errorf("copies came under other ids: %v", got)
	}
}

// deliverTaken delivers the rings, and delivers those again that were not taken: a target may learn late that a
// connection is of no use.
func (s *suite) deliverTaken(l ring.Lane, rings []clock.Ring) []clock.Outcome {
	s.Helper()
	outcomes := l.Deliver(s.Context(), rings, ample())
	s.eventually("all rings are taken", func() bool {
		taken := true
		for i := range outcomes {
			if outcomes[i].Kind == clock.Untaken {
				outcomes[i] = l.Deliver(s.Context(), rings[i:i+1], ample())[0]
				taken = taken && outcomes[i].Kind != clock.Untaken
			}
		}
		return taken
	})
	return outcomes
}

func testNoWait(s *suite) {
	l := s.lane()
	s.bench.Receive("b", Well)
	s.bench.Receive("a", Late)
	all := rings(5, "a", "b")
	outcomes := l.Deliver(s.Context(), all, short())
	s.want(all, outcomes, "a", clock.Doubtful)
	s.wantHealthy(all, outcomes)
	s.bench.Reply()
}

func testCancelled(s *suite) {
	l := s.lane()
	s.bench.Receive("a", Late)
	ctx, cancel := context.WithCancel(s.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	all, limits := rings(5, "a"), ample()
	outcomes := l.Deliver(ctx, all, limits)
	if time.Now().After(limits.ReplyBy) {
		s.Error("the delivery lasted until the reply limit")
	}
	for i, o := range outcomes {
		if o.Kind == clock.Confirmed || o.Kind == clock.Awaited {
			s.Errorf("ring %d is %s", i, o.Kind)
		}
	}
	s.bench.Reply()
	got := s.receivedBefore(l, rings(6, "a")[5])
	for i, o := range outcomes {
		if o.Kind.NotSent() && got[all[i].MessageID()] {
			s.Errorf("ring %d is %s and has arrived", i, o.Kind)
		}
	}
}

// receivedBefore delivers a further ring, and returns the ids of the rings that its application has received until it
// came.
func (s *suite) receivedBefore(l ring.Lane, last clock.Ring) (ids map[string]bool) {
	s.Helper()
	s.open(l)
	s.want([]clock.Ring{last}, s.deliver(l, []clock.Ring{last}), last.Application, clock.Confirmed)
	s.eventually("the further ring has arrived", func() bool {
		ids = map[string]bool{}
		for _, r := range s.bench.Received(last.Application) {
			ids[r.MessageID] = true
		}
		return ids[last.MessageID()]
	})
	return ids
}

func testLanes(s *suite) {
	const lanes = 4
	var all [lanes][]clock.Ring
	for i := range lanes {
		application := fmt.Sprint("a", i)
		s.bench.Receive(application, Well)
		all[i] = rings(30, application)
	}
	var delivering sync.WaitGroup
	outcomes := [lanes][]clock.Outcome{}
	for i := range lanes {
		l := s.lane()
		delivering.Go(func() { outcomes[i] = l.Deliver(s.Context(), all[i], ample()) })
	}
	delivering.Wait()
	for i := range lanes {
		s.want(all[i], outcomes[i], fmt.Sprint("a", i), clock.Confirmed)
		s.wantReceived(all[i], fmt.Sprint("a", i), 1)
	}
}

func testNoRings(s *suite) {
	if outcomes := s.lane().Deliver(s.Context(), nil, ample()); len(outcomes) != 0 {
		s.Errorf("%d outcomes of no ring", len(outcomes))
	}
}
