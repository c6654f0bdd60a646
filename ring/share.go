package ring

import (
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// share is one loader's part of the heap. It has one queue per application, and one room per route.
type share struct {
	orders     *orders
	capacity   int
	rooms      []room                  // by route
	queues     map[addressee]*queue    // queues by application; none is empty
	index      map[int64]int32         // slot of each id
	slots      []location              // location of the entry in each slot; zero for a free slot
	freeSlots  []int32                 // indexes of the free slots
	missing    map[addressee]store.Due // first missing row of each application, until takeMissing
	rechecks   map[addressee]struct{}  // applications for which hasRoomFor may have become true
	loaderWake chan struct{}           // capacity 1; see Heap.LoaderWake
}

// location is the position of an entry in its queue. It changes with every reordering of the queue. So it stands in a
// slot, and the index map is not written then.
type location struct {
	queue *queue
	index int
}

// newShare returns a share without rooms; see splitByRoute.
func newShare(o *orders, capacity int) share {
	return share{
		orders: o, capacity: capacity, queues: map[addressee]*queue{}, index: map[int64]int32{},
		missing: map[addressee]store.Due{}, rechecks: map[addressee]struct{}{}, loaderWake: make(chan struct{}, 1),
	}
}

// splitByRoute gives each route of s.orders a room for at least one entry. The share must be empty.
func (s *share) splitByRoute() {
	routes := len(s.orders.byRoute)
	s.capacity = max(s.capacity, routes)
	s.rooms = make([]room, routes)
	for i := range s.rooms {
		s.rooms[i] = room{share: s, order: &s.orders.byRoute[i], reserved: s.capacity / routes}
	}
}

// roomOf returns the room of an application's route. q is the application's queue, nil if it has none.
func (s *share) roomOf(q *queue, to addressee) *room {
	if q != nil {
		return q.room
	}
	return &s.rooms[s.orders.indexOf(to)]
}

// entry returns the share's entry of the id, nil if it has none.
func (s *share) entry(id int64) *entry {
	slot, ok := s.index[id]
	if !ok {
		return nil
	}
	at := s.slots[slot]
	return &at.queue.entries[at.index]
}

// takeSlot gives e a slot and notes its queue. queue.putAt sets the position within the queue.
func (s *share) takeSlot(e *entry, q *queue) {
	if n := len(s.freeSlots); n > 0 {
		e.slot, s.freeSlots = s.freeSlots[n-1], s.freeSlots[:n-1]
	} else {
		e.slot = int32(len(s.slots))
		s.slots = append(s.slots, location{})
	}
	s.slots[e.slot].queue = q
	s.index[e.id] = e.slot
	q.room.entries++
}

// freeSlot frees the slot of e, an entry of q.
func (s *share) freeSlot(e *entry, q *queue) {
	q.room.entries--
	delete(s.index, e.id)
	s.slots[e.slot] = location{}
	s.freeSlots = append(s.freeSlots, e.slot)
}

// put inserts e or leaves it out. The share must not have an entry with e's id. In a full share, e's route gets room
// from another route if it has less than its part. Otherwise e competes with the entries of its own route: the longest
// queue drops its later half if it must yield to e's. If it need not, e competes by time: with the entries of its own
// application, or with all entries of the route if no application has more than one.
func (s *share) put(e entry) {
	if !s.full() {
		s.set(e)
		return
	}
	own := s.queues[e.addressee]
	r := s.roomOf(own, e.addressee)
	if !r.full() {
		s.largestExcess().yield()
		s.set(e)
		return
	}
	if s.missingBefore(&e) { // a loader reads e again anyway, after the missing row before it
		s.leaveOut(&e)
		return
	}
	switch {
	case r.longestYieldsTo(own.len(), e.position()):
		r.halve(r.lengths.longestQueue())
	case r.lengths.longest <= 1 && e.before(r.last()):
		r.halveAll()
	case own != nil && e.before(own.last()):
		r.halve(own)
	default:
		s.leaveOut(&e)
		return
	}
	if s.full() || s.missingBefore(&e) {
		s.leaveOut(&e)
		return
	}
	s.set(e)
}

// full reports whether the share has as many entries as its capacity.
func (s *share) full() bool { return len(s.index) >= s.capacity }

// largestExcess returns the room with the most entries above its part. In a full share it has at least one such entry
// if another room has less than its part.
func (s *share) largestExcess() *room {
	largest := &s.rooms[0]
	for i := range s.rooms {
		if r := &s.rooms[i]; r.entries-r.reserved > largest.entries-largest.reserved {
			largest = r
		}
	}
	return largest
}

// missingBefore reports whether a row of e's application is missing at e's position or before it.
func (s *share) missingBefore(e *entry) bool {
	m, ok := s.missing[e.addressee]
	return ok && !e.position().Before(m.Position())
}

// set inserts e, or replaces the entry with e's id. It ignores the capacity.
func (s *share) set(e entry) {
	s.remove(e.id)
	q := s.queues[e.addressee]
	r := s.roomOf(q, e.addressee)
	if q == nil {
		q = r.order.newQueue(r, e.addressee)
		s.queues[e.addressee] = q
	}
	q.push(e)
	if r.entries == 1 || r.latest.before(&e) {
		r.latest = *s.entry(e.id)
	}
	r.lengths.update(q)
	r.order.update(q)
	if s.full() {
		s.endRefills()
	}
}

// endRefills notes which rooms are full, after the share has become full.
func (s *share) endRefills() {
	for i := range s.rooms {
		r := &s.rooms[i]
		r.refilling = r.refilling && !r.full()
	}
}

// remove takes out the entry of an id, if the share has one.
func (s *share) remove(id int64) {
	if slot, known := s.index[id]; known {
		at := s.slots[slot]
		s.removeAt(at.queue, at.index)
	}
}

// withdraw takes out the entry of an id, if the share has one. The entry will not be popped as it is, so missing rows
// may now be due before the room's next pop.
func (s *share) withdraw(id int64) {
	if slot, known := s.index[id]; known {
		s.slots[slot].queue.room.yielded = false
	}
	s.remove(id)
}

// removeAt takes out the entry at index i of a queue.
func (s *share) removeAt(q *queue, i int) {
	q.remove(i)
	for route := range s.rooms {
		r := &s.rooms[route]
		r.refilling = r.refilling || r.halfEmpty()
	}
	s.afterRemoval(q)
}

// afterRemoval updates the position of q after entries have left it. It wakes the loader when that made room for
// missing rows. The entries of one route can make room for another route's rows.
func (s *share) afterRemoval(q *queue) {
	if q.signalWhenLow && q.low() {
		q.signalWhenLow = false
		s.addRecheck(q.addressee)
	}
	for i := range s.rooms {
		if r := &s.rooms[i]; r.signalAtHalf && r.halfEmpty() {
			r.signalAtHalf = false
			clock.Signal(s.loaderWake)
		}
	}
	q.room.lengths.update(q)
	q.room.order.update(q)
	if len(q.entries) == 0 {
		delete(s.queues, q.addressee)
		q.room.order.release(q)
	}
}

// anyRoomy reports whether a route has room for rows of all its applications. It wakes the loader when this becomes
// true for another route.
func (s *share) anyRoomy() bool {
	anyRoomy := false
	for i := range s.rooms {
		r := &s.rooms[i]
		roomy := r.roomy()
		anyRoomy = anyRoomy || roomy
		r.signalAtHalf = r.signalAtHalf || !roomy
	}
	return anyRoomy
}

// addRecheck wakes the loader, which then asks HasRoomFor about the application.
func (s *share) addRecheck(to addressee) {
	s.rechecks[to] = struct{}{}
	clock.Signal(s.loaderWake)
}

// takeRechecks returns the applications for which hasRoomFor may have become true, and forgets them.
func (s *share) takeRechecks() []store.Addressee {
	if len(s.rechecks) == 0 {
		return nil
	}
	names := make([]store.Addressee, 0, len(s.rechecks))
	for name := range s.rechecks {
		names = append(names, name.Value())
	}
	clear(s.rechecks)
	return names
}

// leaveOut notes that e is missing. The loader is woken when the room of e's route is half empty, or the application's
// queue is low.
func (s *share) leaveOut(e *entry) {
	m, ok := s.missing[e.addressee]
	if !ok || e.position().Before(m.Position()) {
		s.missing[e.addressee] = e.row()
	}
	q := s.queues[e.addressee]
	s.roomOf(q, e.addressee).signalAtHalf = true
	if q != nil {
		q.lowMark, q.signalWhenLow = len(q.entries)/2, true
	}
}

func (s *share) takeMissing() []store.Due {
	if len(s.missing) == 0 {
		return nil
	}
	missing := make([]store.Due, 0, len(s.missing))
	for _, d := range s.missing {
		missing = append(missing, d)
	}
	clear(s.missing)
	return missing
}

// hasRoomFor reports whether the loader should read an application's missing rows now. from is the position of the
// first of them. With forAll there must be room for all applications of its route. After false, the loader is woken
// when the result may have changed.
func (s *share) hasRoomFor(to addressee, from store.Position, forAll bool) bool {
	q := s.queues[to]
	r := s.roomOf(q, to)
	if r.roomy() || !forAll && r.hasRoomFor(q, from) {
		return true
	}
	r.signalAtHalf = true
	if q != nil && !forAll {
		q.lowMark, q.signalWhenLow = min(q.lowMark, len(q.entries)/2), true
	}
	return false
}

// keep drops the entries of the shards that are not wanted.
func (s *share) keep(wanted func(shard int) bool) {
	for id := range s.index {
		if !wanted(int(s.entry(id).shard)) {
			s.withdraw(id)
		}
	}
}
