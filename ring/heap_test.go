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

// heapModel is what a heap must hold, as plain maps, and what the loaders know to be missing.
type heapModel struct {
	h      *Heap
	shares int
	rows   map[int64]store.Due                 // offered and neither removed nor popped: in the heap, or missing
	flight map[int64]entry                     // popped, as they were
	known  map[int64]store.Due                 // of those in flight: what came in meanwhile
	news   map[int64]bool                      // of those in flight: removed or changed meanwhile
	behind []map[string]store.Position         // a share: missing from there on
	held   map[unique.Handle[string]]allowance // as Hold was told, less what came in
}

func newHeapModel(shares, capacity int) *heapModel {
	m := &heapModel{
		h: NewHeap(shares, capacity), shares: shares, rows: map[int64]store.Due{}, flight: map[int64]entry{},
		known: map[int64]store.Due{}, news: map[int64]bool{}, held: map[unique.Handle[string]]allowance{},
	}
	for range shares {
		m.behind = append(m.behind, map[string]store.Position{})
	}
	return m
}

var modelApplications = []string{"a", "b", "c", "d", "e"}

// modelRow draws a row; the id fixes shard and application.
func modelRow(t *rapid.T) store.Due {
	id := rapid.Int64Range(1, 60).Draw(t, "id")
	return store.Due{
		ID: id, NextTryTime: clock.Instant(rapid.IntRange(0, 100).Draw(t, "due")), Rank: rapid.IntRange(0, 2).Draw(t, "rank"),
		Shard: int(id % 7), Application: modelApplications[int(id*id)%len(modelApplications)],
	}
}

func (m *heapModel) offer(t *rapid.T) {
	rows := rapid.SliceOfNDistinct(rapid.Custom(modelRow), 1, 30, func(d store.Due) int64 { return d.ID }).Draw(t, "rows")
	byShare := make([][]store.Due, m.shares)
	for _, d := range rows {
		to := ShareOf(d.Shard, m.shares)
		byShare[to] = append(byShare[to], d)
		if e, flies := m.flight[d.ID]; !flies {
			m.rows[d.ID] = d
		} else if _, known := m.known[d.ID]; !known && (m.news[d.ID] || d.NextTryTime != e.due || d.Rank != int(e.rank)) {
			m.known[d.ID] = d
		}
	}
	for to, rows := range byShare {
		m.miss(to, m.h.Offer(to, rows))
	}
}

// miss notes what a share told to be missing, as a loader does.
func (m *heapModel) miss(share int, missing []store.Due) {
	for _, d := range missing {
		if before, ok := m.behind[share][d.Application]; !ok || d.Position().Before(before) {
			m.behind[share][d.Application] = d.Position()
		}
	}
}

func (m *heapModel) remove(t *rapid.T) {
	d := modelRow(t)
	m.h.Remove(ShareOf(d.Shard, m.shares), []int64{d.ID})
	delete(m.rows, d.ID)
	if _, flies := m.flight[d.ID]; flies {
		m.news[d.ID] = true
		delete(m.known, d.ID)
	}
}

func (m *heapModel) pop(t *rapid.T) {
	now := clock.Instant(rapid.IntRange(0, 100).Draw(t, "now"))
	limit := rapid.IntRange(1, 20).Draw(t, "limit")
	due := 0
	for _, e := range m.entries() {
		if e.at <= now {
			due++
		}
	}
	popped := m.h.pop(nil, now, limit)
	if len(popped) != min(due, limit) {
		t.Fatalf("popped %d of %d that are due at %d, limit %d", len(popped), due, now, limit)
	}
	for i := range popped {
		e := popped[i]
		if d, ok := m.rows[e.id]; !ok || d != dueOf(e) || e.at > now {
			t.Fatalf("popped %+v at %d, offered was %+v, %t", e, now, d, ok)
		}
		delete(m.rows, e.id)
		m.flight[e.id] = e
	}
	m.checkPopOrder(t, popped)
}

// checkPopOrder: within a share and application by time and rank, and before everything that stayed.
func (m *heapModel) checkPopOrder(t *rapid.T, popped []entry) {
	type key struct {
		share       int
		application unique.Handle[string]
	}
	last := map[key]entry{}
	for _, e := range popped {
		k := key{ShareOf(int(e.shard), m.shares), e.application}
		if before, ok := last[k]; ok && comesBefore(e, before) {
			t.Fatalf("popped %+v after %+v", e, before)
		}
		last[k] = e
	}
	for _, e := range m.entries() {
		if p, ok := last[key{ShareOf(int(e.shard), m.shares), e.application}]; ok && comesBefore(e, p) {
			t.Fatalf("popped %+v while %+v stayed", p, e)
		}
	}
}

// comesBefore says in which order entries of one application are to be popped.
func comesBefore(e, f entry) bool {
	return slices.Compare([]int64{int64(e.at), int64(e.rank), e.id}, []int64{int64(f.at), int64(f.rank), f.id}) < 0
}

// someFlying draws some of what is in flight.
func (m *heapModel) someFlying(t *rapid.T) []entry {
	if len(m.flight) == 0 {
		return nil
	}
	ids := slices.Sorted(maps.Keys(m.flight))
	from := rapid.IntRange(0, len(ids)-1).Draw(t, "from")
	to := rapid.IntRange(from, len(ids)).Draw(t, "to")
	var entries []entry
	for _, id := range ids[from:to] {
		entries = append(entries, m.flight[id])
	}
	return entries
}

func (m *heapModel) landed(id int64) {
	delete(m.flight, id)
	delete(m.known, id)
	delete(m.news, id)
}

func (m *heapModel) land(t *rapid.T) {
	entries, back := m.someFlying(t), rapid.Bool().Draw(t, "back")
	if back {
		for i := range entries {
			entries[i].at += clock.Instant(rapid.IntRange(0, 5).Draw(t, "later"))
		}
	}
	m.h.land(entries, back)
	for _, e := range entries {
		if d, ok := m.known[e.id]; ok {
			m.rows[e.id] = d
		} else if back && !m.news[e.id] {
			m.rows[e.id] = dueOf(e)
		}
		m.landed(e.id)
	}
}

func (m *heapModel) letGo(t *rapid.T) {
	entries := m.someFlying(t)
	m.h.letGo(entries)
	for _, e := range entries {
		m.rows[e.id] = dueOf(e)
		if d, ok := m.known[e.id]; ok {
			m.rows[e.id] = d
		}
		m.landed(e.id)
	}
}

func dueOf(e entry) store.Due {
	return store.Due{ID: e.id, NextTryTime: e.due, Rank: int(e.rank), Shard: int(e.shard), Application: e.application.Value()}
}

// changed is what the loop does with rows that a claim put off: it offers them while they fly, then lands them.
func (m *heapModel) changed(t *rapid.T) {
	entries := m.someFlying(t)
	rows := make([]store.Due, 0, len(entries))
	for _, e := range entries {
		d := dueOf(e)
		d.NextTryTime += clock.Instant(rapid.IntRange(0, 20).Draw(t, "later"))
		rows = append(rows, d)
	}
	kept := map[int64]bool{}
	for _, d := range m.h.changed(slices.Clone(rows)) {
		kept[d.ID] = true
		delete(m.known, d.ID)
		to := ShareOf(d.Shard, m.shares)
		m.miss(to, m.h.Offer(to, []store.Due{d}))
	}
	for _, d := range rows {
		if kept[d.ID] == m.news[d.ID] {
			t.Fatalf("kept %t of %+v, news %t", kept[d.ID], d, m.news[d.ID])
		}
		if kept[d.ID] {
			m.news[d.ID], m.known[d.ID] = true, d
		}
	}
}

func (m *heapModel) hold(t *rapid.T) {
	name := unique.Make(rapid.SampledFrom(modelApplications).Draw(t, "application"))
	if rapid.Bool().Draw(t, "unhold") {
		m.h.Unhold(name)
		delete(m.held, name)
		return
	}
	a := allowance{rows: rapid.IntRange(0, 3).Draw(t, "but"), until: clock.Instant(rapid.IntRange(0, 100).Draw(t, "until"))}
	m.h.Hold(name, a.rows, a.until)
	m.held[name] = a
}

// catchUp reads for one application again, where it is wanted, as a loader does. It must come to an end.
func (m *heapModel) catchUp(t *rapid.T) {
	for share := range m.behind {
		for _, application := range modelApplications {
			for rounds := 0; ; rounds++ {
				from, ok := m.behind[share][application]
				if !ok || !m.h.Wants(share, application, from) {
					break
				}
				if rounds > 200 {
					t.Fatalf("%s is wanted in share %d for ever", application, share)
				}
				delete(m.behind[share], application)
				var rows []store.Due
				for _, d := range m.rows {
					if d.Application == application && ShareOf(d.Shard, m.shares) == share && !d.Position().Before(from) {
						rows = append(rows, d)
					}
				}
				slices.SortFunc(rows, func(a, b store.Due) int {
					if a.Position().Before(b.Position()) {
						return -1
					}
					return 1
				})
				m.miss(share, m.h.Offer(share, rows))
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
	for share := range m.behind {
		m.miss(share, m.h.Offer(share, nil))
	}
	entries := m.entries()
	for id, d := range m.rows {
		e, here := entries[id]
		from, behind := m.behind[ShareOf(d.Shard, m.shares)][d.Application]
		if !here && (!behind || d.Position().Before(from)) {
			t.Fatalf("%+v is lost: its application is behind from %+v, %t", d, from, behind)
		}
		if here && dueOf(e) != d {
			t.Fatalf("%+v is held as %+v", d, e)
		}
	}
	for id, e := range entries {
		if _, ok := m.rows[id]; !ok {
			t.Fatalf("%+v should not be there", e)
		}
	}
	if _, inFlight := m.h.Len(); inFlight != len(m.flight) {
		t.Fatalf("%d in flight, want %d", inFlight, len(m.flight))
	}
	m.checkHead(t, entries)
	for i := range m.h.shares {
		checkShare(t, &m.h.shares[i])
	}
}

func (m *heapModel) checkHead(t *rapid.T, entries map[int64]entry) {
	head, ok := m.h.Head()
	if ok != (len(entries) > 0) {
		t.Fatalf("head %d, %t of %d entries", head, ok, len(entries))
	}
	first := clock.MaxInstant
	for _, e := range entries {
		first = min(first, e.at)
	}
	if ok && max(head, m.h.order.now) != max(first, m.h.order.now) {
		t.Fatalf("head is %d, the earliest is %d, now %d", head, first, m.h.order.now)
	}
}

func checkShare(t *rapid.T, s *share) {
	if len(s.index) > s.capacity {
		t.Fatalf("%d entries in a share of %d", len(s.index), s.capacity)
	}
	n := 0
	for name, q := range s.queues {
		n += len(q.entries)
		if len(q.entries) == 0 || q.application != name || len(q.entries) > s.longest || q.line == nil || q.line.queues[q.spot] != q {
			t.Fatalf("queue %s: %d entries, longest %d, line %p", name.Value(), len(q.entries), s.longest, q.line)
		}
		for i := range q.entries {
			if slot, ok := s.index[q.entries[i].id]; !ok || s.slots[slot] != (place{q: q, i: i}) || q.entries[i].slot != slot {
				t.Fatalf("entry %+v is indexed in slot %d, %t, is at %d", q.entries[i], slot, ok, i)
			}
			if i > 0 && q.entries[i].before(&q.entries[(i-1)/fanOut]) {
				t.Fatal("not a heap")
			}
		}
	}
	if n != len(s.index) || n+len(s.free) != len(s.slots) {
		t.Fatalf("%d entries, %d indexed, %d of %d slots free", n, len(s.index), len(s.free), len(s.slots))
	}
}

func TestHeapAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newHeapModel(rapid.IntRange(1, 3).Draw(t, "shares"), rapid.IntRange(1, 40).Draw(t, "capacity"))
		t.Repeat(map[string]func(*rapid.T){
			"offer": m.offer, "remove": m.remove, "pop": m.pop, "land": m.land, "letGo": m.letGo, "changed": m.changed,
			"hold": m.hold, "catchUp": m.catchUp, "": m.check,
		})
	})
}

// TestHeapDrainsBacklog pops a backlog of several applications through a heap far smaller, reading again only what Wants says,
// when Drained says so.
func TestHeapDrainsBacklog(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newHeapModel(1, rapid.IntRange(1, 32).Draw(t, "capacity"))
		n := rapid.IntRange(1, 60).Draw(t, "rows")
		var all []store.Due
		for id := int64(1); id <= int64(n); id++ {
			all = append(all, store.Due{
				ID: id, NextTryTime: clock.Instant(rapid.IntRange(0, 50).Draw(t, "due")),
				Application: rapid.SampledFrom(modelApplications).Draw(t, "application"),
			})
		}
		for _, d := range all {
			m.rows[d.ID] = d
		}
		m.miss(0, m.h.Offer(0, all))
		for popped := 0; popped < n; {
			batch := m.h.pop(nil, 100, rapid.IntRange(1, 10).Draw(t, "limit"))
			m.h.land(batch, false)
			for i := range batch {
				delete(m.rows, batch[i].id)
			}
			popped += len(batch)
			select {
			case <-m.h.Drained(0):
				m.catchUp(t)
			default:
				if len(batch) == 0 {
					t.Fatalf("stuck: %d of %d popped, behind %v", popped, n, m.behind)
				}
			}
		}
	})
}

// TestHeapFlood floods a share with one application's rows: those of others come in, and are popped by turns.
func TestHeapFlood(t *testing.T) {
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
		others = append(others, store.Due{ID: int64(10_000 + i), NextTryTime: 20, Application: fmt.Sprint("other", i%3)})
	}
	if missing = h.Offer(0, others); len(missing) != 1 || missing[0].Application != "flood" {
		t.Fatalf("missing %+v, want only the flood's", missing)
	}
	counts := map[string]int{}
	for _, e := range h.pop(nil, 20, 40) {
		counts[e.application.Value()]++
	}
	for _, a := range []string{"flood", "other0", "other1", "other2"} {
		if counts[a] != 10 {
			t.Errorf("of 40 popped %s has %d, want 10: %v", a, counts[a], counts)
		}
	}
}

// TestHeapRanks pops what is due at one instant by its rank, also where rows are offered anew with another, and no rank of
// one application before another application's turn.
func TestHeapRanks(t *testing.T) {
	h := NewHeap(1, 100)
	for i, rank := range []int{9, 2, 5, 2, 0} {
		h.Offer(0, []store.Due{{ID: int64(1 + i), NextTryTime: 10, Rank: rank, Application: "a"}})
	}
	h.Offer(0, []store.Due{{ID: 6, NextTryTime: 9, Rank: 9, Application: "a"}, {ID: 7, NextTryTime: 10, Rank: 9, Application: "b"}})
	h.Offer(0, []store.Due{{ID: 1, NextTryTime: 10, Rank: 1, Application: "a"}})
	var a []int64
	turn := 0
	for i, e := range h.pop(nil, 10, 100) {
		if e.application.Value() == "a" {
			a = append(a, e.id)
		} else {
			turn = i
		}
	}
	if !slices.Equal(a, []int64{6, 5, 1, 2, 4, 3}) || turn > 1 {
		t.Fatalf("popped %v, the other's turn was %d", a, turn)
	}
	// in flight: a page that shows the row as it was says nothing, another rank does
	h.Offer(0, []store.Due{{ID: 2, NextTryTime: 10, Rank: 2, Application: "a"}, {ID: 3, NextTryTime: 10, Rank: 4, Application: "a"}})
	h.land([]entry{{id: 2}, {id: 3}}, false)
	if again := h.pop(nil, 10, 100); len(again) != 1 || again[0].id != 3 || again[0].rank != 4 {
		t.Fatalf("popped %+v", again)
	}
}

// TestHeapTurns: an application that was idle has no turns saved up, and one that was busy has none to pay back.
func TestHeapTurns(t *testing.T) {
	h := NewHeap(1, 1000)
	offer := func(from, n int, application string) {
		for i := range n {
			h.Offer(0, []store.Due{{ID: int64(from + i), NextTryTime: 1, Application: application}})
		}
	}
	offer(0, 200, "busy")
	h.pop(nil, 1, 100)
	offer(1000, 100, "late")
	counts := map[string]int{}
	for _, e := range h.pop(nil, 1, 50) {
		counts[e.application.Value()]++
	}
	if counts["busy"] != 25 || counts["late"] != 25 {
		t.Errorf("50 popped: %v, want 25 each", counts)
	}
}

// TestHeapMoreApplicationsThanRoom: where nobody has more than one row the earliest stay.
func TestHeapMoreApplicationsThanRoom(t *testing.T) {
	h := NewHeap(1, 10)
	missing := map[string]bool{}
	for i := range int64(40) {
		for _, d := range h.Offer(0, []store.Due{{ID: i, NextTryTime: clock.Instant(100 - i), Application: fmt.Sprint(i)}}) {
			missing[d.Application] = true
		}
	}
	popped := h.pop(nil, 100, 100)
	if len(popped) < 5 || popped[0].id != 39 {
		t.Fatalf("popped %+v", popped)
	}
	for _, e := range popped {
		if missing[e.application.Value()] || e.id < 30 {
			t.Errorf("%+v stayed", e)
		}
	}
	if len(missing)+len(popped) != 40 {
		t.Errorf("%d missing, %d popped of 40", len(missing), len(popped))
	}
}

// TestHeapRefill: an application whose rows were cut is wanted again when half of what it had left was popped, though others
// fill the heap with what is due later.
func TestHeapRefill(t *testing.T) {
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
	wants := func() bool { return h.Wants(0, "flood", missing[0].Position()) }
	drained := func() bool {
		select {
		case <-h.Drained(0):
			return true
		default:
			return false
		}
	}
	if drained(); wants() {
		t.Fatal("wanted before anything was popped")
	}
	for popped := 0; !drained(); popped++ {
		if batch := h.pop(nil, 1, 1); len(batch) == 0 {
			t.Fatal("the flood is over, and nobody was told")
		}
	}
	if waiting, _ := h.Len(); !wants() || waiting <= 60 {
		t.Errorf("%d are left, wanted %t", waiting, wants())
	}
}

// TestHeapLandsFull: what has no place when it lands is told, and the loader woken to be told.
func TestHeapLandsFull(t *testing.T) {
	h := NewHeap(1, 2)
	h.Offer(0, []store.Due{{ID: 9, NextTryTime: 3, Application: "a"}})
	flying := h.pop(nil, 3, 1)
	h.Offer(0, []store.Due{{ID: 1, NextTryTime: 1, Application: "a"}, {ID: 2, NextTryTime: 2, Application: "a"}})
	h.land(flying, true)
	select {
	case <-h.Drained(0):
	default:
		t.Error("nobody was told")
	}
	if missing := h.Offer(0, nil); len(missing) != 1 || missing[0].ID != 9 || missing[0].NextTryTime != 3 {
		t.Errorf("missing %+v", missing)
	}
}

// TestHeapAllowance: a held application brings in as many rows as it may, of those due by then.
func TestHeapAllowance(t *testing.T) {
	h := NewHeap(1, 100)
	h.Hold(unique.Make("a"), 2, 10)
	var rows []store.Due
	for i, due := range []clock.Instant{20, 5, 30, 10, 7} {
		rows = append(rows, store.Due{ID: int64(i), NextTryTime: due, Application: "a"})
	}
	if missing := h.Offer(0, rows); len(missing) != 1 || missing[0].NextTryTime != 7 {
		t.Errorf("missing %+v, want from the third that was due", missing)
	}
	if h.Wants(0, "a", store.Position{Time: 7}) {
		t.Error("wanted beyond the allowance")
	}
	h.Hold(unique.Make("a"), 1, 10)
	if !h.Wants(0, "a", store.Position{Time: 7}) || h.Wants(0, "a", store.Position{Time: 11}) {
		t.Error("wanted are those due until then")
	}
	popped := h.pop(nil, 100, 10)
	if len(popped) != 2 || popped[0].due != 5 || popped[1].due != 10 {
		t.Errorf("popped %+v", popped)
	}
}

// TestHeapSharesApart: what one share has no room for is no other share's trouble.
func TestHeapSharesApart(t *testing.T) {
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

// TestHeapKeep drops the entries of shards that went.
func TestHeapKeep(t *testing.T) {
	h := NewHeap(1, 100)
	for i := range int64(50) {
		h.Offer(0, []store.Due{{ID: i, NextTryTime: clock.Instant(i), Shard: int(i % 5), Application: fmt.Sprint(i % 3)}})
	}
	h.Keep(0, func(shard int) bool { return shard < 2 })
	popped := h.pop(nil, 1000, 100)
	if len(popped) != 20 {
		t.Fatalf("%d entries are left, want 20", len(popped))
	}
	for _, e := range popped {
		if e.shard >= 2 {
			t.Errorf("%+v is of a shard that went", e)
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
				rows[0] = store.Due{ID: id, NextTryTime: clock.Instant(now + rnd.IntN(size)), Shard: int(id & 3), Application: names[rnd.IntN(applications)]}
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
				popped = h.pop(popped[:0], clock.Instant(now), 10)
				h.land(popped, false)
			}
		})
	}
}

// benchRows returns rows of one application, due as the pattern says: at random in a minute, one a millisecond in the order in
// which they are loaded, or all at one instant.
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

// benchPages divides rows as loaders do: pages of one share each.
func benchPages(rows []store.Due, shares, size int) (pages [][]store.Due) {
	for page := range slices.Chunk(rows, shares*size) {
		byShare := make([][]store.Due, shares)
		for _, d := range page {
			to := ShareOf(d.Shard, shares)
			byShare[to] = append(byShare[to], d)
		}
		pages = append(pages, byShare...)
	}
	return pages
}

// BenchmarkHeapFill fills a heap in pages and empties it, in batches that are due or by cancelling. A round is of all rows.
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
				for fill(h, pages); len(popped) > 0; h.land(popped, false) {
					popped = h.pop(popped[:0], size, batch)
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
					h.Remove(ShareOf(rows[i].Shard, shares), ids)
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

// TestHeapRanksAcrossShares pops one application's entries in order whatever share they are in, and gives it one turn.
func TestHeapRanksAcrossShares(t *testing.T) {
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
		for _, e := range h.pop(nil, 10, 7) {
			count[e.application.Value()]++
			if a, b := count["a"], count["b"]; b < 100 && (a > b+1 || b > a+1) {
				t.Fatalf("%d of a and %d of b popped", a, b)
			}
			if e.application.Value() != "a" {
				continue
			}
			if last.id != 0 && comesBefore(e, last) {
				t.Fatalf("popped %+v after %+v", e, last)
			}
			last = e
			h.land([]entry{e}, false)
		}
	}
}

// TestAgainBearsRank: what is to be rung again keeps its place among those due at one instant.
func TestAgainBearsRank(t *testing.T) {
	r := &result{}
	rings := []clock.Ring{{AlarmID: 1, Priority: 7, LatestRingAt: clock.NoInstant}}
	r.fates(rings, []clock.Outcome{{Kind: clock.Doubtful}}, 5)
	if len(r.again) != 1 || r.again[0].Rank != 2 {
		t.Fatalf("again %+v", r.again)
	}
}
