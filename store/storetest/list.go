package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// list returns the alarms of q. It fills empty fields of q with values that do not filter.
func (f *fixture) list(q clock.ListQuery) []clock.Alarm {
	f.t.Helper()
	if q.Application == "" {
		q.Application = app
	}
	if q.Limit == 0 {
		q.Limit = clock.MaxListLimit
	}
	if q.DueAfter == 0 && q.DueBefore == 0 {
		q.DueAfter, q.DueBefore = clock.NoInstant, clock.NoInstant
	}
	alarms, err := f.listAlarms(f.t.Context(), q)
	ok(f.t, err, "list")
	return alarms
}

// listAlarms returns the alarms that a list yields, up to its limit. It reads page after page.
func (f *fixture) listAlarms(ctx context.Context, q clock.ListQuery) (alarms []clock.Alarm, err error) {
	for limit := q.Limit; ; {
		q.Limit = limit - len(alarms)
		next, err := f.List(ctx, q, func(a *clock.Alarm) bool {
			alarms = append(alarms, *a)
			return true
		})
		if err != nil || next.IsZero() || len(alarms) == limit {
			return alarms, err
		}
		if next == q.After {
			return nil, errors.New("the list does not go on")
		}
		q.After = next
	}
}

func (f *fixture) wantList(what string, q clock.ListQuery, want ...string) {
	f.t.Helper()
	got := []string{}
	for _, a := range f.list(q) {
		got = append(got, a.BusinessID)
	}
	same(f.t, what, got, append([]string{}, want...))
}

// testList reads an application page by page in bytewise order.
func testList(t *testing.T, f *fixture) {
	var ops []clock.Op
	for _, id := range businessIDs {
		ops = append(ops, set(id, t0))
	}
	f.set(t0, ops...)
	f.set(t0, set("other", t0, inApplication("shoq")), set("other", t0, inApplication("shop2")),
		set("other", t0, inApplication("Shop")))
	want := slices.Sorted(slices.Values(businessIDs))
	f.wantList("all", clock.ListQuery{}, want...)
	for _, limit := range []int{1, 3, 10} {
		var got []string
		for after := (clock.ListPosition{}); ; after.BusinessID = got[len(got)-1] {
			page := f.list(clock.ListQuery{After: after, Limit: limit})
			for _, a := range page {
				got = append(got, a.BusinessID)
				f.want(a)
			}
			if len(page) < limit || len(got) > len(want) {
				break
			}
		}
		same(t, "all by pages", got, want)
	}
	f.wantList("unknown application", clock.ListQuery{Application: "unknown"})
	for _, prefix := range []string{"a", "A", "%", "_", "a%", "a_", "x ", "\u00e9", "e", "--", "k", "\U0001f514", `back\`, "日", "none"} {
		matching := slices.DeleteFunc(slices.Clone(want),
			func(id string) bool { return !strings.HasPrefix(id, prefix) })
		f.wantList("prefix "+prefix, clock.ListQuery{Prefix: prefix}, matching...)
		if len(matching) > 1 {
			f.wantList("after a business id with prefix "+prefix,
				clock.ListQuery{Prefix: prefix, After: clock.ListPosition{BusinessID: matching[0]}, Limit: 1},
				matching[1])
		}
	}
	f.wantList("after the prefix's end", clock.ListQuery{Prefix: "a", After: clock.ListPosition{BusinessID: "b"}})
	f.wantList("after a business id before the prefix",
		clock.ListQuery{Prefix: "日", After: clock.ListPosition{BusinessID: "a"}}, "日本語")
}

// testListFilters lists by state and by due time.
func testListFilters(t *testing.T, f *fixture) {
	for _, state := range []string{"scheduled", "paused", "ringing", "rung", "expired", "dead", "cancelled"} {
		f.arrange(state, state)
	}
	f.set(t0, set("soon", t0+10), set("later", t0+20))
	for _, s := range clock.States() {
		want := []string{s.String()}
		if s == clock.Scheduled {
			want = []string{"later", "scheduled", "soon"}
		}
		f.wantList("state "+s.String(), clock.ListQuery{States: []clock.State{s}}, want...)
	}
	f.wantList("three states", clock.ListQuery{States: []clock.State{clock.Dead, clock.Rung, clock.Paused}}, "dead",
		"paused", "rung")
	f.wantList("due after", clock.ListQuery{DueAfter: t0 + 10, DueBefore: clock.NoInstant}, "soon", "later", "ringing")
	f.wantList("due before", clock.ListQuery{DueAfter: clock.NoInstant, DueBefore: t0 + 20}, "scheduled", "soon")
	f.wantList("due between", clock.ListQuery{DueAfter: t0 + 10, DueBefore: t0 + 11}, "soon")
	f.wantList("never due", clock.ListQuery{DueAfter: t0 + 11, DueBefore: t0 + 11})
	f.wantList("all filters", clock.ListQuery{
		States: []clock.State{clock.Scheduled, clock.Ringing}, DueAfter: t0, DueBefore: t0 + 21, Prefix: "s", Limit: 2,
	}, "soon")
	paused := []clock.State{clock.Paused}
	f.wantList("paused alarms are not due", clock.ListQuery{
		States: append(paused, clock.Dead), DueAfter: t0, DueBefore: clock.NoInstant,
	})
	q := clock.ListQuery{States: paused, DueAfter: clock.NoInstant, DueBefore: t0 + 1}
	f.wantList("paused alarms by ring_at", q, "paused")
	f.wantList("later paused alarms", clock.ListQuery{States: paused, DueAfter: t0 + 1, DueBefore: clock.NoInstant})
	f.set(t0, set("paused-2", t0+500), set("paused-1", t0+500), set("paused-3", t0+500), set("paused-4", t0+600))
	for i := 1; i <= 4; i++ {
		f.set(t0, clock.Op{Pause: &clock.Pause{Key: key(fmt.Sprint("paused-", i))}})
	}
	q.DueAfter, q.DueBefore, q.Limit = t0+1, t0+600, 2
	f.wantList("the first page of paused alarms", q, "paused-1", "paused-2")
	q.After = clock.ListPosition{BusinessID: "paused-2"}
	f.wantList("the next page", q, "paused-3")
}

// testListByDue lists by due time page by page, also when many alarms have one due time, and when alarms of other
// applications lie between.
func testListByDue(t *testing.T, f *fixture) {
	const number = 96
	var want []string
	for i := range number {
		id := fmt.Sprintf("a-%03d", i)
		f.set(t0, set(id, t0+1000+clock.Instant(i/16)), set(id, t0+1000+clock.Instant(i/16), inApplication("other")))
		want = append(want, id)
	}
	f.set(t0, set("urgent", t0+1000, priority(9)), set("none", t0+5000))
	want = append([]string{"urgent"}, want...)
	q := clock.ListQuery{Application: app, DueAfter: t0 + 1000, DueBefore: t0 + 5000}
	for _, limit := range []int{1, 7, 40, number + 1} {
		var got []string
		for q.After = (clock.ListPosition{}); len(got) <= len(want); {
			q.Limit = limit
			next, err := f.List(t.Context(), q, func(a *clock.Alarm) bool {
				got = append(got, a.BusinessID)
				return true
			})
			ok(t, err, "list")
			if q.After = next; next.IsZero() {
				break
			}
		}
		same(t, fmt.Sprint("all by pages of ", limit), got, want)
	}
	q.After, q.Limit = clock.ListPosition{}, number
	var taken []string
	next, err := f.List(t.Context(), q, func(a *clock.Alarm) bool {
		taken = append(taken, a.BusinessID)
		return len(taken) < 3
	})
	ok(t, err, "list that ends early")
	q.After, q.Limit = next, 1
	rest, err := f.listAlarms(t.Context(), q)
	ok(t, err, "rest")
	same(t, "first alarm of the rest", rest[0].BusinessID, taken[2]) // it was refused
}

// testListBound lists by state among many alarms of other states: each call looks at some of them alone. Expired, dead
// and paused alarms have an index, so the first call finds them.
func testListBound(t *testing.T, f *fixture) {
	f.insertRows(12_000, int(clock.Rung), "NULL", "1")
	f.insertRows(5, int(clock.Cancelled), "NULL", "1")
	f.insertRows(5, int(clock.Paused), "NULL", "NULL")
	f.noteAttention()
	for _, c := range []struct {
		states []clock.State
		calls  int
	}{
		{[]clock.State{clock.Cancelled}, 3}, {[]clock.State{clock.Rung}, 1},
		{[]clock.State{clock.Cancelled, clock.Paused}, 3}, {[]clock.State{clock.Paused}, 1},
	} {
		q := clock.ListQuery{Application: "plan", States: c.states, DueAfter: clock.NoInstant,
			DueBefore: clock.NoInstant, Limit: 5}
		calls, found := 0, 0
		for begun := false; found < 5 && (!begun || !q.After.IsZero()); begun = true {
			next, err := f.List(t.Context(), q, func(a *clock.Alarm) bool {
				if !slices.Contains(c.states, a.State) {
					t.Errorf("listed a %s alarm", a.State)
				}
				found++
				return true
			})
			ok(t, err, "list")
			q.After = next
			calls++
		}
		same(t, fmt.Sprint("calls for ", c.states), calls, c.calls)
		same(t, fmt.Sprint("alarms for ", c.states), found, 5)
	}
}
