package storetest

import (
	"context"
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

// listAlarms returns the alarms that a list yields, up to its limit.
func (f *fixture) listAlarms(ctx context.Context, q clock.ListQuery) (alarms []clock.Alarm, err error) {
	err = f.List(ctx, q, func(a *clock.Alarm) bool {
		alarms = append(alarms, *a)
		return true
	})
	return alarms, err
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
	f.set(t0, set("other", t0, inApplication("shoq")), set("other", t0, inApplication("shop2")), set("other", t0, inApplication("Shop")))
	want := slices.Sorted(slices.Values(businessIDs))
	f.wantList("all", clock.ListQuery{}, want...)
	for _, limit := range []int{1, 3, 10} {
		var got []string
		for after := ""; ; after = got[len(got)-1] {
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
		matching := slices.DeleteFunc(slices.Clone(want), func(id string) bool { return !strings.HasPrefix(id, prefix) })
		f.wantList("prefix "+prefix, clock.ListQuery{Prefix: prefix}, matching...)
		if len(matching) > 1 {
			f.wantList("after a business id with prefix "+prefix, clock.ListQuery{Prefix: prefix, After: matching[0], Limit: 1}, matching[1])
		}
	}
	f.wantList("after the prefix's end", clock.ListQuery{Prefix: "a", After: "b"})
	f.wantList("after a business id before the prefix", clock.ListQuery{Prefix: "日", After: "a"}, "日本語")
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
	f.wantList("three states", clock.ListQuery{States: []clock.State{clock.Dead, clock.Rung, clock.Paused}}, "dead", "paused", "rung")
	f.wantList("due after", clock.ListQuery{DueAfter: t0 + 10, DueBefore: clock.NoInstant}, "later", "ringing", "soon")
	f.wantList("due before", clock.ListQuery{DueAfter: clock.NoInstant, DueBefore: t0 + 20}, "scheduled", "soon")
	f.wantList("due between", clock.ListQuery{DueAfter: t0 + 10, DueBefore: t0 + 11}, "soon")
	f.wantList("all filters", clock.ListQuery{
		States: []clock.State{clock.Scheduled, clock.Ringing}, DueAfter: t0, DueBefore: t0 + 21, Prefix: "s", After: "scheduled", Limit: 2,
	}, "soon")
}
