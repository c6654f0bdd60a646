package targettest

import (
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

func testWriteLimit(s *suite) {
	s.wantNothingWritten(ring.Limits{WriteBy: time.Now().Add(-time.Millisecond), ReplyBy: time.Now().Add(replyTime)})
}

func testSuspended(s *suite) {
	limits := ample()
	limits.Suspended = func() time.Duration { return time.Hour }
	s.wantNothingWritten(limits)
}

// wantNothingWritten demands that no ring of a delivery under these limits arrives, although its receiver is ready, and
// that the lane goes on.
func (s *suite) wantNothingWritten(limits ring.Limits) {
	s.Helper()
	s.bench.Receive("a", Well)
	l := s.lane()
	first := rings(1, "a")
	s.want(first, s.deliver(l, first), "a", clock.Confirmed) // so that the receiver is ready
	time.Sleep(50 * time.Millisecond)                        //nolint:forbidigo // it waits for its next ring
	late := rings(5, "a")[1:]
	for i, o := range l.Deliver(s.Context(), late, limits) {
		if !o.Kind.NotSent() {
			s.Errorf("ring %d is %s", i, o.Kind)
		}
	}
	got := s.receivedBefore(l, rings(6, "a")[5])
	for i := range late {
		if got[late[i].MessageID()] {
			s.Errorf("ring %d has arrived", i)
		}
	}
}

func testNotOpen(s *suite) {
	s.bench.Receive("a", Well)
	s.eventually("the target is usable", func() bool { return s.bench.Target().Usable() == nil })
	l := s.bench.Target().Lane(4)
	s.Cleanup(func() { _ = l.Close() })
	if l.Broken() == nil {
		s.Log("the lanes of this target need no connection of their own: they are always open")
		return
	}
	select {
	case <-l.Broken():
	default:
		s.Error("a lane that was never opened does not ask to be opened")
	}
	all := rings(3, "a")
	s.want(all, l.Deliver(s.Context(), all, ample()), "a", clock.Unsent)
	if got := s.receivedBefore(l, rings(4, "a")[3]); len(got) != 1 {
		s.Errorf("%d rings have arrived, want only the one after the opening", len(got))
	}
}

func testRation(s *suite) {
	target, rationed := s.bench.Target().(ring.RationedTarget)
	if !rationed {
		s.Log("this target takes any number of rings")
		return
	}
	if n := target.Ration("a"); n != 0 {
		s.Errorf("the ration of an application without a receiver is %d", n)
	}
	s.bench.Receive("a", Well)
	if n := target.Ration("a"); n <= 0 {
		s.Errorf("the ration of an application with a receiver is %d", n)
	}
}
