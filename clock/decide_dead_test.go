package clock

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// deadTable has the verdicts on a kick and a discard: without a condition, with the alarm's generation, with another
// generation. M done, K keep, n 409 not_dead, X 412, N 404.
var deadTable = []struct{ row, kick, discard string }{
	{"none", "N N N", "N N N"},
	{"scheduled", "n n X", "n n X"},
	{"scheduled in doubt", "n n X", "n n X"},
	{"paused", "n n X", "n n X"},
	{"ringing", "n n X", "n n X"},
	{"claimed", "n n X", "n n X"},
	{"rung", "n n X", "n n X"},
	{"rung in doubt", "n n X", "n n X"},
	{"expired", "M M X", "M M X"},
	{"expired in doubt", "M M X", "M M X"},
	{"dead", "M M X", "M M X"},
	{"dead in doubt", "M M X", "M M X"},
	{"cancelled", "n n X", "K K X"},
}

func TestKicksAndDiscardsAreJudgedAsInTheTable(t *testing.T) {
	key := Key{"shop", "4711"}
	for _, c := range deadTable {
		for i, condition := range []Condition{{}, {Kind: AtGeneration, Generation: tableGeneration}, {Kind: AtGeneration, Generation: tableGeneration + 1}} {
			for name, o := range map[string]struct {
				op   Op
				want string
			}{
				"kick":    {Op{Kick: &Kick{Key: key, If: condition}}, c.kick},
				"discard": {Op{Discard: &Discard{Key: key, If: condition}}, c.discard},
			} {
				t.Run(fmt.Sprintf("%s/%s/%d", c.row, name, condition.Generation), func(t *testing.T) {
					row := tableRow(c.row)
					d := o.op.Decide(row, tableNow)
					if got, want := verdictLetter(t, d), strings.Fields(o.want)[i]; got != want {
						t.Fatalf("%s (%v), want %s", got, d.Err, want)
					}
					checkUnharmed(t, row, tableRow(c.row))
					if !d.Writes() {
						checkStands(t, d, row)
					}
				})
			}
		}
	}
}

func TestKickMakesADeadAlarmDueAtOnce(t *testing.T) {
	for latest, want := range map[Instant]Instant{NoInstant: NoInstant, tableNow - 1: NoInstant, tableNow: NoInstant, tableNow + 1: tableNow + 1} {
		row := answerRow("dead in doubt")
		row.LatestRingAt, row.Answer, row.AnsweredBy, row.AnsweredAt = latest, Bury, "worker", 940
		after := *row
		after.State, after.NextTryTime, after.RetryTimes, after.UpdateTime, after.FinishedAt, after.LatestRingAt = Scheduled, tableNow, 0, tableNow, NoInstant, want
		after.Past = row.Past.with(row, tableNow)
		if d := (Op{Kick: &Kick{Key: row.Key}}).Decide(row, tableNow); d.Verdict != Amend || d.Attempt != nil ||
			!reflect.DeepEqual(d.Alarm, after) {
			t.Errorf("latest %s: %s to\n%+v, want\n%+v", latest, d.Verdict, d.Alarm, after)
		}
	}
}

func TestDiscardCancelsAnExpiredAlarm(t *testing.T) {
	row := answerRow("expired in doubt")
	after := *row
	after.State, after.UpdateTime, after.FinishedAt = Cancelled, tableNow, tableNow
	after.Past = row.Past.with(row, tableNow)
	if d := (Op{Discard: &Discard{Key: row.Key}}).Decide(row, tableNow); d.Verdict != Amend || d.Attempt != nil ||
		!reflect.DeepEqual(d.Alarm, after) {
		t.Errorf("%s to\n%+v, want\n%+v", d.Verdict, d.Alarm, after)
	}
}
