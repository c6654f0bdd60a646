package clock

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// answerRow is tableRow with an ack_timeout and two rings.
func answerRow(name string) *Alarm {
	a := tableRow(name)
	if a != nil {
		a.AckTimeout, a.RingNo = time.Minute, 2
	}
	return a
}

// answerRings are the columns of answerTable.
var answerRings = []RingID{
	{7, tableGeneration - 1, 3}, {7, tableGeneration, 1}, {7, tableGeneration, 2}, {7, tableGeneration, 3},
	{7, tableGeneration, 4}, {7, tableGeneration + 1, 1},
}

// answerTable has the verdict on an answer of any kind. M accepted, W wait, s 409 stale_ring, u 404 unknown_ring.
var answerTable = []struct{ row, want string }{
	//                    older: gen ring latest next beyond gen+1
	{"none" /*               */, "u    u   u      u    u     u"},
	{"scheduled" /*          */, "s    s   s      u    u     u"},
	{"scheduled in doubt" /* */, "s    s   s      M    u     u"},
	{"paused" /*             */, "s    s   s      u    u     u"},
	{"paused in doubt" /*    */, "s    s   s      s    u     u"},
	{"claimed" /*            */, "s    s   s      W    u     u"},
	{"claimed in doubt" /*   */, "s    s   s      W    u     u"},
	{"ringing" /*            */, "s    s   M      u    u     u"},
	{"rung" /*               */, "s    s   s      u    u     u"},
	{"rung in doubt" /*      */, "s    s   s      s    u     u"},
	{"expired" /*            */, "s    s   s      u    u     u"},
	{"expired in doubt" /*   */, "s    s   s      s    u     u"},
	{"dead" /*               */, "s    s   s      u    u     u"},
	{"dead in doubt" /*      */, "s    s   s      s    u     u"},
	{"cancelled" /*          */, "s    s   s      u    u     u"},
}

func TestAnswersAreJudgedAsInTheTable(t *testing.T) {
	for _, c := range answerTable {
		wants := strings.Fields(c.want)
		if len(wants) != len(answerRings) {
			t.Fatalf("%s has %d columns", c.row, len(wants))
		}
		for i, want := range wants {
			for kind := Ack; kind <= Touch; kind++ {
				t.Run(fmt.Sprintf("%s/%s/%s", c.row, answerRings[i], kind), func(t *testing.T) {
					row := answerRow(c.row)
					d := Op{Answer: &Answer{Key: Key{"shop", "4711"}, Ring: answerRings[i], Kind: kind}}.Decide(row,
						tableNow)
					if got := verdictLetter(t, d); got != want {
						t.Fatalf("%s (%v), want %s", got, d.Err, want)
					}
					checkUnharmed(t, row, answerRow(c.row))
					if want == "u" {
						checkHidden(t, d)
					} else if !d.Writes() {
						checkStands(t, d, row)
					}
				})
			}
		}
	}
}

// checkHidden checks that the refusal does not show the alarm, because it may belong to another application.
func checkHidden(t *testing.T, d Decision) {
	t.Helper()
	var e *Error
	if errors.As(d.Err, &e) && e.Alarm != nil {
		t.Errorf("the refusal carries %+v", e.Alarm)
	}
}

func TestAnswersToForeignRingsAreUnknown(t *testing.T) {
	for _, a := range []Answer{
		{Key: Key{"other", "4711"}, Ring: RingID{7, tableGeneration, 2}, Kind: Ack},
		{Key: Key{"shop", "4711"}, Ring: RingID{8, tableGeneration, 2}, Kind: Ack},
	} {
		d := Op{Answer: &a}.Decide(answerRow("ringing"), tableNow)
		if got := verdictLetter(t, d); got != "u" {
			t.Errorf("%+v: %s", a, got)
		}
		checkHidden(t, d)
	}
}

// An answer does not prove a ring in doubt that wants no acknowledgement.
func TestAnswerToARingInDoubtNeedsAnAckTimeout(t *testing.T) {
	row := answerRow("scheduled in doubt")
	row.AckTimeout = 0
	a := &Answer{Key: row.Key, Ring: RingID{7, tableGeneration, 3}, Kind: Ack}
	if got := verdictLetter(t, Op{Answer: a}.Decide(row, tableNow)); got != "s" {
		t.Errorf("got %s", got)
	}
}

func TestAcceptedAnswersChangeTheRow(t *testing.T) {
	hour := Delay{Given: true, Span: time.Hour}
	long := strings.Repeat("ø", 300)
	for name, c := range map[string]struct {
		answer  Answer
		latest  Instant
		want    func(a *Alarm)
		outcome OutcomeKind
	}{
		"ack": {answer: Answer{Kind: Ack, Reason: "not looked at", Delay: hour}, want: func(a *Alarm) {
			a.State, a.NextTryTime, a.FinishedAt = Rung, NoInstant, tableNow
		}},
		"release": {answer: Answer{Kind: Release}, outcome: Released, want: func(a *Alarm) {
			a.State, a.NextTryTime = Scheduled, tableNow
		}},
		"release later": {answer: Answer{Kind: Release, Delay: hour, Reason: "no stock"}, outcome: Released, want: func(a *Alarm) {
			a.State, a.NextTryTime, a.LastError = Scheduled, tableNow+3_600_000, "released: no stock"
		}},
		"release past the latest": {answer: Answer{Kind: Release, Delay: hour}, latest: tableNow + 5, outcome: Released, want: func(a *Alarm) {
			a.State, a.NextTryTime = Scheduled, tableNow+5
		}},
		"release after the latest": {answer: Answer{Kind: Release}, latest: tableNow - 5, outcome: Released, want: func(a *Alarm) {
			a.State, a.NextTryTime = Scheduled, tableNow
		}},
		"bury": {answer: Answer{Kind: Bury, Delay: hour}, outcome: Buried, want: func(a *Alarm) {
			a.State, a.NextTryTime, a.FinishedAt, a.LastError = Dead, NoInstant, tableNow, "buried"
		}},
		"bury with a reason": {answer: Answer{Kind: Bury, Reason: long}, outcome: Buried, want: func(a *Alarm) {
			a.State, a.NextTryTime, a.FinishedAt, a.LastError = Dead, NoInstant, tableNow, "buried: "+long[:MaxReason-8]
		}},
		"touch": {answer: Answer{Kind: Touch, Reason: "not looked at"}, want: func(a *Alarm) {
			a.State, a.NextTryTime = Ringing, tableNow+60_000
		}},
		"touch for an hour": {answer: Answer{Kind: Touch, Delay: hour}, latest: tableNow + 5, want: func(a *Alarm) {
			a.State, a.NextTryTime = Ringing, tableNow+3_600_000
		}},
	} {
		for _, from := range []string{"ringing", "scheduled in doubt"} {
			t.Run(name+"/"+from, func(t *testing.T) {
				row := answerRow(from)
				row.LatestRingAt = NoInstant
				if c.latest != 0 {
					row.LatestRingAt = c.latest
				}
				a, want := c.answer, *row
				a.Key, a.Ring, a.By = row.Key, RingID{7, tableGeneration, 2}, strings.Repeat("ä", 70)
				if row.InDoubt {
					a.Ring.RingNo, want.RingNo, want.InDoubt, want.RungAt = 3, 3, false, tableNow
				}
				want.Answer, want.AnsweredBy, want.AnsweredAt, want.UpdateTime = a.Kind, strings.Repeat("ä", 64), tableNow, tableNow
				c.want(&want)
				d := Op{Answer: &a}.Decide(row, tableNow)
				if d.Verdict != Amend || d.Err != nil || !reflect.DeepEqual(d.Alarm, want) {
					t.Errorf("%s to\n%+v, want\n%+v", d.Verdict, d.Alarm, want)
				}
				checkAnswerAttempt(t, d, a, c.outcome)
			})
		}
	}
}

// checkAnswerAttempt checks that a release and a bury leave an attempt, and that an ack and a touch leave none.
func checkAnswerAttempt(t *testing.T, d Decision, a Answer, outcome OutcomeKind) {
	t.Helper()
	if outcome == 0 {
		if d.Attempt != nil {
			t.Errorf("%s leaves %+v", a.Kind, d.Attempt)
		}
		return
	}
	want := &Attempt{
		Generation: tableGeneration, RingNo: a.Ring.RingNo, ClaimID: "c", Time: tableNow, Outcome: outcome,
		Error: bounded(a.Reason), By: d.Alarm.AnsweredBy,
	}
	if !reflect.DeepEqual(d.Attempt, want) {
		t.Errorf("%s leaves %+v, want %+v", a.Kind, d.Attempt, want)
	}
}

func TestStaleRingNamesTheReason(t *testing.T) {
	answered := answerRow("rung")
	answered.Answer, answered.AnsweredAt = Ack, 5000
	for _, c := range []struct {
		row  *Alarm
		ring RingID
		want string
	}{
		{answerRow("ringing"), RingID{7, 2, 2}, "set again: it has generation 3"},
		{answerRow("ringing"), RingID{7, 3, 1}, "ring 2 is the latest"},
		{answerRow("cancelled"), RingID{7, 3, 2}, "the alarm is cancelled"},
		{answered, RingID{7, 3, 2}, "the alarm is rung, the last answer was ack at 1970-01-01T00:00:05.000Z"},
	} {
		d := Op{Answer: &Answer{Key: c.row.Key, Ring: c.ring, Kind: Ack}}.Decide(c.row, tableNow)
		if d.Err == nil || !strings.Contains(d.Err.Error(), c.want) {
			t.Errorf("%s of %s: %v, want %q", c.ring, c.row.State, d.Err, c.want)
		}
	}
}
