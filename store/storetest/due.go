package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// testDue reads all due rows page by page, with equal due times and many shards: each row once, in order.
func testDue(t *testing.T, f *fixture) {
	var ops []clock.Op
	for i, id := range names("due", 300) {
		ops = append(ops, set(id, t0+clock.Instant(i%5), inApplication([]string{app, "bank"}[i%2]), priority(i*i%10),
			[]func(*clock.Set){named(clock.NoTarget), named(clock.TargetPull), named(clock.TargetWebhook),
				toDestination(clock.TargetWebhook, "a", 1), toDestination(clock.TargetWebhook, "b", 200)}[i%5]))
	}
	f.set(t0, ops...)
	f.set(t0, set("after", t0+5), set("finished", t0), set("paused", t0))
	f.set(t0, cancel("finished"), pause("paused"))
	f.set(t0-1000, set("ringing", t0-1000, acknowledgedWithin(time.Second, 3)))
	f.claim(t0-1000, f.get("ringing").ID).settle(t0, everyRing(clock.Confirmed))
	want := f.dueRows(func(a clock.Alarm) bool { return a.NextTryTime != clock.NoInstant && a.NextTryTime < t0+5 })
	same(t, "rows that are due", len(want), 301)
	for _, limit := range []int{3, 1000} {
		same(t, fmt.Sprintf("rows by pages of %d a shard", limit), f.readDue(f.shards(), store.Position{}, limit), want)
	}
	three := []int{5, 6, 7}
	some := slices.DeleteFunc(slices.Clone(want), func(d store.Due) bool { return !slices.Contains(three, d.Shard) })
	if len(some) < 3 {
		t.Fatalf("%d rows in shards %v", len(some), three)
	}
	same(t, "rows of three shards, one by one", f.readDue(three, store.Position{}, 1), some)
	same(t, "rows of three shards", f.readDue(three, store.Position{}, 2), some)
	same(t, "rows from a position on", f.readDue(three, some[1].Position(), 2), some[1:])
	testDueNames(t, f, want)
	same(t, "rows of one shard", f.readDue(three[:1], store.Position{}, 2),
		slices.DeleteFunc(slices.Clone(some), func(d store.Due) bool { return d.Shard != 5 }))
}

// testDueNames reads rows by addressees, with several limits and scan limits.
func testDueNames(t *testing.T, f *fixture, due []store.Due) {
	with := func(wanted bool, addressees ...store.Addressee) []store.Due {
		return slices.DeleteFunc(slices.Clone(due),
			func(d store.Due) bool { return slices.Contains(addressees, d.Addressee()) != wanted })
	}
	bank, hooks := store.Addressee{Application: "bank"}, store.Named{Target: clock.TargetWebhook}.Of(app)
	toB := store.Named{Target: clock.TargetWebhook, Destination: 200}.Of(app)
	var many []store.Addressee
	for _, name := range names("absent", store.MaxDueNames-1) {
		many = append(many, store.Named{Target: clock.TargetWebhook}.Of(name))
	}
	for _, size := range []struct{ limit, scan int }{{1, 1}, {3, 7}, {1000, 2}, {1000, 1000}} {
		ask := func(only, except []store.Addressee) []store.Due {
			return f.readPages(store.DueQuery{
				Shards: f.shards(), Until: store.Position{Time: t0 + 5}, Limit: size.limit, ScanLimit: size.scan,
				Only: only, Except: except,
			})
		}
		what := fmt.Sprintf("rows by pages of %d of %d entries a shard", size.limit, size.scan)
		lists := [][]store.Addressee{{bank, hooks, toB}, {bank}, {hooks}, {toB}, append([]store.Addressee{hooks}, many...)}
		if size.scan == 1 { // hundreds of pages
			lists = lists[:1]
		}
		for _, addressees := range lists {
			same(t, fmt.Sprintf("%s: only %v", what, addressees), ask(addressees, nil), with(true, addressees...))
			same(t, fmt.Sprintf("%s: all but %v", what, addressees), ask(nil, addressees), with(false, addressees...))
		}
		same(t, what+": of an application", f.readPages(store.DueQuery{
			Shards: f.shards(), Until: store.Position{Time: t0 + 5}, Limit: size.limit, ScanLimit: size.scan, Application: app,
		}), slices.DeleteFunc(slices.Clone(due), func(d store.Due) bool { return d.Application != app }))
	}
	var all []store.Addressee
	for _, d := range due {
		if !slices.Contains(all, d.Addressee()) {
			all = append(all, d.Addressee())
		}
	}
	page, err := f.Due(t.Context(),
		store.DueQuery{Shards: f.shards(), Until: store.Position{Time: t0 + 5}, Limit: 1000, ScanLimit: 1, Except: all})
	ok(t, err, "due")
	if len(page.Rows) > 0 || !page.CompleteUntil.Before(store.Position{Time: t0 + 5}) {
		t.Errorf("a page with scan limit 1 is complete until %v, with %d rows", page.CompleteUntil, len(page.Rows))
	}
}

// dueRows returns the expected due rows of the alarms that selects accepts, in due order.
func (f *fixture) dueRows(selects func(clock.Alarm) bool) []store.Due {
	var due []store.Due
	for _, application := range []string{app, "bank"} {
		for _, a := range f.list(clock.ListQuery{Application: application}) {
			if selects(a) {
				due = append(due, dueRowOf(&a))
			}
		}
	}
	slices.SortFunc(due, comparePositions)
	return due
}

// dueRowOf returns the due index's entry of an alarm.
func dueRowOf(a *clock.Alarm) store.Due {
	return store.Due{ID: a.ID, NextTryTime: a.NextTryTime, Rank: store.RankOf(&a.Content), Shard: a.Shard,
		Application: a.Application}
}

func comparePositions(a, b store.Due) int {
	return cmp.Or(cmp.Compare(a.NextTryTime, b.NextTryTime), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
}

// readDue reads page by page until t0+5.
func (f *fixture) readDue(shards []int, from store.Position, limit int) []store.Due {
	f.t.Helper()
	return f.readPages(store.DueQuery{Shards: shards, From: from, Until: store.Position{Time: t0 + 5}, Limit: limit})
}

// readPages reads the rows of q page by page, and checks that each page keeps its promises.
func (f *fixture) readPages(q store.DueQuery) []store.Due {
	f.t.Helper()
	rows := []store.Due{}
	for q.From.Before(q.Until) {
		page, err := f.Due(f.t.Context(), q)
		ok(f.t, err, "due")
		if !q.From.Before(page.CompleteUntil) || q.Until.Before(page.CompleteUntil) {
			f.t.Fatalf("page from %v is complete until %v", q.From, page.CompleteUntil)
		}
		perShard := make(map[int]int)
		for _, d := range page.Rows {
			perShard[d.Shard]++
			if d.Position().Before(q.From) || !d.Position().Before(page.CompleteUntil) || perShard[d.Shard] > q.Limit {
				f.t.Fatalf("%v does not belong to the page from %v to %v", d, q.From, page.CompleteUntil)
			}
		}
		rows = append(rows, page.Rows...)
		q.From = page.CompleteUntil
	}
	return rows
}

// testDueEdges demands that From is inclusive and Until is exclusive.
func testDueEdges(t *testing.T, f *fixture) {
	f.set(t0, set("a", t0), set("b", t0), set("c", t0+1))
	rows := f.dueRows(func(clock.Alarm) bool { return true })
	ask := func(from, until store.Position) []store.Due {
		t.Helper()
		page, err := f.Due(t.Context(), store.DueQuery{Shards: f.shards(), From: from, Until: until, Limit: 10})
		ok(t, err, "due")
		same(t, "complete", page.CompleteUntil, until)
		return page.Rows
	}
	same(t, "between two rows", ask(rows[0].Position(), rows[1].Position()), rows[:1])
	same(t, "all", ask(store.Position{}, store.Position{Time: clock.MaxInstant}), rows)
	same(t, "after the first", ask(rows[1].Position(), store.Position{Time: t0 + 1}), rows[1:2])
	same(t, "nothing", ask(store.Position{Time: t0 + 2}, store.Position{Time: t0 + 9}), []store.Due{})
}

// testOverdue demands that overdue alarms are counted up to the limit.
func testOverdue(t *testing.T, f *fixture) {
	ask := func(now clock.Instant, shards []int, limit int) store.Overdue {
		t.Helper()
		o, err := f.Overdue(t.Context(), now, shards, limit)
		ok(t, err, "overdue")
		return o
	}
	same(t, "nothing", ask(t0, f.shards(), 10), store.Overdue{Oldest: clock.NoInstant})
	ids := names("late", 50)
	f.set(t0, sets(ids, t0)...)
	f.set(t0-1000, set("oldest", t0-7), set("future", t0+1), set("finished", t0-100))
	f.set(t0, cancel("finished"))
	same(t, "due", ask(t0, f.shards(), 1000), store.Overdue{Count: 51, Oldest: t0 - 7})
	same(t, "up to a limit", ask(t0, f.shards(), 20), store.Overdue{Count: 20, Oldest: t0 - 7})
	same(t, "at the edge", ask(t0-7, f.shards(), 20), store.Overdue{Count: 1, Oldest: t0 - 7})
	same(t, "before the edge", ask(t0-8, f.shards(), 20).Count, 0)
	shards := []int{f.get(ids[0]).Shard, f.get(ids[1]).Shard, f.get("oldest").Shard}
	count := len(f.dueRows(func(a clock.Alarm) bool {
		return slices.Contains(shards, a.Shard) && a.NextTryTime != -1 && a.NextTryTime <= t0
	}))
	same(t, "of three shards", ask(t0, shards, 1000), store.Overdue{Count: count, Oldest: t0 - 7})
}

// testExpire ends alarms past their latest_ring_at page by page. The other alarms stay unchanged.
func testExpire(t *testing.T, f *fixture) {
	f.set(t0, sets(names("late", 60), t0, latestRingAt(t0+9))...)
	f.set(t0, sets(names("in-time", 40), t0, latestRingAt(t0+10))...)
	f.set(t0, sets(names("always", 40), t0)...)
	f.set(t0, set("ringing", t0, latestRingAt(t0+1), acknowledgedWithin(time.Second, 3)),
		set("failed", t0, latestRingAt(t0+9)))
	f.claim(t0, f.get("ringing").ID).settle(t0, everyRing(clock.Confirmed))
	f.claim(t0, f.get("failed").ID).settle(t0, everyRing(clock.Doubtful))
	states := make(map[string]clock.Alarm)
	for _, a := range f.list(clock.ListQuery{}) {
		states[a.BusinessID] = a
	}
	ended := f.expireAll(t0+10, 13)
	same(t, "alarms ended", len(ended), 61)
	for name, a := range states {
		if reason, expires := ended[name]; expires {
			want := "latest_ring_at passed before it could be rung"
			if name == "failed" {
				want = clock.ReasonInDoubt + "; last error: the reason of in_doubt"
			}
			same(t, "reason of "+name, reason, want)
			a = afterEnd(a, clock.TooLate, t0+10)
		}
		f.want(a)
	}
	same(t, "ended the second time", len(f.expireAll(t0+10, 13)), 0)
}

// expireAll expires page by page and returns the reasons by business id.
func (f *fixture) expireAll(now clock.Instant, limit int) map[string]string {
	f.t.Helper()
	reasons := make(map[string]string)
	var from store.Position
	for {
		page, err := f.Expire(f.t.Context(), now, f.shards(), from, limit)
		ok(f.t, err, "expire")
		if len(page.Ended) > limit {
			f.t.Fatalf("%d ended with limit %d", len(page.Ended), limit)
		}
		for _, e := range page.Ended {
			if _, twice := reasons[e.BusinessID]; twice || e.State != f.get(e.BusinessID).State || e.ID == 0 {
				f.t.Fatalf("ended %v", e)
			}
			reasons[e.BusinessID] = e.Reason
		}
		if page.Next == (store.Position{}) {
			return reasons
		}
		if !from.Before(page.Next) {
			f.t.Fatalf("Expire from %v continues from %v", from, page.Next)
		}
		from = page.Next
	}
}

// testExpireHeld demands that Expire skips claimed rows.
func testExpireHeld(t *testing.T, f *fixture) {
	ids := f.set(t0, set("held", t0, latestRingAt(t0)), set("free", t0, latestRingAt(t0)))
	held := f.claim(t0, ids[0]).wantRings(ids[0])
	same(t, "ended", f.expireAll(t0+1, 10), map[string]string{"free": "latest_ring_at passed before it could be rung"})
	held.settle(t0+1, everyRing(clock.Confirmed))
	same(t, "state", f.get("held").State, clock.Rung)
}

// testPurge demands that purges delete only alarms that finished long enough ago, with their attempts, in batches, the
// oldest of each shard first.
func testPurge(t *testing.T, f *fixture) {
	finished := names("finished", 30)
	for i, id := range finished {
		f.set(t0, set(id, t0))
		now := t0 + clock.Instant(i)
		if i%2 == 0 {
			f.set(now, cancel(id))
		} else {
			f.claim(now, f.get(id).ID).settle(now, everyRing(clock.Doubtful))
			f.claim(now, f.get(id).ID).settle(now, everyRing(clock.Confirmed))
		}
	}
	shards := map[string]int{}
	for _, id := range finished {
		shards[id] = f.get(id).Shard
	}
	f.set(t0-1000, set("pending", t0-1000), set("paused", t0-1000),
		set("ringing", t0-1000, acknowledgedWithin(time.Second, 2)))
	f.claim(t0-1000, f.get("ringing").ID).settle(t0, everyRing(clock.Confirmed))
	f.set(t0-1000, pause("paused"))
	f.claim(t0, f.get("pending").ID).settle(t0, everyRing(clock.Doubtful))
	same(t, "attempts", f.count("ring_attempt"), 16)
	purge := func(before clock.Instant, limit, want int) {
		t.Helper()
		n, err := f.Purge(t.Context(), before, before, limit)
		ok(t, err, "purge")
		same(t, "purged", n, want)
	}
	purge(t0, 100, 0)
	purge(t0+10, 4, 4)
	kept := map[int]string{} // oldest remaining alarm of each shard
	for i, id := range finished {
		switch a, err := f.Get(t.Context(), key(id)); {
		case err == nil && kept[a.Shard] == "":
			kept[a.Shard] = id
		case err != nil && (i >= 10 || kept[shards[id]] != ""):
			t.Errorf("%s was purged before the older %q of its shard", id, kept[shards[id]])
		}
	}
	purge(t0+10, 100, 6)
	purge(t0+10, 100, 0)
	same(t, "alarms", f.count("alarm"), 23)
	same(t, "attempts", f.count("ring_attempt"), 11)
	purge(clock.MaxInstant, 3, 3)
	purge(clock.MaxInstant, 100, 17)
	same(t, "alarms", f.count("alarm"), 3)
	same(t, "attempts", f.count("ring_attempt"), 1)
}

// testPurgeLocked demands that a purge skips locked rows.
func testPurgeLocked(t *testing.T, f *fixture) {
	ids := f.set(t0, set("a", t0), set("b", t0), set("c", t0))
	f.set(t0, cancel("a"), cancel("b"), cancel("c"))
	unlock := f.lockRow(ids[1])
	n, err := f.Purge(t.Context(), t0+1, t0+1, 10)
	ok(t, err, "purge beside a locked row")
	same(t, "purged", n, 2)
	unlock()
	n, err = f.Purge(t.Context(), t0+1, t0+1, 10)
	ok(t, err, "purge")
	same(t, "purged", n, 1)
}

// testIDsAreNeverReused demands a new id for every alarm, even after the newest row is deleted, because message ids
// contain the id.
func testIDsAreNeverReused(t *testing.T, f *fixture) {
	last := int64(0)
	for range 5 {
		id := f.set(t0, set("set again", t0))[0]
		if id <= last {
			t.Fatalf("id %d is not greater than %d", id, last)
		}
		last = id
		f.set(t0, cancel("set again"))
		n, err := f.Purge(t.Context(), t0+1, t0+1, 10)
		ok(t, err, "purge")
		same(t, "purged", n, 1)
	}
}

// count returns the number of rows of a table.
func (f *fixture) count(table string) int {
	f.t.Helper()
	var n int
	ok(f.t, f.db.SQL.QueryRow("SELECT COUNT(*) FROM "+table).Scan(&n), "count "+table)
	return n
}
