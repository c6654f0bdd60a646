package clock

import (
	"errors"
	"testing"
	"time"

	"github.com/clockd/clockd/clock/repeat"
)

// movedZone is the time zone of the tests of recomputations. No other test of this package uses it.
const movedZone = "Pacific/Kanton"

// useOffset makes the time zone's clock run that many hours ahead of UTC, as in other time-zone data.
func useOffset(hours int) (restore func()) {
	source := map[int]string{0: "Etc/GMT", 1: "Etc/GMT-1", 2: "Etc/GMT-2"}[hours]
	return repeat.ReplaceData(repeat.Data().With("2099a", map[string]string{movedZone: source}))
}

func at(t *testing.T, text string) Instant {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return Instant(when.UnixMilli())
}

// scheduledByRule returns an alarm that was set at an instant.
func scheduledByRule(t *testing.T, spec repeat.Spec, now Instant) Alarm {
	t.Helper()
	s := testSet("4711")
	s.RingAt, s.Repeat = NoInstant, mustRule(t, spec)
	return Op{Set: s}.Decide(nil, now).Alarm
}

func scheduledAtLocalTime(t *testing.T, text string, now Instant) Alarm {
	t.Helper()
	s := testSet("4711")
	if err := s.SetLocalTime(text, movedZone, "ring_at"); err != nil {
		t.Fatal(err)
	}
	return Op{Set: s}.Decide(nil, now).Alarm
}

// reread returns the alarm as a process with the present time-zone data reads it.
func reread(t *testing.T, a Alarm) Alarm {
	t.Helper()
	schedule, err := repeat.Decode(a.Schedule())
	if err != nil {
		t.Fatal(err)
	}
	a.Repeat, a.Local = schedule.Rule, schedule.Local
	return a
}

// recomputed returns the decision of a recomputation by other data, and demands that a second one changes nothing.
func recomputed(t *testing.T, a Alarm, hours int, now Instant) Decision {
	t.Helper()
	defer useOffset(hours)()
	a = reread(t, a)
	op := Op{Recompute: &Recompute{Key: a.Key}}
	d := op.Decide(&a, now)
	if d.Verdict == Amend {
		if again := op.Decide(&d.Alarm, now+1); again.Verdict != Keep {
			t.Errorf("a second recomputation is %s: %+v became %+v", again.Verdict, d.Alarm.RingRow,
				again.Alarm.RingRow)
		}
		if d.Alarm.Generation != a.Generation || d.Alarm.State != a.State || d.Alarm.UpdateTime != now ||
			d.Alarm.RingNo != a.RingNo {
			t.Errorf("the recomputation changed more than times: %+v", d.Alarm)
		}
	}
	return d
}

func TestRecomputationMovesLocalTimes(t *testing.T) {
	defer useOffset(1)()
	now, old := at(t, "2027-03-01T00:00:00Z"), at(t, "2027-06-01T11:00:00Z")
	waiting := scheduledAtLocalTime(t, "2027-06-01T12:00:00", now)
	paused, retried, kicked, rung, doubtful := waiting, waiting, waiting, waiting, waiting
	paused.State, paused.NextTryTime = Paused, NoInstant
	retried.RetryTimes, retried.NextTryTime = 1, old+500
	kicked.NextTryTime = now
	rung.State, rung.NextTryTime = Rung, NoInstant
	doubtful.InDoubt = true
	earlier, later := at(t, "2027-06-01T10:00:00Z"), at(t, "2027-06-01T12:00:00Z")
	for _, c := range []struct {
		name            string
		alarm           Alarm
		hours           int
		now             Instant
		ringAt, nextTry Instant // ringAt 0: the alarm is kept
	}{
		{"earlier", waiting, 2, now, earlier, earlier},
		{"later", waiting, 0, now, later, later},
		{"the new time has passed", waiting, 2, old - 60_000, earlier, old - 60_000},
		{"the old time has come, the new one has not", waiting, 0, old + 10_000, later, later},
		{"paused", paused, 2, now, earlier, NoInstant},
		{"same rules", waiting, 1, now, 0, 0},
		{"retried", retried, 2, now, 0, 0},
		{"kicked", kicked, 2, now, 0, 0},
		{"in doubt", doubtful, 2, now, 0, 0},
		{"over", rung, 2, now, 0, 0},
	} {
		d := recomputed(t, c.alarm, c.hours, c.now)
		switch {
		case c.ringAt == 0 && d.Verdict != Keep:
			t.Errorf("%s: the recomputation is %s (%v)", c.name, d.Verdict, d.Err)
		case c.ringAt != 0 && (d.Alarm.RingAt != c.ringAt || d.Alarm.NextTryTime != c.nextTry || d.RingAtBefore != old):
			t.Errorf("%s: ring_at %s, next try %s, before %s: %v", c.name, d.Alarm.RingAt, d.Alarm.NextTryTime,
				d.RingAtBefore, d.Err)
		}
	}
}

func TestRecomputationMovesOccurrences(t *testing.T) {
	defer useOffset(1)()
	const daily, interval = "30 2 * * *", "0 */6 * * *"
	day := func(clock string) Instant { return at(t, "2027-06-01T"+clock+"Z") }
	rule := func(cron string) repeat.Spec { return repeat.Spec{Cron: cron, TimeZone: movedZone} }
	until := rule(daily)
	until.Until = int64(day("02:00:00"))
	retried := scheduledByRule(t, rule(daily), day("00:00:00"))
	retried.RetryTimes, retried.NextTryTime = 1, day("01:31:00")
	unacknowledged := scheduledByRule(t, rule(daily), day("00:00:00"))
	unacknowledged.State, unacknowledged.RungAt, unacknowledged.RingNo, unacknowledged.NextTryTime = Ringing, day("01:30:00"), 1, day("01:35:00")
	rungByNewer := scheduledByRule(t, rule(daily), day("00:00:00")) // it rang at its new time, on a node that has moved it on by older data
	rungByNewer.RungAt, rungByNewer.RingNo, rungByNewer.Progress.RingsBefore = day("00:30:00"), 1, 1
	rungByNewer.Progress.PreviousAt = int64(day("00:30:00"))
	triggeredBefore := triggered(t, scheduledByRule(t, rule(daily), day("00:00:00")), day("00:40:00")).Alarm
	triggeredBefore.RingRow = FateOf(ringOfRow(&triggeredBefore, day("00:41:00")), Outcome{Kind: Confirmed}, day("00:41:00")).RingRow
	for _, c := range []struct {
		name             string
		alarm            Alarm
		hours            int
		now              Instant
		current, nextTry Instant
		next             Instant
	}{
		{"earlier", scheduledByRule(t, rule(daily), day("00:00:00")), 2, day("00:10:00"), day("00:30:00"),
			day("00:30:00"), at(t, "2027-06-02T00:30:00Z")},
		{"later", scheduledByRule(t, rule(daily), day("00:00:00")), 0, day("00:10:00"), day("02:30:00"),
			day("02:30:00"), at(t, "2027-06-02T02:30:00Z")},
		{
			"the new time has passed: the occurrence rings late, and is not lost",
			scheduledByRule(t, rule(daily), day("00:00:00")), 2,
			day("01:00:00"), day("00:30:00"), day("01:00:00"), at(t, "2027-06-02T00:30:00Z"),
		},
		{
			"the label has rung today: it does not ring again at its new time",
			scheduledByRule(t, rule(daily), day("01:30:00")), 0,
			day("01:45:00"), at(t, "2027-06-02T02:30:00Z"), at(t, "2027-06-02T02:30:00Z"),
			at(t, "2027-06-03T02:30:00Z"),
		},
		{
			"interval", scheduledByRule(t, rule(interval), day("00:00:00")), 2, day("00:10:00"), day("04:00:00"),
			day("04:00:00"), day("10:00:00"),
		},
		{"retried", retried, 2, day("01:30:30"), day("01:30:00"), day("01:31:00"), at(t, "2027-06-02T00:30:00Z")},
		{"retried, and the label comes again", retried, 0, day("01:30:30"), day("01:30:00"), day("01:31:00"),
			at(t, "2027-06-02T02:30:00Z")},
		{"not acknowledged", unacknowledged, 2, day("01:31:00"), day("01:30:00"), day("01:35:00"),
			at(t, "2027-06-02T00:30:00Z")},
		{"no label comes again", rungByNewer, 2, day("00:31:00"), at(t, "2027-06-02T00:30:00Z"),
			at(t, "2027-06-02T00:30:00Z"), at(t, "2027-06-03T00:30:00Z")},
		{"rung by a trigger after the new time", triggeredBefore, 2, day("00:50:00"), day("00:30:00"), day("00:50:00"),
			at(t, "2027-06-02T00:30:00Z")},
		{"behind until", scheduledByRule(t, until, day("00:00:00")), 0, day("00:10:00"), day("01:30:00"),
			day("01:30:00"), 0},
	} {
		d := recomputed(t, c.alarm, c.hours, c.now)
		p := &d.Alarm.Progress
		if d.Err != nil || p.Current.At != int64(c.current) || d.Alarm.NextTryTime != c.nextTry ||
			p.Next.At != int64(c.next) || p.Current.Number != 1 {
			t.Errorf("%s: the recomputation is %s: occurrence %d at %s, next at %s, due at %s (%v)",
				c.name, d.Verdict, p.Current.Number, Instant(p.Current.At), Instant(p.Next.At), d.Alarm.NextTryTime,
				d.Err)
		}
	}
}

func TestRecomputationLeavesOtherAlarms(t *testing.T) {
	defer useOffset(1)()
	now := at(t, "2027-06-01T00:00:00Z")
	daily := repeat.Spec{Cron: "30 2 * * *", TimeZone: movedZone}
	for name, a := range map[string]Alarm{
		"period": scheduledByRule(t, repeat.Spec{Every: 3_600_000}, now),
		"UTC":    scheduledByRule(t, repeat.Spec{Cron: daily.Cron}, now),
		"plain": {ID: 7, Key: Key{"shop", "4711"}, Generation: 1,
			RingRow: RingRow{State: Scheduled, NextTryTime: now}},
	} {
		if d := recomputed(t, a, 2, now); d.Verdict != Keep {
			t.Errorf("%s: the recomputation is %s (%v)", name, d.Verdict, d.Err)
		}
	}
	claimed, doubtful := scheduledByRule(t, daily, now), scheduledByRule(t, daily, now)
	claimed.State, claimed.RungAt = Ringing, NoInstant
	doubtful.InDoubt = true
	if d := recomputed(t, claimed, 2, now); d.Verdict != Locked {
		t.Errorf("in flight: the recomputation is %s", d.Verdict)
	}
	if d := recomputed(t, doubtful, 2, now); !errors.Is(d.Err, ErrConflict) {
		t.Errorf("in doubt: the recomputation is %s: %v", d.Verdict, d.Err)
	}
	if d := (Op{Recompute: &Recompute{Key: Key{"shop", "4711"}}}).Decide(nil, now); !errors.Is(d.Err, ErrNotFound) {
		t.Errorf("no alarm: the recomputation is %s: %v", d.Verdict, d.Err)
	}
}
