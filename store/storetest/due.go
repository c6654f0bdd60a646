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

// testDue reads everything due page by page, over equal times and many shards: each row once, in order.
func testDue(t *testing.T, f *fixture) {
	var ops []clock.Op
	for i, id := range names("due", 300) {
		ops = append(ops, set(id, t0+clock.Instant(i%5), in([]string{app, "bank"}[i%2]), priority(i*i%10)))
	}
	f.set(t0, ops...)
	f.set(t0, set("beyond", t0+5), set("over", t0), set("paused", t0))
	f.set(t0, cancel("over"))
	f.pause(f.get("paused").ID)
	f.set(t0, set("ringing", t0-1000, acknowledged(time.Second, 3)))
	f.claim(t0-1000, f.get("ringing").ID).settle(t0, all(clock.Confirmed))
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
	same(t, "rows from one of them on", f.readDue(three, some[1].Position(), 2), some[1:])
	same(t, "rows of one shard", f.readDue(three[:1], store.Position{}, 2),
		slices.DeleteFunc(slices.Clone(some), func(d store.Due) bool { return d.Shard != 5 }))
}

// dueRows returns what the due index should hold of the alarms that keep lets pass, in due order.
func (f *fixture) dueRows(keep func(clock.Alarm) bool) []store.Due {
	var due []store.Due
	for _, application := range []string{app, "bank"} {
		for _, a := range f.list(clock.ListQuery{Application: application}) {
			if keep(a) {
				due = append(due, dueOf(&a))
			}
		}
	}
	slices.SortFunc(due, byPosition)
	return due
}

// dueOf returns what the due index holds of an alarm.
func dueOf(a *clock.Alarm) store.Due {
	return store.Due{ID: a.ID, NextTryTime: a.NextTryTime, Rank: 9 - a.Priority, Shard: a.Shard, Application: a.Application}
}

func byPosition(a, b store.Due) int {
	return cmp.Or(cmp.Compare(a.NextTryTime, b.NextTryTime), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ID, b.ID))
}

// readDue reads page by page until t0+5 and checks what a page promises.
func (f *fixture) readDue(shards []int, from store.Position, limit int) []store.Due {
	f.t.Helper()
	q := store.DueQuery{Shards: shards, From: from, Until: store.Position{Time: t0 + 5}, Limit: limit}
	var rows []store.Due
	for q.From.Before(q.Until) {
		page, err := f.Due(f.t.Context(), q)
		ok(f.t, err, "due")
		if !q.From.Before(page.Complete) || q.Until.Before(page.Complete) {
			f.t.Fatalf("page from %v is complete to %v", q.From, page.Complete)
		}
		perShard := make(map[int]int)
		for _, d := range page.Rows {
			perShard[d.Shard]++
			if d.Position().Before(q.From) || !d.Position().Before(page.Complete) || perShard[d.Shard] > limit {
				f.t.Fatalf("%v does not belong to the page from %v to %v", d, q.From, page.Complete)
			}
		}
		rows = append(rows, page.Rows...)
		q.From = page.Complete
	}
	return rows
}

// testDueEdges asks for the exact edges: From is in, Until is out.
func testDueEdges(t *testing.T, f *fixture) {
	f.set(t0, set("a", t0), set("b", t0), set("c", t0+1))
	rows := f.dueRows(func(clock.Alarm) bool { return true })
	ask := func(from, until store.Position) []store.Due {
		t.Helper()
		page, err := f.Due(t.Context(), store.DueQuery{Shards: f.shards(), From: from, Until: until, Limit: 10})
		ok(t, err, "due")
		same(t, "complete", page.Complete, until)
		return page.Rows
	}
	same(t, "between two rows", ask(rows[0].Position(), rows[1].Position()), rows[:1])
	same(t, "all", ask(store.Position{}, store.Position{Time: clock.MaxInstant}), rows)
	same(t, "after the first", ask(rows[1].Position(), store.Position{Time: t0 + 1}), rows[1:2])
	same(t, "nothing", ask(store.Position{Time: t0 + 2}, store.Position{Time: t0 + 9}), []store.Due{})
}

// testOverdue counts what is due, up to the limit.
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
	f.set(t0, set("oldest", t0-7), set("future", t0+1), set("over", t0-100))
	f.set(t0, cancel("over"))
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

// testExpire ends what is too late, page by page, and leaves the rest.
func testExpire(t *testing.T, f *fixture) {
	f.set(t0, sets(names("late", 60), t0, latest(t0+9))...)
	f.set(t0, sets(names("in-time", 40), t0, latest(t0+10))...)
	f.set(t0, sets(names("however", 40), t0)...)
	f.set(t0, set("ringing", t0, latest(t0+1), acknowledged(time.Second, 3)), set("failed", t0, latest(t0+9)))
	f.claim(t0, f.get("ringing").ID).settle(t0, all(clock.Confirmed))
	f.claim(t0, f.get("failed").ID).settle(t0, all(clock.Doubtful))
	states := make(map[string]clock.Alarm)
	for _, a := range f.list(clock.ListQuery{}) {
		states[a.BusinessID] = a
	}
	ended := f.expireAll(t0+10, 13)
	same(t, "alarms ended", len(ended), 61)
	for name, a := range states {
		if reason, over := ended[name]; over {
			want := "latest_ring_at passed before it could be rung"
			if name == "failed" {
				want = "the reason of in_doubt"
			}
			same(t, "reason of "+name, reason, want)
			a.State, a.NextTryTime, a.FinishedAt, a.UpdateTime, a.LastError = clock.Expired, clock.NoInstant, t0+10, t0+10, want
		}
		f.want(a)
	}
	same(t, "the second time", len(f.expireAll(t0+10, 13)), 0)
}

// expireAll expires page by page and returns the reasons by business id.
func (f *fixture) expireAll(now clock.Instant, limit int) map[string]string {
	f.t.Helper()
	reasons := make(map[string]string)
	var from store.Position
	for {
		ended, next, err := f.Expire(f.t.Context(), now, f.shards(), from, limit)
		ok(f.t, err, "expire")
		if len(ended) > limit {
			f.t.Fatalf("%d ended with limit %d", len(ended), limit)
		}
		for _, e := range ended {
			if _, twice := reasons[e.BusinessID]; twice || e.State != clock.Expired || e.ID == 0 {
				f.t.Fatalf("ended %v", e)
			}
			reasons[e.BusinessID] = e.Reason
		}
		if next == (store.Position{}) {
			return reasons
		}
		if !from.Before(next) {
			f.t.Fatalf("from %v it goes on at %v", from, next)
		}
		from = next
	}
}

// testExpireHeld passes over what a claim holds.
func testExpireHeld(t *testing.T, f *fixture) {
	ids := f.set(t0, set("held", t0, latest(t0)), set("free", t0, latest(t0)))
	held := f.claim(t0, ids[0]).wantRings(ids[0])
	same(t, "ended", f.expireAll(t0+1, 10), map[string]string{"free": "latest_ring_at passed before it could be rung"})
	held.settle(t0+1, all(clock.Confirmed))
	same(t, "state", f.get("held").State, clock.Rung)
}

// testPurge deletes what has been over long enough, of each shard the oldest first, in batches, with attempts, and nothing else.
func testPurge(t *testing.T, f *fixture) {
	over := names("over", 30)
	for i, id := range over {
		f.set(t0, set(id, t0))
		now := t0 + clock.Instant(i)
		if i%2 == 0 {
			f.set(now, cancel(id))
		} else {
			f.claim(now, f.get(id).ID).settle(now, all(clock.Doubtful))
			f.claim(now, f.get(id).ID).settle(now, all(clock.Confirmed))
		}
	}
	shards := map[string]int{}
	for _, id := range over {
		shards[id] = f.get(id).Shard
	}
	f.set(t0, set("pending", t0-1000), set("paused", t0-1000), set("ringing", t0-1000, acknowledged(time.Second, 2)))
	f.claim(t0-1000, f.get("ringing").ID).settle(t0, all(clock.Confirmed))
	f.pause(f.get("paused").ID)
	f.claim(t0, f.get("pending").ID).settle(t0, all(clock.Doubtful))
	same(t, "attempts", f.count("ring_attempt"), 16)
	purge := func(before clock.Instant, limit, want int) {
		t.Helper()
		n, err := f.Purge(t.Context(), before, limit)
		ok(t, err, "purge")
		same(t, "purged", n, want)
	}
	purge(t0, 100, 0)
	purge(t0+10, 4, 4)
	kept := map[int]string{} // by shard, the oldest
	for i, id := range over {
		switch a, err := f.Get(t.Context(), key(id)); {
		case err == nil && kept[a.Shard] == "":
			kept[a.Shard] = id
		case err != nil && (i >= 10 || kept[shards[id]] != ""):
			t.Errorf("%s was purged, %q of its shard was not", id, kept[shards[id]])
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

// testPurgeLocked passes over rows that somebody holds.
func testPurgeLocked(t *testing.T, f *fixture) {
	ids := f.set(t0, set("a", t0), set("b", t0), set("c", t0))
	f.set(t0, cancel("a"), cancel("b"), cancel("c"))
	unlock := f.lock(ids[1])
	n, err := f.Purge(t.Context(), t0+1, 10)
	ok(t, err, "purge beside a locked row")
	same(t, "purged", n, 2)
	unlock()
	n, err = f.Purge(t.Context(), t0+1, 10)
	ok(t, err, "purge")
	same(t, "purged", n, 1)
}

// testNoReuse demands that an id is never given twice, not even after the newest row is deleted: message ids are made of it.
func testNoReuse(t *testing.T, f *fixture) {
	last := int64(0)
	for range 5 {
		id := f.set(t0, set("again", t0))[0]
		if id <= last {
			t.Fatalf("id %d came again or went back after %d", id, last)
		}
		last = id
		f.set(t0, cancel("again"))
		n, err := f.Purge(t.Context(), t0+1, 10)
		ok(t, err, "purge")
		same(t, "purged", n, 1)
	}
}

// count counts the rows of a table.
func (f *fixture) count(table string) int {
	f.t.Helper()
	var n int
	ok(f.t, f.db.SQL.QueryRow("SELECT COUNT(*) FROM "+table).Scan(&n), "count "+table)
	return n
}
