package ring

import (
	"cmp"
	"container/heap"
	"slices"
	"sync"
	"unique"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Heap holds what is due soon, in memory, bounded. It has one share a loader, each a min-heap with an index by id and its
// own capacity, so that one loader's alarms cannot push out another's. An id is in the heap once, or in flight, never both.
//
// Heap is safe for concurrent use; no call blocks on I/O.
type Heap struct {
	wake chan struct{} // capacity 1: an earlier head, or an id is back from its flight

	mu     sync.Mutex
	shares []share
	flight map[int64]*entry              // ids popped and not yet landed, with what was offered meanwhile
	held   map[unique.Handle[string]]int // applications passed over, but for that many rows
}

// entry is one alarm in memory.
type entry struct {
	id          int64
	due         clock.Instant
	application unique.Handle[string]
	shard       int32
	missed      int32 // claims in a row that did not take it
}

func (e *entry) position() store.Position { return store.Position{Time: e.due, ID: e.id} }

// NewHeap returns a heap of that many shares, with the capacity divided among them.
func NewHeap(shares, capacity int) *Heap {
	h := &Heap{
		wake: make(chan struct{}, 1), shares: make([]share, shares),
		flight: map[int64]*entry{}, held: map[unique.Handle[string]]int{},
	}
	for i := range h.shares {
		h.shares[i] = share{capacity: max(1, capacity/shares), index: map[int64]int{}, drained: make(chan struct{}, 1)}
	}
	return h
}

// Offer puts rows into a share, in the place of what the share has of the same ids. It returns the position of the first
// row, offered or evicted, that the share has no room for: the caller must read again from there. full is false when all
// are held. Rows of ids in flight are taken when these land, rows of held applications are passed over: Hold's caller
// reads them again.
func (h *Heap) Offer(to int, rows []store.Due) (cut store.Position, full bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.shares[to]
	for i := range rows {
		e := entry{
			id: rows[i].ID, due: rows[i].NextTryTime, shard: int32(rows[i].Shard),
			application: unique.Make(rows[i].Application),
		}
		if h.passesOver(e.application) {
			continue
		}
		if _, flies := h.flight[e.id]; flies {
			h.flight[e.id] = &e
			continue
		}
		if at, ok := s.put(e); !ok && (!full || at.Before(cut)) {
			cut, full = at, true
		}
	}
	h.signal()
	return cut, full
}

// Remove takes ids out of a share: cancelled, or moved past what is loaded.
func (h *Heap) Remove(from int, ids []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if e := h.flight[id]; e != nil {
			h.flight[id] = nil
		}
		h.shares[from].remove(id)
	}
}

// Pop moves up to limit entries that are due at now into flight, earliest first, and returns them appended to dst.
func (h *Heap) Pop(dst []entry, now clock.Instant, limit int) []entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	for limit > 0 {
		s := h.earliest()
		if s == nil || s.entries[0].due > now {
			break
		}
		e := s.entries[0]
		s.remove(e.id)
		h.flight[e.id] = nil
		dst = append(dst, e)
		limit--
	}
	return dst
}

// Land ends the flight of the entries. What was offered of them meanwhile comes in; with back, else they themselves do.
func (h *Heap) Land(entries []entry, back bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	groups := len(h.shares)
	for i := range entries {
		e := &entries[i]
		offered, flies := h.flight[e.id]
		delete(h.flight, e.id)
		switch {
		case offered != nil:
			e = offered
		case !back || !flies:
			continue
		}
		h.shares[ShareOf(int(e.shard), groups)].set(*e) // flights are few: they may exceed the capacity
	}
	h.signal()
}

// Head returns when the earliest entry is due; ok is false when the heap is empty.
func (h *Heap) Head() (due clock.Instant, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.earliest()
	if s == nil {
		return 0, false
	}
	return s.entries[0].due, true
}

// Hold makes the heap pass over an application's rows, but for the next few, until Unhold.
func (h *Heap) Hold(application unique.Handle[string], but int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[application] = but
}

// passesOver reports whether a row of the application has to stay out.
func (h *Heap) passesOver(application unique.Handle[string]) bool {
	but, held := h.held[application]
	if held && but > 0 {
		h.held[application] = but - 1
		return false
	}
	return held
}

// Unhold ends Hold.
func (h *Heap) Unhold(application unique.Handle[string]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, application)
}

// Keep drops the entries of a share whose shard is not wanted any more.
func (h *Heap) Keep(in int, wanted func(shard int) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.shares[in]
	s.entries = slices.DeleteFunc(s.entries, func(e entry) bool { return !wanted(int(e.shard)) })
	s.rebuild()
}

// Wants reports whether a share has use for rows from a position on: at most half full, or holding later ones.
func (h *Heap) Wants(of int, from store.Position) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.shares[of]
	return len(s.entries) <= s.capacity/2 || from.Before(s.last())
}

// Len returns the entries in the heap and in flight.
func (h *Heap) Len() (waiting, inFlight int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.shares {
		waiting += len(h.shares[i].entries)
	}
	return waiting, len(h.flight)
}

// Drained returns a channel of capacity 1, signalled when the share falls to half of its capacity.
func (h *Heap) Drained(of int) <-chan struct{} { return h.shares[of].drained }

// Wake returns a channel of capacity 1, signalled when there may be an earlier head.
func (h *Heap) Wake() <-chan struct{} { return h.wake }

// ShareOf returns the share of a shard among that many.
func ShareOf(shard, shares int) int { return shard % shares }

func (h *Heap) signal() { signal(h.wake) }

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// earliest returns the share with the earliest head, nil when all are empty.
func (h *Heap) earliest() *share {
	var first *share
	for i := range h.shares {
		s := &h.shares[i]
		if len(s.entries) > 0 && (first == nil || s.entries[0].position().Before(first.entries[0].position())) {
			first = s
		}
	}
	return first
}

// share is one loader's part of the heap.
type share struct {
	capacity int
	entries  []entry
	index    map[int64]int  // id -> place in entries
	latest   store.Position // no entry lies after it; one may have gone that did
	drained  chan struct{}
}

// put inserts e, or replaces what the share has of its id. Full, it gives up its later half for an e that is earlier than
// its latest. ok is false when something had to stay out: everything from position cut on.
func (s *share) put(e entry) (cut store.Position, ok bool) {
	_, known := s.index[e.id]
	if known || len(s.entries) < s.capacity {
		s.set(e)
		return cut, true
	}
	if !e.position().Before(s.latest) || !e.position().Before(s.last()) {
		return e.position(), false
	}
	if cut = s.halve(); e.position().Before(cut) {
		s.set(e)
	}
	return cut, false
}

// set inserts e or replaces what the share has of its id, whatever the capacity.
func (s *share) set(e entry) {
	s.latest = later(s.latest, e.position())
	at, known := s.index[e.id]
	if known {
		s.entries[at] = e
	} else {
		at = len(s.entries)
		s.entries = append(s.entries, e)
		s.index[e.id] = at
	}
	heap.Fix(s, at)
}

// last returns the position of the latest entry, and notes it.
func (s *share) last() store.Position {
	s.latest = store.Position{}
	for i := range s.entries {
		s.latest = later(s.latest, s.entries[i].position())
	}
	return s.latest
}

// halve drops the later half and returns where it began.
func (s *share) halve() store.Position {
	slices.SortFunc(s.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.id, b.id))
	})
	keep := len(s.entries) / 2
	cut := s.entries[keep].position()
	s.entries = s.entries[:keep]
	s.rebuild()
	return cut
}

// rebuild makes index and order anew after entries were changed as a whole.
func (s *share) rebuild() {
	clear(s.index)
	for i := range s.entries {
		s.index[s.entries[i].id] = i
	}
	s.last()
	heap.Init(s)
}

func (s *share) remove(id int64) {
	at, known := s.index[id]
	if !known {
		return
	}
	last := len(s.entries) - 1
	s.Swap(at, last)
	s.entries = s.entries[:last]
	delete(s.index, id)
	if at < last {
		heap.Fix(s, at)
	}
	if last == s.capacity/2 {
		signal(s.drained)
	}
}

func later(a, b store.Position) store.Position {
	if a.Before(b) {
		return b
	}
	return a
}

// Len, Less, Swap, Push and Pop are for container/heap; entries come and go by put and remove, which do not box them.

// Len is for container/heap.
func (s *share) Len() int { return len(s.entries) }

// Less is for container/heap.
func (s *share) Less(i, j int) bool {
	return s.entries[i].position().Before(s.entries[j].position())
}

// Swap is for container/heap.
func (s *share) Swap(i, j int) {
	s.entries[i], s.entries[j] = s.entries[j], s.entries[i]
	s.index[s.entries[i].id], s.index[s.entries[j].id] = i, j
}

// Push is for container/heap, which is never asked to push.
func (s *share) Push(any) { panic("ring: share.Push") }

// Pop is for container/heap, which is never asked to pop.
func (s *share) Pop() any { panic("ring: share.Pop") }
