package ring

import (
	"sync"
	"unique"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Heap holds what is due soon, in memory, bounded. It has one share a loader with a capacity of its own, so that one
// loader's alarms cannot push out another's; within a share every application has a queue, and a full share takes room from
// the longest one, so that an application's flood cannot push out the others' either. An id is in the heap once, or in
// flight, never both.
//
// What has no room, or must not come in because its application is held, is left out: Offer tells from which position on
// an application's rows are missing, and Wants when they are of use.
//
// Heap is safe for concurrent use; no call blocks on I/O.
type Heap struct {
	wake chan struct{} // capacity 1: an earlier head

	mu     sync.Mutex
	shares []share
	order  order
	flight map[int64]flight                     // ids popped and not yet landed
	held   map[unique.Handle[string]]*allowance // applications left out
}

// entry is one alarm in memory.
type entry struct {
	id          int64
	due         clock.Instant // as the database has it
	at          clock.Instant // when it is to be popped: due, or later where a claim passed it over
	application unique.Handle[string]
	slot        int32 // of its share, while it is in the heap
	shard       int16
	rank        int8 // among those due at one instant
	missed      int8 // claims in a row that did not take it
}

func (e *entry) position() store.Position {
	return store.Position{Time: e.due, Rank: int(e.rank), ID: e.id}
}

// row returns what the database has of the entry.
func (e *entry) row() store.Due {
	return store.Due{ID: e.id, NextTryTime: e.due, Rank: int(e.rank), Shard: int(e.shard), Application: e.application.Value()}
}

// before tells the order in which entries of one application are popped: by time, of one instant the lower rank first.
func (e *entry) before(f *entry) bool { return compareEntries(e, f) < 0 }

func newEntry(d *store.Due) entry {
	return entry{
		id: d.ID, due: d.NextTryTime, at: d.NextTryTime, rank: int8(d.Rank), shard: int16(d.Shard), application: unique.Make(d.Application),
	}
}

// flight is what is known of an id between pop and land.
type flight struct {
	due     clock.Instant // as it was popped
	rank    int8          // as it was popped
	offered *entry        // what it will be after landing
	news    bool          // the row was changed since: whatever is offered is true
}

// offer notes e unless it says only what was popped, or less than what is known already: pages read the row as it was
// before its claim.
func (f flight) offer(e entry) flight {
	if f.offered == nil && (f.news || e.due != f.due || e.rank != f.rank) {
		f.offered = &e
	}
	return f
}

// allowance is what a held application may bring in: that many rows due until then.
type allowance struct {
	rows  int
	until clock.Instant
}

func (a *allowance) admits(due clock.Instant) bool {
	if a == nil {
		return true
	}
	if a.rows == 0 || due > a.until {
		return false
	}
	a.rows--
	return true
}

// NewHeap returns a heap of that many shares, with the capacity divided among them.
func NewHeap(shares, capacity int) *Heap {
	h := &Heap{
		wake: make(chan struct{}, 1), shares: make([]share, shares),
		flight: map[int64]flight{}, held: map[unique.Handle[string]]*allowance{},
		order: order{peers: map[unique.Handle[string]]*peers{}},
	}
	for i := range h.shares {
		h.shares[i] = newShare(&h.order, max(1, capacity/shares))
	}
	return h
}

// Offer puts rows into a share, in the place of what the share has of the same ids. It returns what is missing now, and
// what land had to leave out before: of each application the first row that was offered or evicted and has no place; the
// caller must read the application's rows again from there when Wants says so. Rows of ids in flight are taken when
// these land.
func (h *Heap) Offer(to int, rows []store.Due) (missing []store.Due) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.shares[to]
	head, some := h.order.head()
	for i := range rows {
		h.offer(s, newEntry(&rows[i]))
	}
	if now, ok := h.order.head(); ok && (!some || now < head) {
		signal(h.wake)
	}
	return s.takeMissing()
}

func (h *Heap) offer(s *share, e entry) {
	if known := s.entry(e.id); known != nil {
		if known.due != e.due || known.rank != e.rank {
			s.set(e)
		}
		return
	}
	if f, flies := h.flight[e.id]; flies {
		h.flight[e.id] = f.offer(e)
		return
	}
	if !h.held[e.application].admits(e.due) {
		s.leaveOut(&e)
		return
	}
	s.put(e)
}

// Remove takes ids out of a share: cancelled, or moved.
func (h *Heap) Remove(from int, ids []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if f, flies := h.flight[id]; flies {
			h.flight[id] = flight{due: f.due, rank: f.rank, news: true}
		}
		h.shares[from].remove(id)
	}
}

// pop moves up to limit entries that are due at now into flight and returns them appended to dst: each application's in
// the order of their time and rank, the applications by turns where several have some: no rank of one comes before another's.
func (h *Heap) pop(dst []entry, now clock.Instant, limit int) []entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.order.advance(now)
	for ; limit > 0; limit-- {
		q := h.order.next()
		if q == nil {
			break
		}
		e := q.entries[0]
		q.share.removeAt(q, 0)
		h.flight[e.id] = flight{due: e.due, rank: e.rank}
		dst = append(dst, e)
	}
	return dst
}

// changed prepares for rows that are to be offered while still in flight, for what rang them changed them: it drops those
// of which something newer is known, and of the others believes the next offer.
func (h *Heap) changed(rows []store.Due) []store.Due {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := rows[:0]
	for _, d := range rows {
		f, flies := h.flight[d.ID]
		if flies && f.news {
			continue
		}
		if flies {
			h.flight[d.ID] = flight{due: f.due, rank: f.rank, news: true}
		}
		kept = append(kept, d)
	}
	return kept
}

// land ends the flight of the entries. What was offered of them meanwhile comes in; with back, else they themselves do,
// unless they were removed.
func (h *Heap) land(entries []entry, back bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		f, flies := h.flight[e.id]
		delete(h.flight, e.id)
		switch {
		case f.offered != nil:
			e = f.offered
		case !back || !flies || f.news:
			continue
		}
		h.shareOf(e).put(*e)
	}
	h.tellMissing()
	signal(h.wake)
}

// letGo ends the flight of entries for which their application has no use now: they are missing.
func (h *Heap) letGo(entries []entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		if f := h.flight[e.id]; f.offered != nil {
			e = f.offered
		}
		delete(h.flight, entries[i].id)
		h.shareOf(e).leaveOut(e)
	}
	h.tellMissing()
}

func (h *Heap) shareOf(e *entry) *share { return &h.shares[ShareOf(int(e.shard), len(h.shares))] }

// tellMissing wakes the loaders of the shares that had to leave something out.
func (h *Heap) tellMissing() {
	for i := range h.shares {
		if len(h.shares[i].missing) > 0 {
			signal(h.shares[i].drained)
		}
	}
}

// Head returns when there is something to pop: the earliest entry's time; ok is false when the heap is empty.
func (h *Heap) Head() (due clock.Instant, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.order.head()
}

// Hold leaves an application's rows out, but for the next few that are due until then, until Unhold.
func (h *Heap) Hold(application unique.Handle[string], but int, until clock.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.held[application] = &allowance{rows: but, until: until}
	if but > 0 {
		h.tellDrained()
	}
}

// Unhold ends Hold: the application's rows are wanted.
func (h *Heap) Unhold(application unique.Handle[string]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.held, application)
	h.tellDrained()
}

func (h *Heap) tellDrained() {
	for i := range h.shares {
		signal(h.shares[i].drained)
	}
}

// Keep drops the entries of a share whose shard is not wanted any more.
func (h *Heap) Keep(in int, wanted func(shard int) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shares[in].keep(wanted)
}

// Wants reports whether a share has use for an application's rows from a position on that were left out before.
func (h *Heap) Wants(of int, application string, from store.Position) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := unique.Make(application)
	if a := h.held[name]; a != nil {
		return a.rows > 0 && from.Time <= a.until
	}
	return h.shares[of].wants(name)
}

// Len returns the entries in the heap and in flight.
func (h *Heap) Len() (waiting, inFlight int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.shares {
		waiting += len(h.shares[i].index)
	}
	return waiting, len(h.flight)
}

// Drained returns a channel of capacity 1, signalled when Wants may have become true of an application, and when Offer has
// something missing to tell.
func (h *Heap) Drained(of int) <-chan struct{} { return h.shares[of].drained }

// Wake returns a channel of capacity 1, signalled when there may be an earlier head.
func (h *Heap) Wake() <-chan struct{} { return h.wake }

// ShareOf returns the share of a shard among that many.
func ShareOf(shard, shares int) int { return shard % shares }

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
