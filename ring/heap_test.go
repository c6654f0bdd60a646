package ring

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"unique"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// heapModel holds the expected content of a heap in plain maps, and the missing rows that the loaders know of.
type heapModel struct {
	h          *Heap
	shares     int
	routes     int
	rows       map[int64]store.Due                  // rows that were offered and neither removed nor popped: in the heap, or missing
	inFlight   map[int64]entry                      // popped entries, as popped
	offered    map[int64]store.Due                  // row that enters on completion, by id in flight
	rowChanged map[int64]bool                       // ids in flight that were removed or changed
	missing    []map[store.Addressee]store.Position // by share and application: position of the first missing row
	restricted map[addressee]allowance              // allowances as passed to Restrict
	suspended  map[addressee]bool                   // addressees whose entries stay
}

func newHeapModel(shares, routes, capacity int) *heapModel {
	m := &heapModel{
		h: NewHeap(shares, capacity), shares: shares, routes: routes, rows: map[int64]store.Due{},
		inFlight: map[int64]entry{},
		offered:  map[int64]store.Due{}, rowChanged: map[int64]bool{}, restricted: map[addressee]allowance{},
		suspended: map[addressee]bool{},
	}
	for range shares {
		m.missing = append(m.missing, map[store.Addressee]store.Position{})
	}
	m.h.splitByRoute(routes, m.routeIndex)
	return m
}

// routeIndex divides the model's addressees among the routes.
func (m *heapModel) routeIndex(to store.Addressee) int {
	return (int(to.Application[0]) + int(to.Target) + to.Destination) % m.routes
}

var modelApplications = []string{"a", "b", "c", "d", "e"}

// modelTargets are what the model's alarms name.
var modelTargets = []store.Named{{}, {Target: clock.TargetAMQP}, {Target: clock.TargetPull},
	{Target: clock.TargetPull, Destination: 7}}

func modelAddressees() (all []store.Addressee) {
	for _, application := range modelApplications {
		for _, target := range modelTargets {
			all = append(all, store.Addressee{Application: application, Named: target})
		}
	}
	return all
}

// modelRow draws a row. Its id determines the shard and the application.
func modelRow(t *rapid.T) store.Due {
	id := rapid.Int64Range(1, 60).Draw(t, "id")
	return store.Due{
		ID: id, NextTryTime: clock.Instant(rapid.IntRange(0, 100).Draw(t, "due")),
		Rank:  store.Rank(rapid.SampledFrom(modelTargets).Draw(t, "target"), rapid.IntRange(0, 2).Draw(t, "priority")),
		Shard: int(id % 7), Application: modelApplications[int(id*id)%len(modelApplications)],
	}
}

func (m *heapModel) offer(t *rapid.T) {
	id := func(d store.Due) int64 { return d.ID }
	rows := rapid.SliceOfNDistinct(rapid.Custom(modelRow), 1, 30, id).Draw(t, "rows")
	byShare := make([][]store.Due, m.shares)
	for _, d := range rows {
		share := store.ShareOf(d.Shard, m.shares)
		byShare[share] = append(byShare[share], d)
		if e, isInFlight := m.inFlight[d.ID]; !isInFlight {
			m.rows[d.ID] = d
		} else if _, known := m.offered[d.ID]; !known &&
			(m.rowChanged[d.ID] || d.NextTryTime != e.due || d.Rank != e.rank()) {
			m.offered[d.ID] = d
		}
	}
	for share, rows := range byShare {
		m.noteMissing(share, m.h.Offer(share, rows))
	}
}

// noteMissing notes the rows that a share reported missing, as a loader does.
func (m *heapModel) noteMissing(share int, missing []store.Due) {
	for _, d := range missing {
		if before, ok := m.missing[share][d.Addressee()]; !ok || d.Position().Before(before) {
			m.missing[share][d.Addressee()] = d.Position()
		}
	}
}

func (m *heapModel) remove(t *rapid.T) {
	d := modelRow(t)
	m.h.Remove(store.ShareOf(d.Shard, m.shares), []int64{d.ID})
	delete(m.rows, d.ID)
	if _, isInFlight := m.inFlight[d.ID]; isInFlight {
		m.rowChanged[d.ID] = true
		delete(m.offered, d.ID)
	}
}

func (m *heapModel) pop(t *rapid.T) {
	now := clock.Instant(rapid.IntRange(0, 100).Draw(t, "now"))
	limit, route := rapid.IntRange(1, 20).Draw(t, "limit"), rapid.IntRange(0, m.routes-1).Draw(t, "route")
	due := 0
	for _, e := range m.entries() {
		if e.popAt <= now && m.routeIndex(e.addressee.Value()) == route && !m.suspended[e.addressee] {
			due++
		}
	}
	popped := m.h.pop(nil, route, now, limit)
	if len(popped) != min(due, limit) {
		t.Fatalf("popped %d of %d entries due at %d, limit %d", len(popped), due, now, limit)
	}
	for i := range popped {
		e := popped[i]
		if d, ok := m.rows[e.id]; !ok || d != dueOf(e) || e.popAt > now || m.routeIndex(d.Addressee()) != route ||
			m.suspended[e.addressee] {
			t.Fatalf("popped %+v at %d, offered row %+v, %t", e, now, d, ok)
		}
		delete(m.rows, e.id)
		m.inFlight[e.id] = e
	}
	m.checkPopOrder(t, popped)
}

// checkPopOrder checks that the entries of one share and application were popped by time and rank, and before all
// entries that stayed.
func (m *heapModel) checkPopOrder(t *rapid.T, popped []entry) {
	type key struct {
		share     int
		addressee addressee
	}
	last := map[key]entry{}
	for _, e := range popped {
		k := key{store.ShareOf(int(e.shard), m.shares), e.addressee}
		if before, ok := last[k]; ok && comesBefore(e, before) {
			t.Fatalf("popped %+v after %+v", e, before)
		}
		last[k] = e
	}
	for _, e := range m.entries() {
		if p, ok := last[key{store.ShareOf(int(e.shard), m.shares), e.addressee}]; ok && comesBefore(e, p) {
			t.Fatalf("popped %+v while %+v stayed", p, e)
		}
	}
}

// comesBefore reports whether e must be popped before f, an entry of the same application.
func comesBefore(e, f entry) bool {
	return slices.Compare([]int64{int64(e.popAt), int64(e.order), e.id},
		[]int64{int64(f.popAt), int64(f.order), f.id}) < 0
}

// someInFlight draws some entries in flight.
func (m *heapModel) someInFlight(t *rapid.T) []entry {
	if len(m.inFlight) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(m.inFlight))
	from := rapid.IntRange(0, len(ids)-1).Draw(t, "from")
	to := rapid.IntRange(from, len(ids)).Draw(t, "to")
	var entries []entry
	for _, id := range ids[from:to] {
		entries = append(entries, m.inFlight[id])
	}
	return entries
}

func (m *heapModel) forget(id int64) {
	delete(m.inFlight, id)
	delete(m.offered, id)
	delete(m.rowChanged, id)
}

func (m *heapModel) complete(t *rapid.T) {
	entries, putBack := m.someInFlight(t), rapid.Bool().Draw(t, "putBack")
	if putBack {
		for i := range entries {
			entries[i].popAt += clock.Instant(rapid.IntRange(0, 5).Draw(t, "later"))
		}
	}
	m.h.complete(entries, putBack)
	for _, e := range entries {
		if d, ok := m.offered[e.id]; ok {
			m.rows[e.id] = d
		} else if putBack && !m.rowChanged[e.id] {
			m.rows[e.id] = dueOf(e)
		}
		m.forget(e.id)
	}
}

func (m *heapModel) drop(t *rapid.T) {
	entries := m.someInFlight(t)
	m.h.drop(entries)
	for _, e := range entries {
		m.rows[e.id] = dueOf(e)
		if d, ok := m.offered[e.id]; ok {
			m.rows[e.id] = d
		}
		m.forget(e.id)
	}
}

func dueOf(e entry) store.Due {
	return store.Due{ID: e.id, NextTryTime: e.due, Rank: e.rank(), Shard: int(e.shard),
		Application: e.addressee.Value().Application}
}

// reoffer offers rows that a claim has put off while they are in flight, as the loop does before it completes them.
func (m *heapModel) reoffer(t *rapid.T) {
	entries := m.someInFlight(t)
	rows := make([]store.Due, 0, len(entries))
	for _, e := range entries {
		d := dueOf(e)
		d.NextTryTime += clock.Instant(rapid.IntRange(0, 20).Draw(t, "later"))
		rows = append(rows, d)
	}
	kept := map[int64]bool{}
	for _, d := range m.h.expectReoffer(slices.Clone(rows)) {
		kept[d.ID] = true
		delete(m.offered, d.ID)
		share := store.ShareOf(d.Shard, m.shares)
		m.noteMissing(share, m.h.Offer(share, []store.Due{d}))
	}
	for _, d := range rows {
		if kept[d.ID] == m.rowChanged[d.ID] {
			t.Fatalf("kept %t of %+v, row changed %t", kept[d.ID], d, m.rowChanged[d.ID])
		}
		if kept[d.ID] {
			m.rowChanged[d.ID], m.offered[d.ID] = true, d
		}
	}
}

func (m *heapModel) restrict(t *rapid.T) {
	name := unique.Make(rapid.SampledFrom(modelAddressees()).Draw(t, "addressee"))
	if rapid.Bool().Draw(t, "unrestrict") {
		m.h.Unrestrict(name)
		delete(m.restricted, name)
		return
	}
	a := allowance{rows: rapid.IntRange(0, 3).Draw(t, "allowedRows"),
		dueUntil: clock.Instant(rapid.IntRange(0, 100).Draw(t, "until"))}
	m.h.Restrict(name, a.rows, a.dueUntil)
	m.restricted[name] = a
}

func (m *heapModel) suspend(t *rapid.T) {
	name := unique.Make(rapid.SampledFrom(modelAddressees()).Draw(t, "addressee"))
	if m.suspended[name] = !m.suspended[name]; m.suspended[name] {
		m.h.suspend(name)
	} else {
		m.h.resume(name)
	}
}

// catchUp reads the missing rows again wherever the heap has room, as a loader does. It must come to an end.
func (m *heapModel) catchUp(t *rapid.T) {
	for share := range m.missing {
		for _, to := range modelAddressees() {
			for rounds := 0; ; rounds++ {
				from, ok := m.missing[share][to]
				if !ok || !m.h.HasRoomFor(share, to, from, false) {
					break
				}
				if rounds > 200 {
					t.Fatalf("share %[2]d has room for %[1]s for ever", to, share)
				}
				delete(m.missing[share], to)
				var rows []store.Due
				for _, d := range m.rows {
					if d.Addressee() == to && store.ShareOf(d.Shard, m.shares) == share && !d.Position().Before(from) {
						rows = append(rows, d)
					}
				}
				slices.SortFunc(rows, func(a, b store.Due) int {
					if a.Position().Before(b.Position()) {
						return -1
					}
					return 1
				})
				m.noteMissing(share, m.h.Offer(share, rows))
			}
		}
	}
}

func (m *heapModel) entries() map[int64]entry {
	entries := map[int64]entry{}
	for i := range m.h.shares {
		for id := range m.h.shares[i].index {
			entries[id] = *m.h.shares[i].entry(id)
		}
	}
	return entries
}

// check compares the heap with the model.
func (m *heapModel) check(t *rapid.T) {
	for share := range m.missing {
		m.noteMissing(share, m.h.Offer(share, nil))
	}
	entries := m.entries()
	for id, d := range m.rows {
		e, here := entries[id]
		from, behind := m.missing[store.ShareOf(d.Shard, m.shares)][d.Addressee()]
		if !here && (!behind || d.Position().Before(from)) {
			t.Fatalf("%+v is lost: its addressee misses rows from %+v on, %t", d, from, behind)
		}
		if here && dueOf(e) != d {
			t.Fatalf("row %+v is in the heap as %+v", d, e)
		}
	}
	for id, e := range entries {
		if _, ok := m.rows[id]; !ok {
			t.Fatalf("%+v should not be there", e)
		}
	}
	if _, inFlight := m.h.Len(); inFlight != len(m.inFlight) {
		t.Fatalf("%d in flight, want %d", inFlight, len(m.inFlight))
	}
	for route := range m.routes {
		m.checkHead(t, entries, route)
	}
	for i := range m.h.shares {
		checkShare(t, &m.h.shares[i], m.suspended)
	}
}

func (m *heapModel) checkHead(t *rapid.T, entries map[int64]entry, route int) {
	head, ok := m.h.head(route)
	first, n := clock.MaxInstant, 0
	for _, e := range entries {
		if m.routeIndex(e.addressee.Value()) == route && !m.suspended[e.addressee] {
			first = min(first, e.popAt)
			n++
		}
	}
	if ok != (n > 0) {
		t.Fatalf("head %d, %t of %d entries of route %d", head, ok, n, route)
	}
	if now := m.h.orders.byRoute[route].now; ok && max(head, now) != max(first, now) {
		t.Fatalf("head of route %d is %d, the earliest is %d, now %d", route, head, first, now)
	}
}

func checkShare(t *rapid.T, s *share, suspended map[addressee]bool) {
	if len(s.index) > s.capacity {
		t.Fatalf("%d entries in a share of %d", len(s.index), s.capacity)
	}
	n := 0
	for name, q := range s.queues {
		n += len(q.entries)
		if len(q.entries) == 0 || q.addressee != name || q.length != len(q.entries) ||
			(q.inHeap == nil) != suspended[name] || q.inHeap != nil && q.inHeap.queues[q.heapIndex] != q {
			t.Fatalf("queue %s: %d entries, filed as %d, line %p", name.Value(), len(q.entries), q.length, q.inHeap)
		}
		for i := range q.entries {
			if slot, ok := s.index[q.entries[i].id]; !ok || s.slots[slot] != (location{queue: q, index: i}) ||
				q.entries[i].slot != slot {
				t.Fatalf("entry %+v is indexed in slot %d, %t, is at %d", q.entries[i], slot, ok, i)
			}
			if i > 0 && q.entries[i].before(&q.entries[(i-1)/fanOut]) {
				t.Fatal("not a heap")
			}
		}
	}
	for i := range s.rooms {
		checkRoom(t, &s.rooms[i])
	}
	if n != len(s.index) || n+len(s.freeSlots) != len(s.slots) {
		t.Fatalf("%d entries, %d indexed, %d of %d slots free", n, len(s.index), len(s.freeSlots), len(s.slots))
	}
}

// checkRoom compares what a room knows with the share's queues.
func checkRoom(t *rapid.T, r *room) {
	listed, longest, entries, queues, due := 0, 0, 0, 0, 0
	for length, q := range r.lengths.heads {
		for ; q != nil; q = q.next {
			if listed++; q.length != length || q.room != r || r.share.queues[q.addressee] != q ||
				q.next != nil && q.next.prev != q {
				t.Fatalf("queue %s of %d entries is listed with length %d", q.addressee.Value(), len(q.entries), length)
			}
			longest = length
		}
	}
	for _, q := range r.share.queues {
		if q.room == r {
			queues++
			entries += len(q.entries)
			if q.inHeap == &r.order.due {
				due++
			}
		}
	}
	if listed != queues || longest != r.lengths.longest || entries != r.entries || due != r.due {
		t.Fatalf("%d of %d queues listed, the longest has %d, not %d; %d entries, not %d; %d due, not %d", listed,
			queues, longest, r.lengths.longest, entries, r.entries, due, r.due)
	}
}

func TestHeapAgreesWithModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newHeapModel(rapid.IntRange(1, 3).Draw(t, "shares"), rapid.IntRange(1, 3).Draw(t, "routes"),
			rapid.IntRange(1, 40).Draw(t, "capacity"))
		t.Repeat(map[string]func(*rapid.T){
			"offer": m.offer, "remove": m.remove, "pop": m.pop, "complete": m.complete, "drop": m.drop,
			"reoffer":  m.reoffer,
			"restrict": m.restrict, "suspend": m.suspend, "catchUp": m.catchUp, "": m.check,
		})
	})
}

// A backlog passes through a far smaller heap, if its loader reads again when LoaderWake is signalled and HasRoomFor
// says so. Each route's backlog does, although no entry of the routes after it is popped meanwhile.
func TestHeapRereadsWholeBacklog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		routes := rapid.IntRange(1, 3).Draw(t, "routes")
		m := newHeapModel(1, routes, rapid.IntRange(routes, 32).Draw(t, "capacity"))
		left := make([]int, routes)
		var all []store.Due
		for id := range int64(rapid.IntRange(1, 60).Draw(t, "rows")) {
			d := store.Due{
				ID: id + 1, NextTryTime: clock.Instant(rapid.IntRange(0, 50).Draw(t, "due")),
				Application: rapid.SampledFrom(modelApplications).Draw(t, "application"),
			}
			all, m.rows[d.ID] = append(all, d), d
			left[m.routeIndex(d.Addressee())]++
		}
		m.noteMissing(0, m.h.Offer(0, all))
		for route := range routes {
			for left[route] > 0 {
				batch := m.h.pop(nil, route, 100, rapid.IntRange(1, 10).Draw(t, "limit"))
				m.h.complete(batch, false)
				for i := range batch {
					delete(m.rows, batch[i].id)
				}
				left[route] -= len(batch)
				select {
				case <-m.h.LoaderWake(0):
					m.catchUp(t)
				default:
					if len(batch) == 0 {
						t.Fatalf("stuck: route %d has %v left, missing from %v on", route, left, m.missing)
					}
				}
			}
		}
	})
}

// Whatever the other routes have in a full share, a row enters if its route has less than its part.
func TestRouteGetsItsPartOfFullShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		routes := rapid.IntRange(1, 3).Draw(t, "routes")
		m := newHeapModel(1, routes, rapid.IntRange(1, 40).Draw(t, "capacity"))
		s := &m.h.shares[0]
		for id := range int64(rapid.IntRange(1, 200).Draw(t, "rows")) {
			d := store.Due{
				ID: id, NextTryTime: clock.Instant(rapid.IntRange(0, 100).Draw(t, "due")),
				Application: rapid.SampledFrom(modelApplications).Draw(t, "application"),
			}
			r := &s.rooms[m.routeIndex(d.Addressee())]
			if rapid.IntRange(0, 9).Draw(t, "pop") == 0 {
				m.h.complete(m.h.pop(nil, m.routeIndex(d.Addressee()), 100, 3), false)
			}
			getsRoom := len(s.index) < s.capacity || r.entries < s.capacity/routes
			if m.h.Offer(0, []store.Due{d}); getsRoom && s.entry(id) == nil {
				t.Fatalf("%+v was left out: its route has %d of %d entries in a share of %d", d, r.entries,
					len(s.index), s.capacity)
			}
			checkShare(t, s, nil)
		}
	})
}

// oneRowEach returns a future row for each of count applications of a route. The names of route 0's applications begin
// with a, the names of route 1's applications with b.
func oneRowEach(route, count int) (rows []store.Due) {
	for i := range count {
		rows = append(rows,
			store.Due{ID: int64(2*i + route), NextTryTime: clock.Instant(1000 + i),
				Application: fmt.Sprintf("%c%02d", 'a'+route, i)})
	}
	return rows
}

// smallLoader reads missing rows like a loader. It knows the rows of oneRowEach.
type smallLoader struct {
	h        *Heap
	rows     map[string]store.Due // by application
	behind   map[string]bool      // applications whose row is missing
	rowsRead int
}

// newSmallLoader returns a loader of one share with the given capacity and routes. Two of the routes have 20
// applications each.
func newSmallLoader(capacity, routes int) *smallLoader {
	l := &smallLoader{h: NewHeap(1, capacity), rows: map[string]store.Due{}, behind: map[string]bool{}}
	l.h.splitByRoute(routes, func(to store.Addressee) int { return int(to.Application[0] - 'a') })
	for _, d := range append(oneRowEach(0, 20), oneRowEach(1, 20)...) {
		l.rows[d.Application] = d
	}
	return l
}

func (l *smallLoader) offer(rows ...store.Due) {
	for _, d := range l.h.Offer(0, rows) {
		l.behind[d.Application] = true
	}
}

// catchUp reads the missing rows for which the heap has room, until it has none. It reports whether that took at most
// limit rounds.
func (l *smallLoader) catchUp(limit int) bool {
	for range limit {
		l.offer()
		rechecks, roomy := l.h.TakeRechecks(0)
		var applications []string
		for _, to := range rechecks {
			applications = append(applications, to.Application)
		}
		if roomy {
			applications = slices.Collect(maps.Keys(l.behind))
		}
		var rows []store.Due
		for _, application := range applications {
			d := l.rows[application]
			if l.behind[application] && l.h.HasRoomFor(0, d.Addressee(), d.Position(), false) {
				rows = append(rows, d)
				delete(l.behind, application)
			}
		}
		if len(rows) == 0 {
			return true
		}
		slices.SortFunc(rows, func(a, b store.Due) int { return a.Position().Compare(b.Position()) })
		l.rowsRead += len(rows)
		l.offer(rows...)
	}
	return false
}

// A route with less than its part takes room from another route, whose applications have one entry each. That route
// does not take the room back, so the reads come to an end although no entry is popped.
func TestRoutesDoNotTakeRoomFromEachOtherForEver(t *testing.T) {
	for name, rowsAtOnce := range map[string]int{"page": 18, "single rows": 1} {
		t.Run(name, func(t *testing.T) {
			l := newSmallLoader(20, 2)
			a, b := oneRowEach(0, 20), oneRowEach(1, 20)
			l.offer(a[:18]...)
			l.offer(b[:2]...)
			for page := range slices.Chunk(b[2:], rowsAtOnce) {
				if l.offer(page...); !l.catchUp(20) {
					t.Fatalf("the reads do not end; the routes have %d and %d entries", l.h.shares[0].rooms[0].entries,
						l.h.shares[0].rooms[1].entries)
				}
			}
			for i := range 2 {
				if r := &l.h.shares[0].rooms[i]; r.entries != 10 {
					t.Errorf("route %d has %d entries", i, r.entries)
				}
			}
		})
	}
}

// sweepAll does catchUp after a sweep: it asks the heap about all applications.
func (l *smallLoader) sweepAll() bool {
	for application := range l.behind {
		l.h.addRecheck(withoutTarget(application))
	}
	return l.catchUp(20)
}

// One route has yielded room. While none of its entries is popped, cancelled or moved, its rows are not read again for
// each row of the other route. After that they are.
func TestRouteThatYieldedReadsAgainAfterItsNextPop(t *testing.T) {
	for name, takeOut := range map[string]func(h *Heap, first store.Due){
		"pop":    func(h *Heap, _ store.Due) { h.complete(h.pop(nil, 1, 2000, 1), false) },
		"cancel": func(h *Heap, first store.Due) { h.Remove(0, []int64{first.ID}) },
		"move": func(h *Heap, first store.Due) {
			first.NextTryTime += 500
			h.Offer(0, []store.Due{first})
		},
		"shards": func(h *Heap, first store.Due) {
			h.KeepShards(0,
				func(shard int) bool { return shard != first.Shard })
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newSmallLoader(20, 3)
			rows := oneRowEach(1, 20)
			rows[0].Shard = 1
			l.offer(rows...)
			for _, d := range oneRowEach(0, 20) {
				l.offer(d)
				ended := l.sweepAll()
				l.h.complete(l.h.pop(nil, 0, 2000, 1), false)
				if !l.sweepAll() || !ended {
					t.Fatal("the reads do not end")
				}
			}
			if r := &l.h.shares[0].rooms[1]; l.rowsRead != 0 || r.entries != 10 {
				t.Errorf("%d rows were read, the route that yielded has %d entries", l.rowsRead, r.entries)
			}
			for len(l.h.LoaderWake(0)) > 0 {
				<-l.h.LoaderWake(0)
			}
			takeOut(l.h, rows[0])
			if len(l.h.LoaderWake(0)) == 0 || !l.catchUp(20) || l.rowsRead != 10 {
				t.Errorf("%d rows were read after that", l.rowsRead)
			}
		})
	}
}

// One route's room is full, and the other's is roomy. A loader that asks for all applications of a route reads only for
// the roomy one.
func TestRoomForAllApplicationsOfRoute(t *testing.T) {
	h := NewHeap(1, 100)
	h.splitByRoute(2, func(to store.Addressee) int { return len(to.Application) - 1 })
	var rows []store.Due
	for i := range int64(80) {
		rows = append(rows, store.Due{ID: i, NextTryTime: 1, Application: string(rune('a' + i%8))})
	}
	h.Offer(0, rows)
	if _, roomy := h.TakeRechecks(0); !roomy {
		t.Error("no route is roomy, although one has no entry")
	}
	for application, want := range map[string][2]bool{"a": {false, false}, "z": {true, false}, "zz": {true, true}} {
		for i, forAll := range []bool{false, true} {
			if got := h.HasRoomFor(0, store.Addressee{Application: application}, store.Position{Time: 2}, forAll); got != want[i] {
				t.Errorf("room for %q is %t, for all of its route: %t", application, got, forAll)
			}
		}
	}
}

// A share is full of one application's rows. Rows of other applications still enter, and are popped by turns.
func TestFloodLeavesRoomAndTurnsToOthers(t *testing.T) {
	h := NewHeap(1, 1000)
	flood := make([]store.Due, 5000)
	for i := range flood {
		flood[i] = store.Due{ID: int64(i + 1), NextTryTime: 10, Application: "flood"}
	}
	missing := h.Offer(0, flood)
	if len(missing) != 1 || missing[0].ID != 1001 {
		t.Fatalf("missing %+v, want from the 1001st on", missing)
	}
	var others []store.Due
	for i := range 300 {
		others = append(others,
			store.Due{ID: int64(10_000 + i), NextTryTime: 20, Application: fmt.Sprint("other", i%3)})
	}
	if missing = h.Offer(0, others); len(missing) != 1 || missing[0].Application != "flood" {
		t.Fatalf("missing %+v, want only the flood's", missing)
	}
	counts := map[string]int{}
	for _, e := range h.pop(nil, 0, 20, 40) {
		counts[e.addressee.Value().Application]++
	}
	for _, a := range []string{"flood", "other0", "other1", "other2"} {
		if counts[a] != 10 {
			t.Errorf("of 40 popped %s has %d, want 10: %v", a, counts[a], counts)
		}
	}
}

// A route whose entries are due and not popped holds up no other route. An offer wakes the loop when the head of any
// route is earlier.
func TestRoutesArePoppedApart(t *testing.T) {
	h := NewHeap(1, 100)
	h.splitByRoute(2, func(to store.Addressee) int { return len(to.Application) - 1 })
	woken := func() bool {
		select {
		case <-h.Wake():
			return true
		default:
			return false
		}
	}
	for i, application := range []string{"a", "bb"} {
		h.Offer(0, []store.Due{{ID: int64(1 + i), NextTryTime: 5 + clock.Instant(i), Application: application}})
		if !woken() {
			t.Errorf("the first entry of route %d did not wake the loop", i)
		}
	}
	if h.Offer(0, []store.Due{{ID: 3, NextTryTime: 7, Application: "bb"}}); woken() {
		t.Error("an entry behind the head of its route woke the loop")
	}
	if popped := h.pop(nil, 1, 10, 100); len(popped) != 2 || popped[0].id != 2 || popped[1].id != 3 {
		t.Errorf("route 1 popped %+v", popped)
	}
	if due, ok := h.head(0); !ok || due != 5 {
		t.Errorf("head of route 0 is %d, %t", due, ok)
	}
	if due, ok := h.head(1); ok {
		t.Errorf("route 1 still has an entry due at %d", due)
	}
}

// Entries that are due at one instant are popped by rank, also after an offer with another rank. No rank of one
// application precedes another application's turn.
func TestPopsByTimeThenRank(t *testing.T) {
	h := NewHeap(1, 100)
	for i, rank := range []int{9, 2, 5, 2, 0} {
		h.Offer(0, []store.Due{{ID: int64(1 + i), NextTryTime: 10, Rank: rank, Application: "a"}})
	}
	h.Offer(0,
		[]store.Due{{ID: 6, NextTryTime: 9, Rank: 9, Application: "a"},
			{ID: 7, NextTryTime: 10, Rank: 9, Application: "b"}})
	h.Offer(0, []store.Due{{ID: 1, NextTryTime: 10, Rank: 1, Application: "a"}})
	var a []int64
	turn := 0
	for i, e := range h.pop(nil, 0, 10, 100) {
		if e.addressee.Value().Application == "a" {
			a = append(a, e.id)
		} else {
			turn = i
		}
	}
	if !slices.Equal(a, []int64{6, 5, 1, 2, 4, 3}) || turn > 1 {
		t.Fatalf("popped %v, the turn of b was %d", a, turn)
	}
	// in flight: an offer of the popped row is no news, an offer with another rank is
	h.Offer(0,
		[]store.Due{{ID: 2, NextTryTime: 10, Rank: 2, Application: "a"},
			{ID: 3, NextTryTime: 10, Rank: 4, Application: "a"}})
	h.complete([]entry{{id: 2}, {id: 3}}, false)
	if again := h.pop(nil, 0, 10, 100); len(again) != 1 || again[0].id != 3 || again[0].rank() != 4 {
		t.Fatalf("popped %+v", again)
	}
}

// An idle application saves up no turns, and a busy application pays none back.
func TestTurnsAreNotSavedUp(t *testing.T) {
	h := NewHeap(1, 1000)
	offer := func(from, n int, application string) {
		for i := range n {
			h.Offer(0, []store.Due{{ID: int64(from + i), NextTryTime: 1, Application: application}})
		}
	}
	offer(0, 200, "busy")
	h.pop(nil, 0, 1, 100)
	offer(1000, 100, "late")
	counts := map[string]int{}
	for _, e := range h.pop(nil, 0, 1, 50) {
		counts[e.addressee.Value().Application]++
	}
	if counts["busy"] != 25 || counts["late"] != 25 {
		t.Errorf("50 popped: %v, want 25 each", counts)
	}
}

// If no application has more than one row, the earliest rows stay.
func TestEarliestStayWithMoreApplicationsThanRoom(t *testing.T) {
	h := NewHeap(1, 10)
	missing := map[string]bool{}
	for i := range int64(40) {
		for _, d := range h.Offer(0, []store.Due{{ID: i, NextTryTime: clock.Instant(100 - i), Application: fmt.Sprint(i)}}) {
			missing[d.Application] = true
		}
	}
	popped := h.pop(nil, 0, 100, 100)
	if len(popped) < 5 || popped[0].id != 39 {
		t.Fatalf("popped %+v", popped)
	}
	for _, e := range popped {
		if missing[e.addressee.Value().Application] || e.id < 30 {
			t.Errorf("%+v stayed", e)
		}
	}
	if len(missing)+len(popped) != 40 {
		t.Errorf("%d missing, %d popped of 40", len(missing), len(popped))
	}
}

// An application lost rows. The heap has room for them when half of its other entries are popped, although rows of
// another application that are due later fill the heap.
func TestHasRoomForFloodAfterHalfOfItPopped(t *testing.T) {
	h := NewHeap(1, 100)
	rows := func(application string, first int64, n int, due clock.Instant) (rows []store.Due) {
		for i := range int64(n) {
			rows = append(rows, store.Due{ID: first + i, NextTryTime: due, Application: application})
		}
		return rows
	}
	h.Offer(0, rows("flood", 0, 100, 1))
	missing := h.Offer(0, rows("later", 1000, 45, 50))
	if len(missing) != 1 || missing[0].Application != "flood" {
		t.Fatalf("missing %+v", missing)
	}
	hasRoom := func() bool {
		return h.HasRoomFor(0, store.Addressee{Application: "flood"}, missing[0].Position(), false)
	}
	woken := func() bool {
		select {
		case <-h.LoaderWake(0):
			return true
		default:
			return false
		}
	}
	if woken(); hasRoom() {
		t.Fatal("room for missing rows before any entry was popped")
	}
	for popped := 0; !woken(); popped++ {
		if batch := h.pop(nil, 0, 1, 1); len(batch) == 0 {
			t.Fatal("the flood is over, and the loader was not woken")
		}
	}
	if waiting, _ := h.Len(); !hasRoom() || waiting <= 60 {
		t.Errorf("%d entries are left, room %t", waiting, hasRoom())
	}
}

// An entry that finds no room on completion wakes the loader, and the next Offer returns it as missing.
func TestEntryPutBackIntoFullShareIsReportedMissing(t *testing.T) {
	h := NewHeap(1, 2)
	h.Offer(0, []store.Due{{ID: 9, NextTryTime: 3, Application: "a"}})
	inFlight := h.pop(nil, 0, 3, 1)
	h.Offer(0, []store.Due{{ID: 1, NextTryTime: 1, Application: "a"}, {ID: 2, NextTryTime: 2, Application: "a"}})
	h.complete(inFlight, true)
	select {
	case <-h.LoaderWake(0):
	default:
		t.Error("the loader was not woken")
	}
	if missing := h.Offer(0, nil); len(missing) != 1 || missing[0].ID != 9 || missing[0].NextTryTime != 3 {
		t.Errorf("missing %+v", missing)
	}
}

// A restricted application brings in as many rows as allowed, all of them due by the given time.
func TestRestrictAllowsDueRows(t *testing.T) {
	h := NewHeap(1, 100)
	h.Restrict(withoutTarget("a"), 2, 10)
	var rows []store.Due
	for i, due := range []clock.Instant{20, 5, 30, 10, 7} {
		rows = append(rows, store.Due{ID: int64(i), NextTryTime: due, Application: "a"})
	}
	if missing := h.Offer(0, rows); len(missing) != 1 || missing[0].NextTryTime != 7 {
		t.Errorf("missing %+v, want the third due row", missing)
	}
	if h.HasRoomFor(0, store.Addressee{Application: "a"}, store.Position{Time: 7}, false) {
		t.Error("room beyond the allowance")
	}
	h.Restrict(withoutTarget("a"), 1, 10)
	if !h.HasRoomFor(0, store.Addressee{Application: "a"}, store.Position{Time: 7}, false) ||
		h.HasRoomFor(0, store.Addressee{Application: "a"}, store.Position{Time: 11}, false) {
		t.Error("want room for rows due until then, and for no others")
	}
	popped := h.pop(nil, 0, 100, 10)
	if len(popped) != 2 || popped[0].due != 5 || popped[1].due != 10 {
		t.Errorf("popped %+v", popped)
	}
}

// A full share leaves the room of other shares alone.
func TestFullShareLeavesOtherSharesRoom(t *testing.T) {
	h := NewHeap(4, 40)
	for i := range int64(100) {
		h.Offer(0, []store.Due{{ID: i, NextTryTime: 1, Shard: 0, Application: "a"}})
	}
	for i := range int64(10) {
		if missing := h.Offer(1, []store.Due{{ID: 1000 + i, NextTryTime: 2, Shard: 1, Application: "a"}}); missing != nil {
			t.Fatalf("row %d of the second share: missing %+v", i, missing)
		}
	}
	if waiting, _ := h.Len(); waiting != 20 {
		t.Errorf("%d entries, want 10 in each of two shares", waiting)
	}
}

func TestKeepShardsDropsOtherShards(t *testing.T) {
	h := NewHeap(1, 100)
	for i := range int64(50) {
		h.Offer(0,
			[]store.Due{{ID: i, NextTryTime: clock.Instant(i), Shard: int(i % 5), Application: fmt.Sprint(i % 3)}})
	}
	h.KeepShards(0, func(shard int) bool { return shard < 2 })
	popped := h.pop(nil, 0, 1000, 100)
	if len(popped) != 20 {
		t.Fatalf("%d entries are left, want 20", len(popped))
	}
	for _, e := range popped {
		if e.shard >= 2 {
			t.Errorf("%+v is of a dropped shard", e)
		}
	}
}

func BenchmarkHeapOfferPop(b *testing.B) {
	for _, applications := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("applications=%d", applications), func(b *testing.B) {
			const size = 100_000
			h, names := NewHeap(4, 2*size), make([]string, applications)
			for i := range names {
				names[i] = fmt.Sprint("application", i)
			}
			rnd := rand.New(rand.NewPCG(1, 2))
			id := int64(0)
			rows := make([]store.Due, 1)
			offer := func(now int) {
				id++
				rows[0] = store.Due{ID: id, NextTryTime: clock.Instant(now + rnd.IntN(size)), Shard: int(id & 3),
					Application: names[rnd.IntN(applications)]}
				h.Offer(int(id&3), rows)
			}
			for range size {
				offer(0)
			}
			var popped []entry
			now := 0
			b.ReportAllocs()
			for b.Loop() {
				now++
				offer(now)
				popped = h.pop(popped[:0], 0, clock.Instant(now), 10)
				h.complete(popped, false)
			}
		})
	}
}

// BenchmarkHeapFull offers rows to a full share. Its applications have about the same backlog, so each row competes for
// room.
func BenchmarkHeapFull(b *testing.B) {
	for _, applications := range []int{10, 5000, 50_000} {
		b.Run(fmt.Sprintf("applications=%d", applications), func(b *testing.B) {
			h, rnd := NewHeap(1, 25_000), rand.New(rand.NewPCG(1, 2))
			names := make([]string, applications)
			for i := range names {
				names[i] = fmt.Sprint("application", i)
			}
			rows := make([]store.Due, 1)
			id := int64(0)
			offer := func() {
				id++
				rows[0] = store.Due{ID: id, NextTryTime: clock.Instant(id), Application: names[rnd.IntN(applications)]}
				h.Offer(0, rows)
			}
			for range 25_000 {
				offer()
			}
			for b.Loop() {
				offer()
			}
		})
	}
}

// benchRows returns n rows of one application. The pattern gives their due times: random within a minute, ascending by
// one millisecond, or all at one instant.
func benchRows(n int, pattern string) []store.Due {
	rnd := rand.New(rand.NewPCG(1, 2))
	rows := make([]store.Due, n)
	for i := range rows {
		rows[i] = store.Due{ID: int64(i + 1), Shard: i & 63, Application: "application"}
		switch pattern {
		case "random":
			rows[i].NextTryTime = clock.Instant(rnd.IntN(60_000))
		case "ascending":
			rows[i].NextTryTime = clock.Instant(i)
		}
	}
	return rows
}

// benchPages divides rows into pages of one share each, as loaders do.
func benchPages(rows []store.Due, shares, size int) (pages [][]store.Due) {
	for page := range slices.Chunk(rows, shares*size) {
		byShare := make([][]store.Due, shares)
		for _, d := range page {
			to := store.ShareOf(d.Shard, shares)
			byShare[to] = append(byShare[to], d)
		}
		pages = append(pages, byShare...)
	}
	return pages
}

// BenchmarkHeapFill fills a heap in pages, and empties it by batches of due entries or by cancels. One iteration
// handles all rows.
func BenchmarkHeapFill(b *testing.B) {
	const size, shares, page, batch = 100_000, 4, 1000, 300
	fill := func(h *Heap, pages [][]store.Due) {
		for i, rows := range pages {
			h.Offer(i%shares, rows)
		}
	}
	perEntry := func(b *testing.B) { b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*size), "ns/entry") }
	for _, pattern := range []string{"random", "ascending", "herd"} {
		rows := benchRows(size, pattern)
		pages := benchPages(rows, shares, page)
		b.Run("pop/"+pattern, func(b *testing.B) {
			h := NewHeap(shares, size)
			popped := make([]entry, 1, batch)
			b.ReportAllocs()
			for b.Loop() {
				for fill(h, pages); len(popped) > 0; h.complete(popped, false) {
					popped = h.pop(popped[:0], 0, size, batch)
				}
				popped = popped[:1]
			}
			perEntry(b)
		})
		b.Run("remove/"+pattern, func(b *testing.B) {
			h := NewHeap(shares, size)
			ids := make([]int64, 1)
			b.ReportAllocs()
			for b.Loop() {
				fill(h, pages)
				for i := range rows {
					ids[0] = rows[i].ID
					h.Remove(store.ShareOf(rows[i].Shard, shares), ids)
				}
			}
			perEntry(b)
		})
	}
	b.Run("memory", func(b *testing.B) {
		pages := benchPages(benchRows(size, "random"), shares, page)
		var before, after runtime.MemStats
		for b.Loop() {
			h := NewHeap(shares, size)
			runtime.GC()
			runtime.ReadMemStats(&before)
			fill(h, pages)
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(h)
		}
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/size, "B/entry")
	})
}

// One application's entries are popped in order across shares, and the application has one turn.
func TestSharesOfOneApplicationHaveOneTurn(t *testing.T) {
	h := NewHeap(4, 4000)
	for i := range 400 {
		h.Offer(i%4, []store.Due{{ID: int64(i + 1), NextTryTime: 10, Rank: i * 7 % 10, Shard: i % 4, Application: "a"}})
	}
	for i := range 100 {
		h.Offer(1, []store.Due{{ID: int64(1000 + i), NextTryTime: 10, Shard: 1, Application: "b"}})
	}
	var last entry
	count := map[string]int{}
	for len(count) == 0 || count["a"]+count["b"] < 500 {
		for _, e := range h.pop(nil, 0, 10, 7) {
			count[e.addressee.Value().Application]++
			if a, b := count["a"], count["b"]; b < 100 && (a > b+1 || b > a+1) {
				t.Fatalf("%d of a and %d of b popped", a, b)
			}
			if e.addressee.Value().Application != "a" {
				continue
			}
			if last.id != 0 && comesBefore(e, last) {
				t.Fatalf("popped %+v after %+v", e, last)
			}
			last = e
			h.complete([]entry{e}, false)
		}
	}
}

func TestReofferedRowKeepsRank(t *testing.T) {
	r := &result{}
	rings := []clock.Ring{{AlarmID: 1, Priority: 7, LatestRingAt: clock.NoInstant}}
	r.decideFates(rings, []clock.Outcome{{Kind: clock.Doubtful}}, 5, clock.FateOf)
	if len(r.reoffered) != 1 || r.reoffered[0].Rank != 2 {
		t.Fatalf("again %+v", r.reoffered)
	}
}
