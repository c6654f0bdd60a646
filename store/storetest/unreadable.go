package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pressly/goose/v3"

	"github.com/clockd/clockd/clock"
)

// unreadableValue is a value that another program has written into a row.
type unreadableValue struct {
	column string
	value  string // SQL expression
}

func unreadableValues(dialect goose.Dialect) []unreadableValue {
	huge := map[goose.Dialect]string{
		goose.DialectMySQL: "REPEAT('x', 8388609)", goose.DialectPostgres: "repeat('x', 8388609)::bytea",
		goose.DialectSQLite3: "zeroblob(8388609)",
	}[dialect]
	return []unreadableValue{
		{"in_doubt", "7"},
		{"due_rank", "127"},
		{"due_rank", "-1"},
		{"retry_policy", `'{"initial":1,'`},
		{"retry_policy", `'{"initial":-5,"factor":2,"cap":1,"limit":null}'`},
		{"payload_kind", "99"},
		{"delivery", "7"},
		{"state", "9"},
		{"state", "-1"},
		{"generation", "0"},
		{"ring_no", "2147483647"},
		{"retry_times", "-1"},
		{"max_rings", "-1"},
		{"ack_timeout", "9223372036854775807"},
		{"ack_timeout", "-1"},
		{"target_ring_at", "-5"},
		{"target_ring_at", "9223372036854775807"},
		{"latest_ring_at", "-2"},
		{"update_time", "-1"},
		{"payload", huge},
	}
}

// testUnreadable claims unreadable rows among readable ones. They end as dead with a reason, the readable rows ring,
// and no row stays due.
func testUnreadable(t *testing.T, f *fixture) {
	for _, tried := range []bool{false, true} {
		for _, u := range unreadableValues(f.dialect) {
			name := fmt.Sprintf("%s %.20s, tried before %t", u.column, u.value, tried)
			bad, neighbours := name+": bad", []string{name + ": first", name + ": last"}
			ids := f.set(t0, set(neighbours[0], t0), set(bad, t0), set(neighbours[1], t0))
			if tried {
				f.exec("UPDATE alarm SET retry_times = 1, update_time = update_time + 1 WHERE id IN (%d, %d, %d)",
					ids[0], ids[1], ids[2])
			}
			f.exec("UPDATE alarm SET "+u.column+" = "+strings.ReplaceAll(u.value, "%", "%%")+" WHERE id = %d", ids[1])

			c := f.claim(t0, ids...).wantRings(ids[0], ids[2])
			same(t, name+": ended", len(c.Ended), 1)
			same(t, name+": state", c.Ended[0].State, clock.Dead)
			f.wantUnreadable(bad, u.column, clock.Dead)
			c.settle(t0, everyRing(clock.Confirmed))
			for _, id := range neighbours {
				same(t, "state of "+id, f.get(id).State, clock.Rung)
			}
			a := f.get(bad)
			same(t, name+": attempts", len(a.Attempts), 1)
			same(t, name+": outcome", a.Attempts[0].Outcome, clock.Refused)
			same(t, name+": reason of the attempt", a.Attempts[0].Error, c.Ended[0].Reason)
			o, err := f.Overdue(t.Context(), t0, f.shards(), 10)
			ok(t, err, "overdue")
			same(t, name+": overdue", o.Count, 0)
		}
	}
}

// wantUnreadable demands that a get and a list show the alarm with the column that cannot be read.
func (f *fixture) wantUnreadable(id, column string, state clock.State) {
	f.t.Helper()
	shown := []clock.Alarm{*f.get(id)}
	for _, a := range f.list(clock.ListQuery{Prefix: strings.TrimSuffix(id, "bad")}) {
		if a.BusinessID == id {
			shown = append(shown, a)
		}
	}
	same(f.t, id+": alone and in a list", len(shown), 2)
	for _, a := range shown {
		same(f.t, id+": state", a.State, state)
		if !strings.Contains(a.LastError, "column "+column+" cannot be read") {
			f.t.Fatalf("%s: last error %q does not name the column", id, a.LastError)
		}
	}
}

// testUnreadableWrites lists, gets and writes unreadable rows among readable ones before a claim meets them. Every row
// is shown, and no unreadable row fails its group. A set repairs its row.
func testUnreadableWrites(t *testing.T, f *fixture) {
	// A claim of rows without a repeat_state rings such a row at its time, once.
	ruleAlone := unreadableValue{"repeat_rule", "'" + longRule().Encode() + "'"}
	for _, u := range append(unreadableValues(f.dialect), ruleAlone) {
		if u.column == "generation" || u.column == "payload" {
			continue // a write checks the generation; a service refuses such a payload
		}
		name := fmt.Sprintf("%s %.20s", u.column, u.value)
		bad, good := name+": bad", name+": good"
		ids := f.set(t0, set(bad, t0), set(good, t0))
		f.exec("UPDATE alarm SET "+u.column+" = "+strings.ReplaceAll(u.value, "%", "%%")+" WHERE id = %d", ids[0])
		same(t, name+": neighbour", f.get(good).LastError, "")
		if u.column != "state" { // a list selects rows by known states
			f.wantUnreadable(bad, u.column, clock.Scheduled)
		}
		if u.column != "state" {
			f.wantUntouched(name, ids[0], clock.Op{Pause: &clock.Pause{Key: key(bad)}}, clock.Op{Trigger: &clock.Trigger{Key: key(bad)}})
		}
		d := f.write(t0, set(bad, t0), set(good, t0+1))
		same(t, name+": verdict on its neighbour", d[1].Verdict, clock.Replace)
		if u.column == "state" {
			same(t, name+": verdict", d[0].Verdict, clock.Refuse)
			continue
		}
		same(t, name+": verdict", d[0].Verdict, clock.Replace)
		a := f.get(bad)
		same(t, name+": healed", fmt.Sprint(a.State, a.Generation, a.LastError), fmt.Sprint(clock.Scheduled, 2, ""))
		f.claim(t0, ids[0]).wantRings(ids[0]).settle(t0, everyRing(clock.Confirmed))
	}
}

// wantUntouched demands that ops on an unreadable row are refused, and leave its encoded columns alone.
func (f *fixture) wantUntouched(name string, id int64, ops ...clock.Op) {
	f.t.Helper()
	stored := func() string {
		return fmt.Sprint(f.report(fmt.Sprintf("SELECT retry_policy, repeat_rule, repeat_state FROM alarm WHERE id = %d", id)))
	}
	before := stored()
	for _, op := range ops {
		same(f.t, name+": "+op.Name(), f.write(t0, op)[0].Verdict, clock.Refuse)
	}
	same(f.t, name+": columns", stored(), before)
}
