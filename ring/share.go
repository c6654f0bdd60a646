package ring

import (
	"slices"
	"unique"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// share is one loader's part of the heap. It has one queue per application.
type share struct {
	orders       *orders
	capacity     int
	queues       map[unique.Handle[string]]*queue    // queues by application; none is empty
	index        map[int64]int32                     // slot of each id
	slots        []location                          // location of the entry in each slot; zero for a free slot
	freeSlots    []int32                             // indexes of the free slots
	lengths      lengths                             // queues by length
	due          int                                 // number of queues whose head is due; they are in order.due of their route
	latest       entry                               // upper bound of the entries in pop order; the entry itself may be gone
	refilling    bool                                // every application has room; set at half of the capacity, cleared when the share is full
	signalAtHalf bool                                // rows are missing: signal loaderWake when the share falls to half of its capacity
	missing      map[unique.Handle[string]]store.Due // first missing row of each application, until takeMissing
	rechecks     map[unique.Handle[string]]struct{}  // applications for which hasRoomFor may have become true
	loaderWake   chan struct{}                       // capacity 1; see Heap.LoaderWake
}

// location is the position of an entry in its queue. It changes with every reordering of the queue. So it stands in a slot, and
// the index map is not written then.
type location struct {
	queue *queue
	index int
}

func newShare(o *orders, capacity int) share {
	return share{
		orders: o, capacity: capacity, queues: map[unique.Handle[string]]*queue{}, index: map[int64]int32{},
		missing: map[unique.Handle[string]]store.Due{}, rechecks: map[unique.Handle[string]]struct{}{}, loaderWake: make(chan struct{}, 1),
	}
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
}

// freeSlot frees e's slot.
func (s *share) freeSlot(e *entry) {
	delete(s.index, e.id)
	s.slots[e.slot] = location{}
	s.freeSlots = append(s.freeSlots, e.slot)
}

// put inserts e or leaves it out. The share must not have an entry with e's id. A full share makes room by dropping the later
// half of the longest queue, if that queue must yield to e's. Otherwise e competes by time: with the entries of its own
// application, or with all entries if no application has more than one.
func (s *share) put(e entry) {
	if len(s.index) < s.capacity {
		s.set(e)
		return
	}
	if s.missingBefore(&e) { // a loader reads e again anyway, after the missing row before it
		s.leaveOut(&e)
		return
	}
	own := s.queues[e.application]
	switch {
	case s.longestYieldsTo(own.len(), e.position()):
		s.halve(s.lengths.longestQueue())
	case s.lengths.longest <= 1 && e.before(s.last()):
		s.halveAll()
	case own != nil && e.before(own.last()):
		s.halve(own)
	default:
		s.leaveOut(&e)
		return
	}
	if len(s.index) >= s.capacity || s.missingBefore(&e) {
		s.leaveOut(&e)
		return
	}
	s.set(e)
}

// slack is a number of entries. A queue longer than 2*(other length + 1) + slack gives up its later half whatever the due times.
const slack = 8

// longestYieldsTo reports whether the longest queue must make room for a row at a position. The row's application has a queue
// of the given length. If the longest queue has at most one entry more, it does not yield. If it has many more (see slack), it
// yields. In between it yields only if the row is due before its last entry. So the queues of applications with about the same
// backlog end at about the same time, and a page that begins there is useful to all of them.
func (s *share) longestYieldsTo(length int, position store.Position) bool {
	switch longest := s.lengths.longest; {
	case longest <= length+1:
		return false
	case longest > 2*(length+1)+slack:
		return true
	default:
		return position.Before(s.lengths.longestQueue().last().position())
	}
}

// missingBefore reports whether a row of e's application is missing at e's position or before it.
func (s *share) missingBefore(e *entry) bool {
	m, ok := s.missing[e.application]
	return ok && !e.position().Before(m.Position())
}

// set inserts e, or replaces the entry with e's id. It ignores the capacity.
func (s *share) set(e entry) {
	s.remove(e.id)
	q := s.queues[e.application]
	if q == nil {
		q = s.orders.of(e.application).newQueue(s, e.application)
		s.queues[e.application] = q
	}
	q.push(e)
	if len(s.index) == 1 || s.latest.before(&e) {
		s.latest = *s.entry(e.id)
	}
	s.lengths.update(q)
	q.order.update(q)
	s.refilling = s.refilling && len(s.index) < s.capacity
}

// remove takes out the entry of an id, if the share has one.
func (s *share) remove(id int64) {
	if slot, known := s.index[id]; known {
		at := s.slots[slot]
		s.removeAt(at.queue, at.index)
	}
}

// removeAt takes out the entry at index i of a queue.
func (s *share) removeAt(q *queue, i int) {
	q.remove(i)
	s.refilling = s.refilling || s.halfEmpty()
	s.afterRemoval(q)
}

// afterRemoval updates the position of q after entries have left it. It wakes the loader when that made room for missing rows.
func (s *share) afterRemoval(q *queue) {
	if q.signalWhenLow && q.low() {
		q.signalWhenLow = false
		s.addRecheck(q.application)
	}
	if s.signalAtHalf && s.halfEmpty() {
		s.signalAtHalf = false
		clock.Signal(s.loaderWake)
	}
	s.lengths.update(q)
	q.order.update(q)
	if len(q.entries) == 0 {
		delete(s.queues, q.application)
		q.order.release(q)
	}
}

func (s *share) halfEmpty() bool { return len(s.index) <= s.capacity/2 }

// roomy reports whether the share has room for rows of every application.
func (s *share) roomy() bool { return s.refilling || s.halfEmpty() }

// addRecheck wakes the loader, which then asks HasRoomFor about the application.
func (s *share) addRecheck(application unique.Handle[string]) {
	s.rechecks[application] = struct{}{}
	clock.Signal(s.loaderWake)
}

// takeRechecks returns the applications for which hasRoomFor may have become true, and forgets them.
func (s *share) takeRechecks() []string {
	if len(s.rechecks) == 0 {
		return nil
	}
	names := make([]string, 0, len(s.rechecks))
	for name := range s.rechecks {
		names = append(names, name.Value())
	}
	clear(s.rechecks)
	return names
}

// halve drops the later half of a queue.
func (s *share) halve(q *queue) {
	kept := len(q.entries) / 2
	for _, e := range q.cut(kept) {
		s.leaveOut(&e)
	}
	s.afterRemoval(q)
}

// last returns the latest entry of the share. It looks at all queues only if the entry in s.latest is gone.
func (s *share) last() *entry {
	if e := s.entry(s.latest.id); e != nil && *e == s.latest {
		return &s.latest
	}
	var last *entry
	for _, q := range s.queues {
		if e := q.last(); last == nil || last.before(e) {
			last = e
		}
	}
	s.latest = *last
	return &s.latest
}

// halveAll drops the later half of all entries.
func (s *share) halveAll() {
	all := make([]entry, 0, len(s.index))
	for _, q := range s.queues {
		all = append(all, q.entries...)
	}
	slices.SortFunc(all, byTime)
	for _, e := range all[len(all)/2:] {
		s.leaveOut(&e)
		s.remove(e.id)
	}
}

// leaveOut notes that e is missing. The loader is woken when the share, or the application's queue, falls to half.
func (s *share) leaveOut(e *entry) {
	m, ok := s.missing[e.application]
	if !ok || e.position().Before(m.Position()) {
		s.missing[e.application] = e.row()
	}
	s.signalAtHalf = true
	if q := s.queues[e.application]; q != nil {
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

// hasRoomFor reports whether the loader should read an application's missing rows now. from is the position of the first of them. It
// does if the share has room for every application. Otherwise three conditions must hold:
//   - The application's queue is low.
//   - The queue would be empty before the share falls to half.
//   - The share is not full, or the longest queue yields its place.
func (s *share) hasRoomFor(application string, from store.Position) bool {
	if s.roomy() {
		return true
	}
	q := s.queues[unique.Make(application)]
	if q.low() && s.emptyBeforeHalf(q.len()) && (len(s.index) < s.capacity || s.longestYieldsTo(q.len(), from)) {
		return true
	}
	s.signalAtHalf = true
	if q != nil {
		q.lowMark, q.signalWhenLow = min(q.lowMark, len(q.entries)/2), true
	}
	return false
}

// emptyBeforeHalf reports whether a queue of the given length may be empty before the share falls to half. Due queues are popped
// by turns, so it compares the queue's length with an equal part of the entries to pop. If all applications have about the same
// backlog, it is false for all queues. Their rows are then read together, so that each page is useful to many of them. The factor
// of 2 leaves time for the read.
func (s *share) emptyBeforeHalf(length int) bool {
	return (length+1)*s.due <= 2*(len(s.index)-s.capacity/2)
}

// keep drops the entries of the shards that are not wanted.
func (s *share) keep(wanted func(shard int) bool) {
	for id := range s.index {
		if !wanted(int(s.entry(id).shard)) {
			s.remove(id)
		}
	}
}
