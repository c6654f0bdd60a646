package storetest

import (
	"fmt"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/clockd/clockd/clock"
)

// testRepeatingLists demands that a list of repeating alarms has each of them, and no other alarm, until it is purged.
func testRepeatingLists(t *testing.T, f *fixture) {
	const zone = "Europe/Berlin"
	daily := cronIn("0 8 * * *", "UTC")
	f.set(t0, set("cron", t0, cronIn("30 2 * * *", zone)), set("daily-a", t0, daily), set("daily-b", t0, daily),
		set("local", t0, localTime("2027-03-28T12:00:00", zone)), set("once", t0), set("period", t0, repeating(t0, nil)),
		set("period", t0, inApplication("bank"), repeating(t0, nil)), set("once", t0, inApplication("till")))
	repeats := clock.ListQuery{Repeating: true}
	f.wantList("repeating alarms", repeats, "cron", "daily-a", "daily-b", "period")
	for _, a := range f.list(repeats) {
		f.want(a)
	}
	for limit := 1; limit < 6; limit++ {
		var got []string
		for after := (clock.ListPosition{}); ; after.BusinessID = got[len(got)-1] {
			page := f.list(clock.ListQuery{Repeating: true, After: after, Limit: limit})
			for _, a := range page {
				got = append(got, a.BusinessID)
			}
			if len(page) < limit {
				break
			}
		}
		same(t, fmt.Sprint("repeating alarms by ", limit), got, []string{"cron", "daily-a", "daily-b", "period"})
	}
	f.wantList("prefix", clock.ListQuery{Repeating: true, Prefix: "daily-"}, "daily-a", "daily-b")
	f.wantList("other application", clock.ListQuery{Repeating: true, Application: "bank"}, "period")
	f.wantList("application without any", clock.ListQuery{Repeating: true, Application: "till"})
	f.write(t0+1, pause("daily-a"), cancel("cron"))
	f.write(t0+2, set("once", t0, daily), set("daily-b", t0), set("cron", t0, daily))
	f.wantList("after other sets", repeats, "cron", "daily-a", "once", "period")
	f.exec("UPDATE alarm SET repeat_rule = 'x' WHERE business_id = 'daily-a'")
	f.wantList("with a rule that cannot be read", repeats, "cron", "daily-a", "once", "period")

	f.write(t0+3, cancel("once"), cancel("daily-b"))
	if _, err := f.Purge(t.Context(), t0+4, t0+4, 10); err != nil {
		t.Fatal(err)
	}
	f.wantList("after the purge", repeats, "cron", "daily-a", "period")
	if f.dialect == goose.DialectMySQL {
		same(t, "notes after the purge", f.count("repeating_alarm"), 4)
	}
}

// testRepeatingScan demands that a list goes on behind many alarms that repeat no more.
func testRepeatingScan(t *testing.T, f *fixture) {
	const many = 1200
	ops := func(edit func(*clock.Set)) []clock.Op {
		ops := make([]clock.Op, many)
		for i := range ops {
			ops[i] = set(fmt.Sprintf("a-%04d", i), t0, edit)
		}
		return ops
	}
	f.set(t0, ops(repeating(t0, nil))...)
	f.set(t0, set("b", t0, repeating(t0, nil)))
	f.write(t0+1, ops(func(*clock.Set) {})...)
	q := clock.ListQuery{
		Application: app, Repeating: true, DueAfter: clock.NoInstant, DueBefore: clock.NoInstant, Limit: 10,
	}
	next, err := f.List(t.Context(), q, func(*clock.Alarm) bool { return true })
	ok(t, err, "list")
	if f.dialect == goose.DialectMySQL {
		same(t, "end of the first page", next, clock.ListPosition{BusinessID: "a-0999"})
	} else {
		same(t, "end of the list", next, clock.ListPosition{})
	}
	f.wantList("all pages", q, "b")
}

// testRules reads the rules of the alarms that ring, and counts all.
func testRules(t *testing.T, f *fixture) {
	period := repeating(t0, nil)
	f.set(t0, set("a", t0, cronIn("0 8 * * *", "UTC")), set("b", t0, period), set("c", t0, period), set("d", t0, period),
		set("once", t0), set("x", t0, inApplication("bank"), period))
	f.write(t0+1, pause("b"))
	f.exec("UPDATE alarm SET repeat_rule = 'x' WHERE business_id = 'd'")
	rules := func(limit int) clock.Rules {
		r, err := f.Rules(t.Context(), app, limit)
		ok(t, err, "read rules")
		return r
	}
	all := rules(100)
	same(t, "read", []int64{all.Read, all.Total}, []int64{4, 4})
	same(t, "alarms with a rule", len(all.Alarms), 2)
	for i, id := range []string{"a", "c"} {
		a, got := f.get(id), all.Alarms[i]
		same(t, id, got.Alarm.BusinessID, id)
		same(t, "next try of "+id, got.NextTryTime, a.NextTryTime)
		same(t, "occurrence of "+id, got.Current, a.Progress.Current)
		same(t, "rule of "+id, got.Rule.Encode(), a.Repeat.Encode())
	}
	some := rules(2)
	same(t, "read up to a limit", []int64{some.Read, some.Total}, []int64{2, 4})
	same(t, "rules up to a limit", len(some.Alarms), 1)
	names, err := f.RepeatingApplications(t.Context(), "", 10)
	ok(t, err, "list applications with repeating alarms")
	same(t, "applications", names, []string{"bank", app})
	names, err = f.RepeatingApplications(t.Context(), "bank", 1)
	ok(t, err, "list applications with repeating alarms")
	same(t, "applications behind one", names, []string{app})
}

// testRepeatingRestore demands that restored alarms are found by their rules.
func testRepeatingRestore(t *testing.T, f *fixture) {
	f.set(t0, set("cron", t0, cronIn("0 8 * * *", "UTC")), set("once", t0), set("period", t0, repeating(t0, nil)))
	before := f.archive(0)
	f.removeAlarms()
	f.restore(before)
	f.wantList("restored", clock.ListQuery{Repeating: true}, "cron", "period")
}

// testRepeatingUpgrade demands that the alarms of a schema without lists of repeating alarms are found after its
// migration.
func testRepeatingUpgrade(t *testing.T, e Engine) {
	db := olderSchema(t, e, 22) // without lists
	f := &fixture{t: t, db: db, Store: db.Open(t), dialect: e.Dialect, distributed: e.Distributed}
	f.insertRows(5, 6, "NULL", fmt.Sprintf("%d", t0))
	f.exec(`UPDATE alarm SET repeat_rule = '{"v":1,"cron":"0 8 * * *","tz":"UTC"}', repeat_state = '{"n":1,"at":%d}'
		WHERE business_id IN ('s6-1000001', 's6-1000003')`, t0)
	f.exec(`UPDATE alarm SET repeat_rule = '{"v":1,"local":"2027-03-28T12:00:00","tz":"UTC"}' WHERE business_id = 's6-1000002'`)
	ok(t, f.Migrate(t.Context()), "migrate")
	ok(t, f.Check(t.Context()), "check")
	f.wantList("repeating alarms", clock.ListQuery{Repeating: true, Application: "plan"}, "s6-1000001", "s6-1000003")
}
