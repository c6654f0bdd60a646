package clock

// lockSlots are the slots of transactions that wait for a locked row; there are WriterConfig.LockedWrites. Applications
// take turns, so an application with many locked rows delays another by one transaction at most. A key has at most one
// transaction at a time, so keys take turns too. Writer.mu guards the slots and their waiters.
type lockSlots struct {
	free          int                            // slots that no op holds
	byApplication map[string]*applicationWaiters // applications with waiters
	turns         []*applicationWaiters          // the same applications, in the order of their turns
}

// applicationWaiters are the waiters of one application, in order of arrival.
type applicationWaiters struct {
	application string
	waiters     []*slotWaiter
}

// slotWaiter is one op that waits for a slot.
type slotWaiter struct {
	granted chan struct{} // closed when the waiter gets a slot
	left    bool          // the op waits no longer; the next grant skips it
}

func newLockSlots(count int) lockSlots {
	return lockSlots{free: count, byApplication: map[string]*applicationWaiters{}}
}

// acquire takes a free slot and returns nil, or queues a waiter and returns it.
func (s *lockSlots) acquire(application string) *slotWaiter {
	if s.free > 0 {
		s.free--
		return nil
	}
	queue := s.byApplication[application]
	if queue == nil {
		queue = &applicationWaiters{application: application}
		s.byApplication[application] = queue
		s.turns = append(s.turns, queue)
	}
	waiter := &slotWaiter{granted: make(chan struct{})}
	queue.waiters = append(queue.waiters, waiter)
	return waiter
}

// leave ends a wait. If the waiter has got a slot meanwhile, that slot goes to the next waiter.
func (s *lockSlots) leave(waiter *slotWaiter) {
	select {
	case <-waiter.granted:
		s.release()
	default:
		waiter.left = true
	}
}

// release gives a slot to the first waiter of the application whose turn it is, and ends that turn. The slot becomes
// free if no op waits.
func (s *lockSlots) release() {
	for len(s.turns) > 0 {
		queue := s.turns[0]
		s.turns[0], s.turns = nil, s.turns[1:]
		waiter := queue.pop()
		if len(queue.waiters) > 0 {
			s.turns = append(s.turns, queue)
		} else {
			delete(s.byApplication, queue.application)
		}
		if waiter != nil {
			close(waiter.granted)
			return
		}
	}
	s.free++
}

// pop removes and returns the first waiter that still waits, nil if there is none.
func (a *applicationWaiters) pop() *slotWaiter {
	for len(a.waiters) > 0 {
		waiter := a.waiters[0]
		a.waiters[0], a.waiters = nil, a.waiters[1:]
		if !waiter.left {
			return waiter
		}
	}
	return nil
}
