package httpcall

import (
	"slices"
	"sync"
	"time"
)

// slots bounds the requests under way: of all applications, to each host, and of each application. Waiting parts get
// free slots in the order of their arrival.
//
// Two bounds keep the slots of a receiver that hangs from everybody else. Requests with a reply that is overdue do not
// count to the half of a limit that is for new requests. So a receiver that was prompt, and hangs while it holds slots,
// keeps them from others only until its replies are overdue. And a request of a receiver that is not prompt finds a
// slot only within the shares of its class.
type slots struct {
	limit, hostLimit int
	patience         time.Duration // when a reply is late

	mu      sync.Mutex
	all     load
	hosts   map[string]*load // by host and port
	waiting []*slotWait      // in the order of arrival
}

// class is the knowledge about a receiver.
type class int

const (
	unknown class = iota // it has not replied yet
	prompt               // its last reply came in time
	slow                 // a reply is overdue, or its last reply came late
	classes
)

// load is the requests under way, of all hosts or to one host.
type load struct {
	requests int // all of them
	overdue  int // requests whose reply is overdue
	classes  [classes]share
}

// share is the requests under way of all receivers of a class.
type share struct {
	requests int
	extra    int // requests beside others of their receiver
}

// slot is a request under way. Its fields are guarded by slots.mu.
type slot struct {
	receiver *receiver
	address  string
	host     *load
	extra    bool // the receiver had other requests under way
	overdue  bool // the reply is overdue
	freed    bool
	timer    *time.Timer // see watch
}

// slotWait is a part of a delivery that waits for a slot.
type slotWait struct {
	receiver *receiver
	sender   Sender
	slot     *slot         // set before granted is closed
	granted  chan struct{} // closed when the waiter has its slot
}

func newSlots(limit, hostLimit int) *slots {
	return &slots{limit: limit, hostLimit: hostLimit, patience: patience, hosts: map[string]*load{}}
}

// take takes a slot, or returns a wait for one. The caller ends the wait with abandon.
func (s *slots) take(r *receiver, to Sender) (*slot, *slotWait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fits(r, to) {
		return s.add(r, to), nil
	}
	w := &slotWait{receiver: r, sender: to, granted: make(chan struct{})}
	s.waiting = append(s.waiting, w)
	return nil, w
}

// abandon ends a wait. It returns the slot that the waiter has got meanwhile, which it then keeps; nil: none. atLimit
// reports whether the receiver has as many requests under way as it may have.
func (s *slots) abandon(w *slotWait) (got *slot, atLimit bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := slices.Index(s.waiting, w); i >= 0 {
		s.waiting = slices.Delete(s.waiting, i, i+1)
	}
	return w.slot, s.atLimit(w.receiver, w.sender)
}

// watch notes when the reply of the slot's request is overdue. When it is late, and more replies are overdue than may
// be, watch calls giveUp.
func (s *slots) watch(sl *slot, giveUp func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl.freed {
		return
	}
	overdue := sl.receiver.overdueAfter(s.patience)
	sl.timer = time.AfterFunc(overdue, func() {
		s.setOverdue(sl)
		s.mu.Lock()
		defer s.mu.Unlock()
		if sl.freed {
			return
		}
		sl.timer = time.AfterFunc(lateAfter(overdue, s.patience)-overdue, func() {
			if s.isCrowded(sl) {
				giveUp()
			}
		})
	})
}

// setOverdue notes that the reply of a request is overdue.
func (s *slots) setOverdue(sl *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl.freed || sl.overdue {
		return
	}
	s.count(sl, -1)
	sl.overdue = true
	s.count(sl, 1)
	s.setClass(sl.receiver, slow)
	s.grant()
}

// isCrowded reports whether more replies are overdue than may be, of all requests or of those to the slot's host.
func (s *slots) isCrowded(sl *slot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !sl.freed && (s.all.overdue > s.limit/2 || sl.host.overdue > s.hostLimit/2)
}

// free gives a slot back, and hands free slots on.
func (s *slots) free(sl *slot) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl.freed = true
	if sl.timer != nil {
		sl.timer.Stop()
	}
	s.count(sl, -1)
	delete(sl.receiver.slots, sl)
	if sl.host.requests == 0 {
		delete(s.hosts, sl.address)
	}
	s.grant()
}

// setSlow notes that a receiver was waited for in vain.
func (s *slots) setSlow(r *receiver) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.slow = true
	s.setClass(r, slow)
}

// noteEnd notes how long a request took, and whether it ended with a reply. The end of a request without a reply does
// not make its receiver prompt.
func (s *slots) noteEnd(r *receiver, took time.Duration, replied bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case took > s.patience:
		r.slow = true
		s.setClass(r, slow)
	case replied:
		if r.usual == 0 {
			r.usual = took
		}
		r.usual = max(1, r.usual+(took-r.usual)/8)
		r.slow = false
		s.setClass(r, prompt)
	}
	s.grant()
}

// sharedPatience returns the time for which a shared batch waits for a receiver.
func (s *slots) sharedPatience(r *receiver) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.slow {
		return 0
	}
	return lateAfter(r.overdueAfter(s.patience), s.patience)
}

// fits reports whether there is a slot for a request. The caller holds mu.
func (s *slots) fits(r *receiver, to Sender) bool {
	host := s.hosts[to.Address()]
	return !s.atLimit(r, to) && s.all.hasRoom(r, s.limit) && (host == nil || host.hasRoom(r, s.hostLimit))
}

// atLimit reports whether a receiver has as many requests under way as it may have. The caller holds mu.
func (s *slots) atLimit(r *receiver, to Sender) bool {
	return len(r.slots) >= min(to.Concurrency(), s.hostLimit/4)
}

// hasRoom reports whether the requests under way leave room for one more of a receiver. At most half of the limit is
// for requests without an overdue reply. Receivers that are not known yet have at most a quarter of the limit, and slow
// ones at most half. An eighth is for more than one request of such receivers, so a few of them do not hold up the
// others; and another eighth is for prompt receivers alone.
func (l *load) hasRoom(r *receiver, limit int) bool {
	if l.requests >= limit || l.requests-l.overdue >= limit/2 {
		return false
	}
	if r.class == prompt {
		return true
	}
	share := limit / 2
	if r.class == unknown {
		share = limit / 4
	}
	extra := l.classes[unknown].extra + l.classes[slow].extra
	return l.classes[r.class].requests < share && l.requests < limit-limit/8 &&
		(len(r.slots) == 0 || extra < max(1, limit/8))
}

// add takes a slot. The caller holds mu.
func (s *slots) add(r *receiver, to Sender) *slot {
	host := s.hosts[to.Address()]
	if host == nil {
		host = &load{}
		s.hosts[to.Address()] = host
	}
	sl := &slot{receiver: r, address: to.Address(), host: host, extra: len(r.slots) > 0}
	if r.slots == nil {
		r.slots = map[*slot]struct{}{}
	}
	r.slots[sl] = struct{}{}
	s.count(sl, 1)
	return sl
}

// count adds n requests to the sums of a slot. The caller holds mu.
func (s *slots) count(sl *slot, n int) {
	for _, l := range []*load{&s.all, sl.host} {
		l.requests += n
		if sl.overdue {
			l.overdue += n
		}
		own := &l.classes[sl.receiver.class]
		own.requests += n
		if sl.extra {
			own.extra += n
		}
	}
}

// setClass changes the class of a receiver, and keeps the sums. The caller holds mu.
func (s *slots) setClass(r *receiver, to class) {
	if r.class == to {
		return
	}
	for sl := range r.slots {
		s.count(sl, -1)
	}
	r.class = to
	for sl := range r.slots {
		s.count(sl, 1)
	}
}

// grant hands free slots to waiters. The caller holds mu.
func (s *slots) grant() {
	s.waiting = slices.DeleteFunc(s.waiting, func(w *slotWait) bool {
		if !s.fits(w.receiver, w.sender) {
			return false
		}
		w.slot = s.add(w.receiver, w.sender)
		close(w.granted)
		return true
	})
}
