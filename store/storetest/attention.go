package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// waiting is a list of the alarms that wait for a person.
var waiting = clock.ListQuery{States: clock.AttentionStates()}

// testAttention demands that alarms are listed and counted as expired, dead or paused from the change that makes them
// so until the change that ends it, however the engine finds them.
func testAttention(t *testing.T, f *fixture) {
	for _, s := range clock.States() {
		f.arrange(s.String(), s.String())
	}
	f.set(t0, answer(clock.Bury, f.ringingAlarm("buried", 3), 1))
	f.set(t0-1000, set("unreadable", t0-500), set("other", t0-500, inApplication("bank")))
	f.exec("UPDATE alarm SET retry_policy = 'x' WHERE business_id = 'unreadable'")
	f.claim(t0, f.get("unreadable").ID)
	f.set(t0-1000, set("too-late", t0+500, latestRingAt(t0+500)))
	_, err := f.Expire(t.Context(), t0+1000, f.shards(), store.Position{}, 100)
	ok(t, err, "expire")
	f.wantAttention("at first", clock.StateCounts{clock.Expired: 2, clock.Dead: 3, clock.Paused: 1},
		"buried", "dead", "expired", "paused", "too-late", "unreadable")
	for state, want := range map[clock.State][]string{
		clock.Expired: {"expired", "too-late"}, clock.Dead: {"buried", "dead", "unreadable"}, clock.Paused: {"paused"},
	} {
		f.wantList(state.String(), clock.ListQuery{States: []clock.State{state}}, want...)
	}
	some, err := f.CountAttention(t.Context(), app, 2)
	ok(t, err, "count")
	same(t, "counted up to a limit", some, clock.StateCounts{clock.Expired: 2, clock.Dead: 2, clock.Paused: 1})

	f.set(t0+2000, resume("paused"), clock.Op{Kick: &clock.Kick{Key: key("dead")}},
		clock.Op{Discard: &clock.Discard{Key: key("expired")}}, set("unreadable", t0+5000), set("too-late", t0+5000))
	f.wantAttention("after changes", clock.StateCounts{clock.Dead: 1}, "buried")
	f.set(t0+2000, pause("too-late"), pause("dead"))
	f.wantAttention("after pauses", clock.StateCounts{clock.Dead: 1, clock.Paused: 2}, "buried", "dead", "too-late")
	before := f.archive(0)
	f.removeAlarms()
	f.restore(before)
	f.wantAttention("restored", clock.StateCounts{clock.Dead: 1, clock.Paused: 2}, "buried", "dead", "too-late")
	f.set(t0+3000, cancel("too-late"), cancel("dead"))
	_, err = f.Purge(t.Context(), t0+9000, t0+9000, 100)
	ok(t, err, "purge")
	f.wantAttention("after the purge", clock.StateCounts{})
	if f.dialect == goose.DialectMySQL {
		same(t, "notes after the purge", f.count("attention_alarm"), 0)
	}
}

// wantAttention demands these alarms and counts of alarms that wait for a person.
func (f *fixture) wantAttention(what string, counts clock.StateCounts, ids ...string) {
	f.t.Helper()
	f.wantList(what, waiting, ids...)
	got, err := f.CountAttention(f.t.Context(), app, 100)
	ok(f.t, err, "count")
	for _, state := range clock.AttentionStates() {
		same(f.t, fmt.Sprintf("%s alarms %s", state, what), got[state], counts[state])
	}
	names, err := f.AttentionApplications(f.t.Context(), "", 10)
	ok(f.t, err, "list applications")
	var want []string
	if len(ids) > 0 {
		want = []string{app}
	}
	same(f.t, "applications "+what, names, want)
}

// testAttentionScan demands that many alarms in one state do not hide an alarm in another, and that pages of several
// states have each alarm once.
func testAttentionScan(t *testing.T, f *fixture) {
	const many = 5200
	f.insertRows(many, int(clock.Paused), "NULL", "NULL")
	f.exec("UPDATE alarm SET state = 4 WHERE business_id = 's7-%d'", 1_000_000+many-1)
	f.exec("UPDATE alarm SET state = 5 WHERE business_id = 's7-1000001'")
	f.noteAttention()
	q := clock.ListQuery{Application: "plan", States: []clock.State{clock.Expired, clock.Dead}, Limit: 10}
	f.wantList("alarms behind paused ones", q, "s7-1000001", "s7-1005199")
	counts, err := f.CountAttention(t.Context(), "plan", 1000)
	ok(t, err, "count")
	same(t, "counts", counts, clock.StateCounts{clock.Expired: 1, clock.Dead: 1, clock.Paused: 1000})
	q.States, q.Limit = waiting.States, 1000
	var got []string
	for pages := 1; ; pages++ {
		page := f.list(q)
		for _, a := range page {
			got = append(got, a.BusinessID)
		}
		if len(page) < q.Limit {
			same(t, "pages", pages, 6)
			break
		}
		q.After.BusinessID = got[len(got)-1]
	}
	if !slices.IsSorted(got) || len(slices.Compact(got)) != many {
		t.Errorf("%d alarms listed, not %d in order", len(got), many)
	}
}

// noteAttention notes rows that a test has inserted.
func (f *fixture) noteAttention() {
	if f.dialect == goose.DialectMySQL {
		f.exec("INSERT INTO attention_alarm SELECT id, application, state, business_id FROM alarm WHERE state IN (4, 5, 7)")
	}
}

// testAttentionUpgrade demands that the alarms of an older schema are found after its migration.
func testAttentionUpgrade(t *testing.T, e Engine) {
	db := olderSchema(t, e, 24)
	f := &fixture{t: t, db: db, Store: db.Open(t), dialect: e.Dialect, distributed: e.Distributed}
	f.insertRows(5, 6, "NULL", fmt.Sprintf("%d", t0))
	f.exec("UPDATE alarm SET state = 5 WHERE business_id IN ('s6-1000001', 's6-1000003')")
	ok(t, f.Migrate(t.Context()), "migrate")
	f.wantList("dead alarms", clock.ListQuery{States: waiting.States, Application: "plan"}, "s6-1000001", "s6-1000003")
	names, err := f.AttentionApplications(t.Context(), "", 10)
	ok(t, err, "list applications")
	same(t, "applications", names, []string{"plan"})
}
