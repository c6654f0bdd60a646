package clock

import (
	"testing"
	"time"

	"github.com/clockd/clockd/clock/repeat"
)

// triggered returns the alarm after a trigger, which must not be refused.
func triggered(t *testing.T, a Alarm, now Instant) Decision {
	t.Helper()
	d := Op{Trigger: &Trigger{Key: a.Key}}.Decide(&a, now)
	if d.Err != nil {
		t.Fatal(d.Err)
	}
	return d
}

// ringOfRow returns the ring of a claim at now.
func ringOfRow(a *Alarm, now Instant) *Ring {
	return &Ring{AlarmID: a.ID, Key: a.Key, Generation: a.Generation, RingNo: a.RingNo + 1, LatestRingAt: NoInstant,
		RungAt: now, Retry: a.Retry, MaxRings: a.MaxRings, Repetition: a.Repetition(), Before: a.RingRow}
}

func TestTriggeredRingLeavesThePlanAlone(t *testing.T) {
	now := at(t, "2027-03-01T08:00:00Z")
	a := scheduledByRule(t, repeat.Spec{Cron: "0 12 * * *", TimeZone: "Europe/Berlin", LatestAfter: 1000}, now)
	a.Progress.Label-- // other time-zone data may have computed it
	a.Progress.Next.At--
	plan := a.Progress

	a = triggered(t, a, now+5000).Alarm
	if a.NextTryTime != now+5000 || a.Latest() != NoInstant || a.Generation != 1 || a.NextRingAt() != Instant(plan.Current.At) {
		t.Fatalf("triggered: %+v", a)
	}
	ring := ringOfRow(&a, now+9000)
	if ring.Occurrence().Number != 0 || ring.Repetition.DueAt(&ring.Before.Progress) != now+5000 || !ring.FirstTry() {
		t.Errorf("the ring is of %+v, due at %v", ring.Occurrence(), ring.Repetition.DueAt(&ring.Before.Progress))
	}
	fate := FateOf(ring, Outcome{Kind: Confirmed}, now+9001)
	plan.RingsBefore = 1
	if fate.Progress != plan || fate.State != Scheduled || fate.NextTryTime != Instant(plan.Current.At) || fate.RingNo != 1 {
		t.Errorf("after the ring: %+v, want the progress %+v", fate.RingRow, plan)
	}
}

// TestTriggeredRingComesBeforeADueOccurrence triggers alarms that are due and held. They ring although their times to
// ring have passed.
func TestTriggeredRingComesBeforeADueOccurrence(t *testing.T) {
	now := at(t, "2027-03-01T08:00:00Z")
	a := scheduledByRule(t, repeat.Spec{Every: 60_000, Missed: repeat.MissedSkip, LatestAfter: 5000}, now)
	later := a.NextTryTime + 30_000
	d := triggered(t, a, later)
	if d.Verdict != Amend || d.Alarm.Progress.TriggeredAt != int64(later) || d.Alarm.Latest() != NoInstant {
		t.Fatalf("%s, %+v", d.Verdict, d.Alarm.RingRow)
	}
	if again := triggered(t, d.Alarm, later+1); again.Verdict != Keep {
		t.Errorf("a second trigger: %s", again.Verdict)
	}
	if chosen, rings := a.Repetition().ChooseOccurrence(d.Alarm.RingRow, later+20_000); !rings || chosen.Progress.TriggeredAt == 0 {
		t.Errorf("chosen: %+v", chosen)
	}

	once := scheduledAtLocalTime(t, "2027-06-01T12:00:00", now)
	once.LatestRingAt = once.RingAt + 1000
	late := once.RingAt + 2000
	d = triggered(t, once, late)
	if d.Verdict != Replace || d.Alarm.LatestRingAt != NoInstant || d.Alarm.NextTryTime != late || d.Alarm.Generation != 2 {
		t.Errorf("once: %s, %+v", d.Verdict, d.Alarm)
	}
}

func TestTriggerTriesAFailedOccurrenceNow(t *testing.T) {
	now := at(t, "2027-03-01T08:00:00Z")
	a := scheduledByRule(t, repeat.Spec{Every: 60_000}, now)
	a.RingRow = FateOf(ringOfRow(&a, a.NextTryTime), Outcome{Kind: Nacked, RetryAfter: time.Hour}, a.NextTryTime).RingRow
	if d := triggered(t, a, now+70_000); d.Verdict != Amend || d.Alarm.NextTryTime != now+70_000 || d.Alarm.Progress != a.Progress ||
		d.Alarm.RetryTimes != 1 {
		t.Errorf("%s, %+v", d.Verdict, d.Alarm.RingRow)
	}
}

func TestTriggerDropsThePlanOfAnAlarmThatRingsOnce(t *testing.T) {
	now := at(t, "2027-03-01T00:00:00Z")
	waiting := scheduledAtLocalTime(t, "2027-06-01T12:00:00", now)
	waiting.LatestRingAt = waiting.RingAt + 1000
	if a := triggered(t, waiting, now+1).Alarm; a.Local != nil || a.RingAt != now+1 || a.NextTryTime != now+1 ||
		a.LatestRingAt != waiting.LatestRingAt || a.Generation != 2 {
		t.Errorf("waiting: %+v", a)
	}
	late := waiting.RingAt + 2000
	waiting.finish(Expired, late)
	if d := triggered(t, waiting, late); d.Verdict != Rearm || d.Alarm.LatestRingAt != NoInstant || d.Alarm.State != Scheduled {
		t.Errorf("expired: %s, %+v", d.Verdict, d.Alarm)
	}
}

func TestRecomputationMovesThePlanOfATriggeredAlarm(t *testing.T) {
	defer useOffset(1)()
	now := at(t, "2027-03-01T00:00:00Z")
	a := scheduledByRule(t, repeat.Spec{Cron: "0 12 * * *", TimeZone: movedZone}, now)
	a = triggered(t, a, now).Alarm
	a.RingRow = FateOf(ringOfRow(&a, now), Outcome{Kind: Nacked}, now+10).RingRow
	d := recomputed(t, a, 2, now+20)
	if d.Verdict != Amend || d.Alarm.NextRingAt() != a.NextRingAt().Add(-time.Hour) || d.Alarm.NextTryTime != a.NextTryTime {
		t.Errorf("%s: rings at %v, is tried at %v", d.Verdict, d.Alarm.NextRingAt(), d.Alarm.NextTryTime)
	}
}

func TestRepeatingAlarmThatIsOverIsNotTriggered(t *testing.T) {
	now := at(t, "2027-03-01T00:00:00Z")
	a := scheduledByRule(t, repeat.Spec{Every: 60_000, Times: 1}, now)
	a.finish(Rung, now)
	if d := (Op{Trigger: &Trigger{Key: a.Key}}).Decide(&a, now+1); d.Verdict != Refuse {
		t.Errorf("%s, %+v", d.Verdict, d.Alarm)
	}
}
