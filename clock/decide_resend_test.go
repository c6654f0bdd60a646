package clock

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// resendTable has the verdict on a resend, by row, and by whether the alarm has an ack_timeout. M sent again, K due
// already, W wait, s 409 stale_ring, u 404 unknown_ring. The claim id of the resend is the row's.
var resendTable = []struct{ row, latest, next, latestAck, nextAck string }{
	{"none", "u", "u", "u", "u"},
	{"scheduled", "s", "s", "s", "s"},
	{"scheduled in doubt", "s", "M", "s", "M"},
	{"paused", "s", "s", "s", "s"},
	{"paused in doubt", "s", "s", "s", "s"},
	{"claimed", "s", "W", "s", "W"},
	{"claimed in doubt", "s", "W", "s", "W"},
	{"ringing", "s", "s", "M", "s"},
	{"rung", "M", "s", "s", "s"},
	{"rung in doubt", "M", "s", "s", "s"},
	{"expired", "s", "s", "s", "s"},
	{"expired in doubt", "s", "s", "s", "s"},
	{"dead", "s", "s", "s", "s"},
	{"cancelled", "s", "s", "s", "s"},
}

// resendOf returns a resend of the ring of tableRow with the number.
func resendOf(ringNo int) *Resend {
	return &Resend{Key: Key{"shop", "4711"}, Ring: RingID{7, tableGeneration, ringNo}, ClaimID: "c",
		Target: TargetStream}
}

// resendRow is tableRow with two rings.
func resendRow(name string, ackTimeout time.Duration) *Alarm {
	a := tableRow(name)
	if a != nil {
		a.AckTimeout, a.RingNo = ackTimeout, 2
	}
	return a
}

func TestResendsAreJudgedAsInTheTable(t *testing.T) {
	for _, c := range resendTable {
		for ackTimeout, wants := range map[time.Duration][]string{0: {c.latest, c.next}, time.Minute: {c.latestAck, c.nextAck}} {
			for i, want := range wants {
				t.Run(fmt.Sprintf("%s/%s/%d", c.row, ackTimeout, 2+i), func(t *testing.T) {
					row := resendRow(c.row, ackTimeout)
					d := Op{Resend: resendOf(2 + i)}.Decide(row, tableNow)
					if got := verdictLetter(t, d); got != want {
						t.Fatalf("%s (%v), want %s", got, d.Err, want)
					}
					checkUnharmed(t, row, resendRow(c.row, ackTimeout))
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

// Each case changes a rung alarm, or the resend of its ring, so that the ring is not sent again.
func TestResendLeavesOtherRings(t *testing.T) {
	for name, change := range map[string]func(a *Alarm, r *Resend){
		"delivered again since":    func(_ *Alarm, r *Resend) { r.ClaimID = "earlier" },
		"of an earlier generation": func(_ *Alarm, r *Resend) { r.Ring.Generation-- },
		"of a later generation":    func(_ *Alarm, r *Resend) { r.Ring.Generation++ },
		"rung again":               func(_ *Alarm, r *Resend) { r.Ring.RingNo = 1 },
		"of another alarm":         func(_ *Alarm, r *Resend) { r.Ring.AlarmID++ },
		"of another application":   func(_ *Alarm, r *Resend) { r.Key.Application = "other" },
		"rings at most once":       func(a *Alarm, _ *Resend) { a.Delivery, a.InDoubt = AtMostOnce, true },
		"would be late":            func(a *Alarm, _ *Resend) { a.LatestRingAt = tableNow - 1 },
		"touched": func(a *Alarm, _ *Resend) {
			*a = *resendRow("ringing", time.Minute)
			a.Answer, a.AnsweredAt = Touch, a.RungAt
		},
		"at most once, in doubt": func(a *Alarm, r *Resend) {
			*a = *resendRow("scheduled in doubt", 0)
			a.Delivery = AtMostOnce
			r.Ring.RingNo = 3
		},
		"acknowledged":               func(a *Alarm, _ *Resend) { a.AckTimeout, a.Answer, a.AnsweredAt = time.Minute, Ack, a.RungAt+1 },
		"cancelled after the resend": func(a *Alarm, _ *Resend) { *a = *resendRow("cancelled", 0) },
	} {
		row, r := resendRow("rung", 0), resendOf(2)
		change(row, r)
		if d := (Op{Resend: r}).Decide(row, tableNow); d.Writes() || d.Err == nil {
			t.Errorf("%s: %s", name, d.Verdict)
		}
	}
}

func TestResendTakesTheConfirmationBack(t *testing.T) {
	const reason = "the subscriber resumed its stream without the ring"
	for _, name := range []string{"rung", "ringing"} {
		row := resendRow(name, map[string]time.Duration{"ringing": time.Minute}[name])
		row.LatestRingAt, row.Answer, row.AnsweredAt = tableNow, Release, row.RungAt-1 // an answer to the ring before
		want := *row
		want.State, want.NextTryTime, want.RingNo, want.InDoubt, want.DoubtTarget = Scheduled, tableNow, 1, true, TargetStream
		want.RungAt, want.FinishedAt, want.UpdateTime, want.LastError = NoInstant, NoInstant, tableNow, reason
		d := Op{Resend: resendOf(2)}.Decide(row, tableNow)
		if d.Verdict != Amend || !reflect.DeepEqual(d.Alarm, want) {
			t.Errorf("%s: %s\n%+v, want\n%+v", name, d.Verdict, d.Alarm, want)
		}
		if a := (Attempt{Generation: tableGeneration, RingNo: 2, ClaimID: "c", Time: tableNow, Outcome: Doubtful, Error: reason}); d.Attempt == nil || *d.Attempt != a {
			t.Errorf("%s: attempt %+v, want %+v", name, d.Attempt, a)
		}
		again := Op{Resend: resendOf(2)}.Decide(&d.Alarm, tableNow+1)
		if again.Verdict != Keep {
			t.Errorf("%s: the second resend is %s", name, again.Verdict)
		}
		for _, op := range []Op{{Cancel: &Cancel{Key: row.Key}}, {Set: tableSet("payload")}} {
			if got := verdictLetter(t, op.Decide(&d.Alarm, tableNow)); got != "D" {
				t.Errorf("%s: the verdict on a %s is %s", name, op.Name(), got)
			}
		}
	}
}

func TestResendMakesARingInDoubtDue(t *testing.T) {
	row := resendRow("scheduled in doubt", 0)
	want := *row
	want.NextTryTime, want.UpdateTime = tableNow, tableNow
	if d := (Op{Resend: resendOf(3)}).Decide(row, tableNow); !reflect.DeepEqual(d.Alarm, want) || d.Attempt != nil {
		t.Errorf("%+v, want %+v", d.Alarm, want)
	}
}

// An answer to a ring that is sent again proves that the ring has arrived, and a resend does not use up a ring.
func TestRingThatIsSentAgainCanBeAnswered(t *testing.T) {
	row := resendRow("ringing", time.Minute)
	d := Op{Resend: resendOf(2)}.Decide(row, tableNow)
	answered := Op{Answer: &Answer{Key: row.Key, Ring: RingID{7, tableGeneration, 2}, Kind: Ack}}.Decide(&d.Alarm,
		tableNow+1)
	if answered.Alarm.State != Rung || answered.Alarm.RingNo != 2 || answered.Alarm.InDoubt {
		t.Errorf("%s: %+v", answered.Verdict, answered.Alarm)
	}
}

func TestResendsFindTheirAlarms(t *testing.T) {
	withService(t, nil, func(t *testing.T, s *testService) {
		a, b := s.ringing(t, "a"), s.ringing(t, "b")
		pending := s.Resend(t.Context(), []Resend{
			{Key: Key{Application: "shop"}, Ring: a, Target: TargetStream},
			{Key: Key{Application: "other"}, Ring: b},
			{Key: Key{Application: "shop"}, Ring: RingID{99, 1, 1}},
		})
		if d := must(t, pending[0]); d.Verdict != Amend || d.Alarm.BusinessID != "a" || !d.Alarm.InDoubt ||
			d.Alarm.Payload != nil {
			t.Errorf("got %+v", d)
		}
		for _, p := range pending[1:] {
			if code := codeOf(t, p); code != CodeUnknownRing {
				t.Errorf("got %s", code)
			}
		}
		s.store.failKeys = Unavailable(errors.New("gone"))
		if code := codeOf(t, s.Resend(t.Context(), []Resend{{Key: Key{Application: "shop"}, Ring: a}})[0]); code != CodeUnavailable {
			t.Errorf("got %s", code)
		}
	})
}

func TestResendOfARingInFlightMayBeRepeated(t *testing.T) {
	err := Op{Resend: resendOf(3)}.LockTimeoutError(resendRow("claimed", 0))
	if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "repeat") {
		t.Error(err)
	}
}
