package ring

import (
	"slices"
	"unique"

	"github.com/clockd/clockd/store"
)

// share is one loader's part of the heap: a queue an application.
type share struct {
	order    *order
	capacity int
	queues   map[unique.Handle[string]]*queue // none empty
	index    map[int64]int32                  // the slots of ids
	slots    []place
	free     []int32 // slots without an entry
	longest  int     // no queue is longer; the longest may have become shorter
	short    bool    // something was left out or not wanted since drained was signalled
	missing  map[unique.Handle[string]]store.Due
	drained  chan struct{}
}

// place is where an entry is. It is in a slot, not in the index, for it changes whenever a queue is put in order.
type place struct {
	q *queue
	i int
}

func newShare(o *order, capacity int) share {
	return share{
		order: o, capacity: capacity, queues: map[unique.Handle[string]]*queue{}, index: map[int64]int32{},
		missing: map[unique.Handle[string]]store.Due{}, drained: make(chan struct{}, 1),
	}
}

// entry returns the share's entry of the id, nil if it has none.
func (s *share) entry(id int64) *entry {
	slot, ok := s.index[id]
	if !ok {
		return nil
	}
	p := s.slots[slot]
	return &p.q.entries[p.i]
}

// enter gives e a slot, as an entry of q; put says where it is there.
func (s *share) enter(e *entry, q *queue) {
	if n := len(s.free); n > 0 {
		e.slot, s.free = s.free[n-1], s.free[:n-1]
	} else {
		e.slot = int32(len(s.slots))
		s.slots = append(s.slots, place{})
	}
	s.slots[e.slot].q = q
	s.index[e.id] = e.slot
}

// leave takes e's slot.
func (s *share) leave(e *entry) {
	delete(s.index, e.id)
	s.slots[e.slot] = place{}
	s.free = append(s.free, e.slot)
}

// put inserts e, which the share does not have, or leaves it out. A full share makes room by dropping the later half of
// the longest queue, if that is longer than e's would be; else e competes with its own application's, or, where no application
// has more than one, with all by time.
func (s *share) put(e entry) {
	if len(s.index) < s.capacity {
		s.set(e)
		return
	}
	own := s.queues[e.application]
	switch longest := s.longerThan(own.len() + 1); {
	case longest != nil:
		s.halve(longest)
	case s.longest <= 1 && e.before(s.last()):
		s.halveAll()
	case own != nil && e.before(own.last()):
		s.halve(own)
	default:
		s.leaveOut(&e)
		return
	}
	s.squeeze(e)
}

// squeeze inserts e if there is room and nothing earlier of its application is missing.
func (s *share) squeeze(e entry) {
	if m, ok := s.missing[e.application]; ok && !e.position().Before(m.Position()) || len(s.index) >= s.capacity {
		s.leaveOut(&e)
		return
	}
	s.set(e)
}

// set inserts e or replaces what the share has of its id, whatever the capacity.
func (s *share) set(e entry) {
	s.remove(e.id)
	q := s.queues[e.application]
	if q == nil {
		q = s.order.newQueue(s, e.application)
		s.queues[e.application] = q
	}
	q.push(e)
	s.longest = max(s.longest, len(q.entries))
	s.order.file(q)
}

// remove takes an id out, if the share has it.
func (s *share) remove(id int64) {
	if slot, known := s.index[id]; known {
		p := s.slots[slot]
		s.removeAt(p.q, p.i)
	}
}

// removeAt takes out the entry at i of a queue.
func (s *share) removeAt(q *queue, i int) {
	q.remove(i)
	s.shrunk(q)
}

// shrunk files q anew after entries have left it, and signals where that makes room that somebody waits for.
func (s *share) shrunk(q *queue) {
	if q.waited && q.low() {
		q.waited = false
		signal(s.drained)
	}
	if s.short && len(s.index) <= s.capacity/2 {
		s.short = false
		signal(s.drained)
	}
	s.order.file(q)
	if len(q.entries) == 0 {
		delete(s.queues, q.application)
		s.order.free(q)
	}
}

// longerThan returns the longest queue if it is longer than n, and knows s.longest exactly afterwards if it looked.
func (s *share) longerThan(n int) *queue {
	if s.longest <= n {
		return nil
	}
	var longest *queue
	s.longest = 0
	for _, q := range s.queues {
		if len(q.entries) > s.longest {
			longest, s.longest = q, len(q.entries)
		}
	}
	if s.longest <= n {
		return nil
	}
	return longest
}

// halve drops the later half of a queue.
func (s *share) halve(q *queue) {
	kept := len(q.entries) / 2
	for _, e := range q.cut(kept) {
		s.leaveOut(&e)
	}
	s.shrunk(q)
}

// last returns the latest entry of all queues.
func (s *share) last() *entry {
	var last *entry
	for _, q := range s.queues {
		if e := q.last(); last == nil || last.before(e) {
			last = e
		}
	}
	return last
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

// leaveOut notes that e has no place; drained is signalled when the share, or the application's queue, is down to half.
func (s *share) leaveOut(e *entry) {
	m, ok := s.missing[e.application]
	if !ok || e.position().Before(m.Position()) {
		s.missing[e.application] = e.row()
	}
	s.short = true
	if q := s.queues[e.application]; q != nil {
		q.limit, q.waited = len(q.entries)/2, true
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

// wants reports whether there is room for an application of which rows were left out: half of the share, or its own
// queue has run low and it may take room from others.
func (s *share) wants(application unique.Handle[string]) bool {
	if len(s.index) <= s.capacity/2 {
		return true
	}
	q := s.queues[application]
	if q.low() && (len(s.index) < s.capacity || s.longerThan(q.len()+1) != nil) {
		return true
	}
	s.short = true
	if q != nil {
		q.waited = true
	}
	return false
}

// keep drops the entries of shards that are not wanted.
func (s *share) keep(wanted func(shard int) bool) {
	for id := range s.index {
		if !wanted(int(s.entry(id).shard)) {
			s.remove(id)
		}
	}
}
