package clock

import (
	"errors"
	"testing"
	"time"

	"github.com/clockd/clockd/clock/repeat"
)

func TestShiftMovesAnAlarmThatWaits(t *testing.T) {
	const now = Instant(1_000_000)
	row := func(change func(*Alarm)) *Alarm {
		a := armed(nil, testSet("a"), now)
		a.RingAt, a.LatestRingAt, a.NextTryTime, a.RetryTimes, a.LastError = now+5000, now+9000, now+7000, 2, "nacked"
		change(&a)
		return &a
	}
	shift := func(by time.Duration) *Shift { return &Shift{Key: Key{"shop", "a"}, By: by, UnchangedSince: now} }
	later := decideShift(row(func(*Alarm) {}), shift(time.Minute), now+10)
	if a := later.Alarm; later.Verdict != Replace || a.Generation != 2 || a.RingAt != now+65_000 ||
		a.NextTryTime != now+65_000 || a.LatestRingAt != now+69_000 || a.RetryTimes != 0 || a.UpdateTime != now+10 {
		t.Errorf("later: %s, %+v", later.Verdict, a)
	}
	past := decideShift(row(func(a *Alarm) { a.LatestRingAt = NoInstant }), shift(-time.Minute), now+10)
	if a := past.Alarm; past.Verdict != Replace || a.RingAt != now-55_000 || a.NextTryTime != now+10 ||
		a.LatestRingAt != NoInstant {
		t.Errorf("into the past: %s, %+v", past.Verdict, a)
	}
	paused := decideShift(row(func(a *Alarm) { a.State, a.NextTryTime = Paused, NoInstant }), shift(time.Minute),
		now+10)
	if a := paused.Alarm; paused.Verdict != Replace || a.State != Paused || a.NextTryTime != NoInstant ||
		a.RingAt != now+65_000 {
		t.Errorf("paused: %s, %+v", paused.Verdict, a)
	}
	for name, c := range map[string]struct {
		row  *Alarm
		by   time.Duration
		code string
	}{
		"unknown":          {nil, time.Minute, CodeUnknownAlarm},
		"changed since":    {row(func(a *Alarm) { a.UpdateTime = now + 1 }), time.Minute, CodeConditionFailed},
		"rung":             {row(func(a *Alarm) { a.State = Rung }), time.Minute, CodeAlreadyRung},
		"cancelled":        {row(func(a *Alarm) { a.State = Cancelled }), time.Minute, CodeAlreadyCancelled},
		"repeats":          {row(func(a *Alarm) { a.Repeat = &repeat.Rule{} }), time.Minute, CodeRepeats},
		"in doubt":         {row(func(a *Alarm) { a.InDoubt = true }), time.Minute, CodeRingInDoubt},
		"unacknowledged":   {row(func(a *Alarm) { a.State, a.RungAt = Ringing, now }), time.Minute, CodeAlreadyRung},
		"past latest time": {row(func(*Alarm) {}), -time.Minute, CodeOutOfRange},
	} {
		d := decideShift(c.row, shift(c.by), now+10)
		if e, is := errors.AsType[*Error](d.Err); d.Verdict != Refuse || !is || e.Code != c.code {
			t.Errorf("%s: %s, %v", name, d.Verdict, d.Err)
		}
	}
	if d := decideShift(row(func(a *Alarm) { a.State, a.RungAt = Ringing, NoInstant }), shift(time.Minute), now+10); d.Verdict != Locked {
		t.Errorf("claimed: %s, %v", d.Verdict, d.Err)
	}
}
