package ring

import (
	"sync"
	"time"
	"unique"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Heap holds the alarms that are due soon, in bounded memory. It has one share per loader, with a capacity of its own,
// so one loader's alarms cannot push out another's. Within a share every application has a queue. A full share takes
// room from the longest queue, so a flood of one application cannot push out the alarms of others. An id is in the heap
// once, or in flight, never both.
//
// Each route pops its own applications' entries, so entries that a route cannot ring hold up no other route. Nor do
// they keep another route's rows out of its part of a share.
//
// The heap leaves a row out when it has no room for it, or when the row's application is restricted. Offer returns the
// position from which on an application's rows are missing. HasRoomFor tells when to read them again.
//
// Heap is safe for concurrent use. No call blocks on I/O.
type Heap struct {
	wake chan struct{} // capacity 1: the head may be earlier

	mu         sync.Mutex
	shares     []share
	orders     orders
	now        clock.Instant            // time of the last pop
	heads      []headTime               // scratch of Offer
	inFlight   map[int64]inFlightEntry  // ids that were popped and not yet completed or dropped
	restricted map[addressee]*allowance // addressees whose rows are left out, and the exceptions
	awaited    awaitedRows              // rows of awaited rings, which are left out
}

// entry is one alarm in memory.
type entry struct {
	id           int64
	due          clock.Instant // next_try_time of the row
	popAt        clock.Instant // time at which the entry may be popped: due, or later after a claim that passed it over
	addressee    addressee
	slot         int32 // index into share.slots; valid only while the entry is in the heap
	shard        int16
	order        int8 // order among the addressee's entries that are due at one instant: 9 - priority
	missedClaims int8 // consecutive claims that passed the entry over
}

// rank returns the due_rank of the row.
func (e *entry) rank() int {
	return store.Rank(e.addressee.Value().Named, clock.MaxPriority-int(e.order))
}

func (e *entry) position() store.Position {
	return store.Position{Time: e.due, Rank: e.rank(), ID: e.id}
}

// row returns the entry as a due row of the database.
func (e *entry) row() store.Due {
	return store.Due{ID: e.id, NextTryTime: e.due, Rank: e.rank(), Shard: int(e.shard),
		Application: e.addressee.Value().Application}
}

// before reports whether e is popped before f, an entry of the same application: the earlier first, then the one
// of the higher priority.
func (e *entry) before(f *entry) bool { return compareEntries(e, f) < 0 }

func newEntry(d *store.Due) entry {
	return entry{
		id: d.ID, due: d.NextTryTime, popAt: d.NextTryTime, order: store.OrderOfRank(d.Rank), shard: int16(d.Shard),
		addressee: unique.Make(d.Addressee()),
	}
}

// inFlightEntry is the heap's knowledge of an id between pop and its completion.
type inFlightEntry struct {
	due        clock.Instant // due time at the pop
	rank       int           // rank at the pop
	offered    *entry        // entry that enters the heap on completion; nil: none was offered
	rowChanged bool          // the row has changed since the pop, so the next offer is true even if it equals the popped entry
}

// offer keeps e for the completion. It ignores e when e equals the popped entry, because a page may show the row as it
// was before its claim. It also ignores e when an earlier offer was kept.
func (f inFlightEntry) offer(e entry) inFlightEntry {
	if f.offered == nil && (f.rowChanged || e.due != f.due || e.rank() != f.rank) {
		f.offered = &e
	}
	return f
}

// allowance bounds the rows that a restricted application may bring in.
type allowance struct {
	rows     int           // rows that may still come in
	dueUntil clock.Instant // latest due time of such a row, inclusive
}

// admits reports whether a row with that due time may come in, and counts it. A nil allowance admits every row.
func (a *allowance) admits(due clock.Instant) bool {
	if a == nil {
		return true
	}
	if a.rows == 0 || due > a.dueUntil {
		return false
	}
	a.rows--
	return true
}

// NewHeap returns a heap of that many shares. They divide the capacity, in entries, equally.
func NewHeap(shares, capacity int) *Heap {
	h := &Heap{
		wake: make(chan struct{}, 1), shares: make([]share, shares),
		inFlight: map[int64]inFlightEntry{}, restricted: map[addressee]*allowance{}, awaited: awaitedRows{},
		orders: newOrders(1, nil),
	}
	for i := range h.shares {
		h.shares[i] = newShare(&h.orders, max(1, capacity/shares))
		h.shares[i].splitByRoute()
	}
	return h
}

// Offer puts rows into a share. A row replaces the share's entry of the same id. Offer returns the first missing row of
// each application: the first row that was left out in this call or since the last one. The caller must read the
// application's rows again from there once HasRoomFor returns true. A row whose id is in flight enters the heap on
// completion.
func (h *Heap) Offer(shareIndex int, rows []store.Due) (missing []store.Due) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.shares[shareIndex]
	h.heads = h.orders.heads(h.heads)
	for i := range rows {
		h.offer(s, newEntry(&rows[i]))
	}
	if h.orders.anyEarlier(h.heads) {
		clock.Signal(h.wake)
	}
	return s.takeMissing()
}

func (h *Heap) offer(s *share, e entry) {
	if h.awaited.skip(e) {
		return
	}
	if known := s.entry(e.id); known != nil {
		// an entry waits for at most a second after a claim (Config.Probe); a longer wait means that the clock was set
		// back
		if known.due != e.due || known.rank() != e.rank() || known.popAt > max(e.popAt, h.now.Add(time.Second)) {
			s.withdraw(e.id)
			s.set(e)
		}
		return
	}
	if f, isInFlight := h.inFlight[e.id]; isInFlight {
		h.inFlight[e.id] = f.offer(e)
		return
	}
	if !h.allowance(e.addressee).admits(e.due) {
		s.leaveOut(&e)
		return
	}
	s.put(e)
}

// Remove takes ids out of a share, because their alarms were cancelled or moved.
func (h *Heap) Remove(shareIndex int, ids []int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, id := range ids {
		if f, isInFlight := h.inFlight[id]; isInFlight {
			h.inFlight[id] = inFlightEntry{due: f.due, rank: f.rank, rowChanged: true}
		}
		h.shares[shareIndex].withdraw(id)
	}
}

// splitByRoute gives each of that many routes an order of its own, and a room in each share. The results of routeIndex
// are below routes, and never change. The heap must be empty.
func (h *Heap) splitByRoute(routes int, routeIndex func(to store.Addressee) int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orders = newOrders(routes, routeIndex)
	for i := range h.shares {
		h.shares[i].splitByRoute()
	}
}

// pop moves up to limit entries of a route that are due at now into flight, and returns them appended to dst.
// Applications with due entries take turns, whatever their ranks. The entries of one application are in the order of
// time and rank.
func (h *Heap) pop(dst []entry, route int, now clock.Instant, limit int) []entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = now
	o := &h.orders.byRoute[route]
	o.advance(now)
	for ; limit > 0; limit-- {
		q := o.next()
		if q == nil {
			break
		}
		e := q.entries[0]
		q.room.yielded = false
		q.room.share.removeAt(q, 0)
		h.inFlight[e.id] = inFlightEntry{due: e.due, rank: e.rank()}
		dst = append(dst, e)
	}
	return dst
}

// expectReoffer prepares the offer of rows that ring again. Their rings changed the rows, and their ids are still in
// flight. It drops a row that a set or cancel has changed meanwhile, because that change is newer. For each row that it
// returns it notes the change. The next offer of the row then counts as news, even with the due time and rank of the
// popped entry.
func (h *Heap) expectReoffer(rows []store.Due) []store.Due {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := rows[:0]
	for _, d := range rows {
		f, isInFlight := h.inFlight[d.ID]
		if isInFlight && f.rowChanged {
			continue
		}
		if isInFlight {
			h.inFlight[d.ID] = inFlightEntry{due: f.due, rank: f.rank, rowChanged: true}
		}
		kept = append(kept, d)
	}
	return kept
}

// complete takes the entries out of flight. An entry that was offered meanwhile enters the heap instead. Otherwise,
// with putBack, the entry itself returns to the heap, unless it was removed or its row was changed.
func (h *Heap) complete(entries []entry, putBack bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		f, isInFlight := h.inFlight[e.id]
		delete(h.inFlight, e.id)
		switch {
		case f.offered != nil:
			e = f.offered
		case !putBack || !isInFlight || f.rowChanged:
			continue
		}
		h.shareOf(e).put(*e)
	}
	h.wakeLoaders()
	clock.Signal(h.wake)
}

// drop takes the entries out of flight and leaves them out of the heap: they are missing until a loader reads them
// again.
func (h *Heap) drop(entries []entry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range entries {
		e := &entries[i]
		if f := h.inFlight[e.id]; f.offered != nil {
			e = f.offered
		}
		delete(h.inFlight, entries[i].id)
		h.shareOf(e).leaveOut(e)
	}
	h.wakeLoaders()
}

func (h *Heap) shareOf(e *entry) *share { return &h.shares[store.ShareOf(int(e.shard), len(h.shares))] }

// wakeLoaders wakes the loaders whose shares have missing rows.
func (h *Heap) wakeLoaders() {
	for i := range h.shares {
		if len(h.shares[i].missing) > 0 {
			clock.Signal(h.shares[i].loaderWake)
		}
	}
}

// head returns the time at which the next entry of a route may be popped. It may be past. ok is false when the route
// has no entry.
func (h *Heap) head(route int) (due clock.Instant, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.orders.byRoute[route].head()
}

// Restrict leaves an application's rows out until Unrestrict, except for the next allowedRows rows with a due time up
// to dueUntil.
func (h *Heap) Restrict(to addressee, allowedRows int, dueUntil clock.Instant) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.restricted[to] = &allowance{rows: allowedRows, dueUntil: dueUntil}
	if allowedRows > 0 {
		h.addRecheck(to)
	}
}

// Unrestrict ends Restrict. Loaders read the application's missing rows again.
func (h *Heap) Unrestrict(to addressee) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.restricted, to)
	h.addRecheck(to)
}

func (h *Heap) addRecheck(to addressee) {
	for i := range h.shares {
		h.shares[i].addRecheck(to)
	}
}

// suspend keeps an application's entries in the heap until resume: pop passes them over.
func (h *Heap) suspend(to addressee) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orders.suspend(to)
}

// resume ends suspend.
func (h *Heap) resume(to addressee) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orders.resume(to)
	clock.Signal(h.wake)
}

// KeepShards drops the entries of a share whose shard is no longer wanted.
func (h *Heap) KeepShards(shareIndex int, wanted func(shard int) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.shares[shareIndex].keep(wanted)
}

// TakeRechecks returns the applications for which HasRoomFor may have become true since the last call, and forgets
// them. With roomy a route has room for all its applications, so HasRoomFor may be true for any application. LoaderWake
// is signalled when a route without such room gets it.
func (h *Heap) TakeRechecks(shareIndex int) (addressees []store.Addressee, roomy bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := &h.shares[shareIndex]
	return s.takeRechecks(), s.anyRoomy()
}

// HasRoomFor reports whether a share has room for an application's missing rows, which begin at a position. With forAll
// it reports true only if there is room for all applications of the same route. After false, TakeRechecks returns the
// application once the result may have changed.
func (h *Heap) HasRoomFor(shareIndex int, to store.Addressee, from store.Position, forAll bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := unique.Make(to)
	if a := h.restricted[name]; a != nil {
		return a.rows > 0 && from.Time <= a.dueUntil
	}
	return h.shares[shareIndex].hasRoomFor(name, from, forAll)
}

// allowance returns the allowance of a restricted application, nil if the application is not restricted.
func (h *Heap) allowance(to addressee) *allowance {
	if len(h.restricted) == 0 {
		return nil
	}
	return h.restricted[to]
}

// Len returns the number of waiting entries and the number of entries in flight.
func (h *Heap) Len() (waiting, inFlight int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.shares {
		waiting += len(h.shares[i].index)
	}
	return waiting, len(h.inFlight)
}

// LoaderWake returns a channel of capacity 1 for the share's loader. It is signalled when TakeRechecks or Offer has
// news: an application to recheck, or missing rows.
func (h *Heap) LoaderWake(shareIndex int) <-chan struct{} { return h.shares[shareIndex].loaderWake }

// Wake returns a channel of capacity 1. It is signalled when the head of a route may be earlier than before.
func (h *Heap) Wake() <-chan struct{} { return h.wake }
