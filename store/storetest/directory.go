package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/clockd/clockd/clock"
)

// testApplications lists the applications of all alarms, in bytewise order and page by page.
func testApplications(t *testing.T, f *fixture) {
	names := []string{"Shop", "bank", "bank-2", "bank.1", "shop", "shop2", "z"}
	for _, name := range names {
		f.set(t0, set("a", t0, inApplication(name)), set("b", t0, inApplication(name)))
	}
	f.set(t0, clock.Op{Cancel: &clock.Cancel{Key: clock.Key{Application: "z", BusinessID: "a"}}},
		clock.Op{Cancel: &clock.Cancel{Key: clock.Key{Application: "z", BusinessID: "b"}}})
	want := slices.Sorted(slices.Values(names))
	for _, limit := range []int{1, 3, len(names), 100} {
		var got []string
		for after := ""; ; after = got[len(got)-1] {
			page, err := f.Applications(t.Context(), after, limit)
			ok(t, err, "applications")
			got = append(got, page...)
			if len(page) < limit || len(got) > len(names) {
				break
			}
		}
		same(t, fmt.Sprint("applications by ", limit), got, want)
	}
	f.set(t0, set("a", t0, inApplication("bank-3")), set("a", t0, inApplication("zoo"))) // a store may know the others
	all, err := f.Applications(t.Context(), "", 100)
	ok(t, err, "applications")
	same(t, "applications with new ones", all, slices.Sorted(slices.Values(append(names, "bank-3", "zoo"))))
	after, err := f.Applications(t.Context(), "bank-", 100)
	ok(t, err, "applications after a name that is none")
	same(t, "applications", after, []string{"bank-2", "bank-3", "bank.1", "shop", "shop2", "z", "zoo"})
}

// testStateCounts counts alarms by state up to a limit.
func testStateCounts(t *testing.T, f *fixture) {
	want := clock.StateCounts{}
	for _, s := range clock.States() {
		f.arrange(s.String(), s.String())
		want[s] = 1
	}
	f.set(t0, set("other", t0, inApplication("shop2")))
	f.set(t0, set("z1", t0), set("z2", t0))
	want[clock.Scheduled] = 3
	counts := func(limit int) clock.StateCounts {
		n, err := f.CountStates(t.Context(), app, limit)
		ok(t, err, "count states")
		return n
	}
	same(t, "counts", counts(100), want)
	same(t, "total", want.Total(), 9)
	same(t, "counts at the limit", counts(9), want)
	same(t, "counts of the first alarms by business id", counts(2),
		clock.StateCounts{clock.Cancelled: 1, clock.Dead: 1})
	none, err := f.CountStates(t.Context(), "unknown", 100)
	ok(t, err, "count states")
	same(t, "counts of an application without alarms", none, clock.StateCounts{})
}

// testFind finds alarms of several applications by their keys, in more than one statement.
func testFind(t *testing.T, f *fixture) {
	f.set(t0, set("a", t0), set("a", t0, inApplication("bank")), set("A", t0, inApplication("bank")), set("b ü", t0+5))
	keys := []clock.Key{key("b ü"), key("a"), {Application: "bank", BusinessID: "a"},
		{Application: "Bank", BusinessID: "a"}, key("A"), key("b u")}
	for i := range 1200 {
		keys = append(keys, clock.Key{Application: fmt.Sprint("none-", i), BusinessID: "a"})
	}
	found, err := f.Find(t.Context(), keys)
	ok(t, err, "find")
	var got []clock.Key
	for _, a := range found {
		got = append(got, a.Key)
		f.want(a)
	}
	same(t, "found", got, []clock.Key{{Application: "bank", BusinessID: "a"}, key("a"), key("b ü")})
	found, err = f.Find(t.Context(), nil)
	ok(t, err, "find nothing")
	same(t, "alarms without keys", len(found), 0)
}
