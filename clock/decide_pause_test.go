package clock

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// pauseTable has the verdicts on a pause and a resume: without a condition, with the alarm's generation, with another
// generation. M done, K keep, W wait, r e d c 409 already rung, expired, dead, cancelled, D 409 ring_in_doubt, X 412, N
// 404.
var pauseTable = []struct{ row, pause, resume string }{
	{"none", "N N N", "N N N"},
	{"scheduled", "M M X", "K K X"},
	{"scheduled in doubt", "D D X", "K K X"},
	{"paused", "K K X", "M M X"},
	{"ringing", "r r X", "K K X"},
	{"claimed", "W W X", "K K X"},
	{"claimed in doubt", "W W X", "K K X"},
	{"rung", "r r X", "r r X"},
	{"rung in doubt", "r r X", "r r X"},
	{"expired", "e e X", "e e X"},
	{"dead", "d d X", "d d X"},
	{"cancelled", "c c X", "c c X"},
}

func TestPausesAndResumesAreJudgedAsInTheTable(t *testing.T) {
	key := Key{"shop", "4711"}
	for _, c := range pauseTable {
		for i, condition := range []Condition{{}, {Kind: AtGeneration, Generation: tableGeneration}, {Kind: AtGeneration, Generation: tableGeneration + 1}} {
			for name, o := range map[string]struct {
				op   Op
				want string
			}{
				"pause":  {Op{Pause: &Pause{Key: key, If: condition}}, c.pause},
				"resume": {Op{Resume: &Resume{Key: key, If: condition}}, c.resume},
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

func TestPauseTakesTheAlarmFromTheDueIndex(t *testing.T) {
	row := answerRow("scheduled")
	after := *row
	after.State, after.NextTryTime, after.UpdateTime = Paused, NoInstant, tableNow
	if d := (Op{Pause: &Pause{Key: row.Key}}).Decide(row, tableNow); d.Verdict != Amend || d.Attempt != nil ||
		!reflect.DeepEqual(d.Alarm, after) {
		t.Errorf("%s to\n%+v, want\n%+v", d.Verdict, d.Alarm, after)
	}
}

func TestResumeSchedulesTheAlarmAtItsRingTimeOrNow(t *testing.T) {
	for ringAt, due := range map[Instant]Instant{tableNow - 1: tableNow, tableNow: tableNow, tableNow + 1: tableNow + 1} {
		row := answerRow("paused")
		row.RingAt, row.LatestRingAt = ringAt, ringAt // it may have passed: then the next claim ends the alarm
		after := *row
		after.State, after.NextTryTime, after.UpdateTime = Scheduled, due, tableNow
		if d := (Op{Resume: &Resume{Key: row.Key}}).Decide(row, tableNow); d.Verdict != Amend || d.Attempt != nil ||
			!reflect.DeepEqual(d.Alarm, after) {
			t.Errorf("ring_at %s: %s to\n%+v, want\n%+v", ringAt, d.Verdict, d.Alarm, after)
		}
	}
}

func TestPauseHasAReason(t *testing.T) {
	key := Key{"shop", "4711"}
	for _, c := range []struct{ actor, note, before, want string }{
		{"", "", "no queue", "no queue"},
		{"ops", "", "no queue", "paused by ops"},
		{"", "stock", "", "paused: stock"},
		{"ops", "stock", "no queue", "paused by ops: stock"},
	} {
		row := tableRow("scheduled")
		row.LastError = c.before
		d := Op{Pause: &Pause{Key: key}, Actor: &Actor{Name: c.actor}, Note: c.note}.Decide(row, tableNow)
		if d.Alarm.LastError != c.want {
			t.Errorf("%+v: last_error %q", c, d.Alarm.LastError)
		}
		set := tableSet("payload")
		reason := strings.TrimPrefix(c.want, "no queue")
		if again := (Op{Set: set}).Decide(&d.Alarm, tableNow); again.Verdict != Replace || again.Alarm.LastError != reason {
			t.Errorf("%+v: a set leaves %q", c, again.Alarm.LastError)
		}
		resumed := Op{Resume: &Resume{Key: key}}.Decide(&d.Alarm, tableNow).Alarm
		if kept := strings.TrimPrefix(c.want, reason); resumed.LastError != kept {
			t.Errorf("%+v: a resume leaves %q, want %q", c, resumed.LastError, kept)
		}
	}
}
