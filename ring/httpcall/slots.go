package httpcall

import (
	"slices"
	"sync"
)

// slots bounds the requests under way: of all applications, to each host, and of each application. Applications whose receivers are not prompt
// have at most half of all requests together, so they never hold up the others. Of that half, at most half is for more than one request of an
// application, so a few receivers that hang do not hold up others that are not known yet. Waiting parts get free slots in the order of their
// arrival.
type slots struct {
	limit, hostLimit int

	mu      sync.Mutex
	taken   int            // requests under way
	doubted int            // requests under way of receivers that are not prompt
	extra   int            // these requests without the first of each receiver
	hosts   map[string]int // requests under way by host and port
	waiting []*slotWait    // in the order of arrival
}

// slotWait is a part of a delivery that waits for a slot.
type slotWait struct {
	receiver *receiver
	sender   Sender
	granted  chan struct{} // closed when the waiter has its slot
}

func newSlots(limit, hostLimit int) *slots {
	return &slots{limit: limit, hostLimit: hostLimit, hosts: map[string]int{}}
}

// take takes a slot, or returns a wait for one. The caller ends the wait with abandon.
func (s *slots) take(r *receiver, to Sender) *slotWait {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fits(r, to) {
		s.add(r, to, 1)
		return nil
	}
	w := &slotWait{receiver: r, sender: to, granted: make(chan struct{})}
	s.waiting = append(s.waiting, w)
	return w
}

// abandon ends a wait. It reports whether the waiter has got its slot, which it then keeps.
func (s *slots) abandon(w *slotWait) (granted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
		return false
	}
	return true
}

// free gives a slot back, and hands free slots on.
func (s *slots) free(r *receiver, to Sender) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(r, to, -1)
	s.grant()
}

// setSlow notes whether a receiver is slow, or has replied promptly.
func (s *slots) setSlow(r *receiver, slow bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.change(r, func() { r.slow, r.prompt = slow, !slow })
	s.grant()
}

// isSlow reports whether a receiver is slow.
func (s *slots) isSlow(r *receiver) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.slow
}

// fits reports whether there is a slot for a request. The caller holds mu.
func (s *slots) fits(r *receiver, to Sender) bool {
	ownLimit := min(to.Concurrency(), s.hostLimit/2)
	if s.taken >= s.limit || s.hosts[to.Address()] >= s.hostLimit || r.underWay >= ownLimit {
		return false
	}
	return r.prompt || s.doubted < s.limit/2 && (r.underWay == 0 || s.extra < s.limit/4)
}

// add takes or gives back n slots. The caller holds mu.
func (s *slots) add(r *receiver, to Sender, n int) {
	s.taken += n
	s.change(r, func() { r.underWay += n })
	if s.hosts[to.Address()] += n; s.hosts[to.Address()] == 0 {
		delete(s.hosts, to.Address())
	}
}

// change changes a receiver, and keeps the sums that depend on it. The caller holds mu.
func (s *slots) change(r *receiver, change func()) {
	count := func(sign int) {
		if !r.prompt {
			s.doubted += sign * r.underWay
			s.extra += sign * max(0, r.underWay-1)
		}
	}
	count(-1)
	change()
	count(1)
}

// grant hands free slots to waiters. The caller holds mu.
func (s *slots) grant() {
	s.waiting = slices.DeleteFunc(s.waiting, func(w *slotWait) bool {
		if !s.fits(w.receiver, w.sender) {
			return false
		}
		s.add(w.receiver, w.sender, 1)
		close(w.granted)
		return true
	})
}
