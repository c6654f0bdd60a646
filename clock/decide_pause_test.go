package clock

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock/repeat"
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

func TestSecondPauseChangesTheReason(t *testing.T) {
	row := tableRow("paused")
	row.LastError = "paused: stock"
	for note, want := range map[string]Verdict{"": Keep, "stock": Keep, "printer": Amend} {
		d := Op{Pause: &Pause{Key: row.Key}, Note: note}.Decide(row, tableNow)
		if d.Verdict != want || want == Amend && d.Alarm.LastError != "paused: printer" {
			t.Errorf("%q: %s, %q", note, d.Verdict, d.Alarm.LastError)
		}
	}
}

func TestJobPausesInTheNameOfItsStarter(t *testing.T) {
	row := tableRow("scheduled")
	d := Op{Pause: &Pause{Key: row.Key, By: "ops"}, Note: "stock"}.Decide(row, tableNow)
	if d.Alarm.LastError != "paused by ops: stock" {
		t.Errorf("%q", d.Alarm.LastError)
	}
}

func TestNoteIsText(t *testing.T) {
	for note, ok := range map[string]bool{"": true, "süß\n": true, "\x00": false, "\xff": false, strings.Repeat("x", MaxNote+1): false} {
		if err := CheckNote(note); (err == nil) != ok {
			t.Errorf("%q: %v", note, err)
		}
	}
}

// unacknowledged returns a repeating alarm whose first ring, at now, waits a minute for its acknowledgement.
func unacknowledged(t *testing.T, now Instant) Alarm {
	t.Helper()
	a := scheduledByRule(t, repeat.Spec{Every: 10_000, Anchor: new(int64(now))}, now-1)
	a.AckTimeout = time.Minute
	ring := ringOfRow(&a, now)
	ring.AckTimeout = a.AckTimeout
	a.RingRow = FateOf(ring, Outcome{Kind: Confirmed}, now).RingRow
	if !a.Unacknowledged() {
		t.Fatalf("%+v", a.RingRow)
	}
	return a
}

// TestRepeatingAlarmIsStoppedWhileItsRingWaits pauses and cancels a repeating alarm whose ring waits for its
// acknowledgement. The ring can be answered while the alarm is paused, and the alarm stays paused.
func TestRepeatingAlarmIsStoppedWhileItsRingWaits(t *testing.T) {
	now := at(t, "2027-03-01T08:00:00Z")
	a := unacknowledged(t, now)
	later := now.Add(35 * time.Second)
	if d := (Op{Cancel: &Cancel{Key: a.Key}}).Decide(&a, later); d.Verdict != Disarm {
		t.Errorf("cancel: %s, %v", d.Verdict, d.Err)
	}
	paused := Op{Pause: &Pause{Key: a.Key}, Note: "printer"}.Decide(&a, later).Alarm
	if paused.State != Paused || paused.NextTryTime != NoInstant {
		t.Fatalf("paused: %+v", paused.RingRow)
	}
	resumed := Op{Resume: &Resume{Key: a.Key}}.Decide(&paused, later).Alarm
	resumed.UpdateTime = a.UpdateTime
	touched := Op{Answer: &Answer{Ring: paused.latestRing(), Key: a.Key, Kind: Touch, Delay: Delay{Given: true, Span: time.Hour}}}.Decide(&paused, later).Alarm
	if d := (Op{Resume: &Resume{Key: a.Key}}).Decide(&touched, later); d.Alarm.NextTryTime != later.Add(time.Hour) {
		t.Errorf("after a touch the ring waits until %v", d.Alarm.NextTryTime)
	}
	if resumed.RingRow != a.RingRow {
		t.Errorf("resumed:\n%+v, want\n%+v", resumed.RingRow, a.RingRow)
	}
	for kind, skipped := range map[AnswerKind]int64{Ack: 3, Bury: 3, Release: 0, Touch: 0} {
		d := Op{Answer: &Answer{Ring: paused.latestRing(), Key: a.Key, Kind: kind}}.Decide(&paused, later)
		if d.Verdict != Amend || d.Alarm.State != Paused || d.Alarm.NextTryTime != NoInstant || d.Alarm.LastError != "paused: printer" ||
			d.Counted.Skipped != skipped {
			t.Errorf("%s: %s, %v, %+v", kind, d.Verdict, d.Err, d.Alarm.RingRow)
		}
		again := Op{Answer: &Answer{Ring: paused.latestRing(), Key: a.Key, Kind: Ack}}.Decide(&d.Alarm, later)
		if waits := again.Verdict == Amend; waits != (kind == Touch) {
			t.Errorf("an ack after the %s: %s", kind, again.Verdict)
		}
	}
}
