package clock

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock/repeat"
)

// backfilled returns the alarm after a backfill, which must not be refused.
func backfilled(t *testing.T, a Alarm, asked Backfill, now Instant) Alarm {
	t.Helper()
	asked.Key = a.Key
	d := Op{Backfill: &asked}.Decide(&a, now)
	if d.Err != nil {
		t.Fatal(d.Err)
	}
	return d.Alarm
}

func TestBackfilledRingsHaveTheTimesOfTheirOccurrences(t *testing.T) {
	now := at(t, "2027-03-30T10:00:00Z")
	a := scheduledByRule(t, repeat.Spec{Cron: "30 2 * * *", TimeZone: "Europe/Berlin", SkipDates: []string{"2027-03-29"}, Times: 1}, now)
	plan := a.Progress
	a = backfilled(t, a, Backfill{From: at(t, "2027-03-27T12:00:00Z"), Until: now, Pace: time.Minute}, now)
	for _, want := range []struct{ previous, at, next string }{
		{"2027-03-27T01:30:00Z", "2027-03-28T01:00:00Z", "2027-03-30T00:30:00Z"}, // the label is in a gap
		{"2027-03-28T01:00:00Z", "2027-03-30T00:30:00Z", "2027-03-31T00:30:00Z"},
	} {
		if a.NextTryTime != now || a.Progress.Backfill.Left == 0 {
			t.Fatalf("due at %v, want %v: %+v", a.NextTryTime, now, a.Progress.Backfill)
		}
		ring := ringOfRow(&a, now)
		previous, next := ring.OccurrencesBeside()
		o := ring.Occurrence()
		if o.Number != 0 || Instant(o.At) != at(t, want.at) || previous != at(t, want.previous) || next != at(t, want.next) ||
			ring.Repetition.DueAt(&ring.Before.Progress) != now {
			t.Errorf("the ring is of %+v, between %v and %v; want %v", o, previous, next, want)
		}
		numbers := map[string]Instant{}
		ring.EachOccurrenceNumber(&OccurrenceNames{"number", "at", "previous", "next"}, func(name string, n int64) { numbers[name] = Instant(n) })
		if len(numbers) != 3 || numbers["at"] != Instant(o.At) || numbers["previous"] != previous || numbers["next"] != next {
			t.Errorf("numbers: %v", numbers)
		}
		a.RingRow = FateOf(ring, Outcome{Kind: Confirmed}, now).RingRow
		now = now.Add(time.Minute)
	}
	plan.RingsBefore, plan.Backfill = 2, BackfillProgress{Rung: 2}
	if a.Progress != plan || a.State != Scheduled || a.NextTryTime != a.NextRingAt() {
		t.Errorf("after the backfill: %+v, want the progress %+v", a.RingRow, plan)
	}
}

func TestBackfillBeginsAtTheAnchor(t *testing.T) {
	now := at(t, "2027-03-01T00:00:00Z")
	anchor := int64(now) - 60_000
	a := scheduledByRule(t, repeat.Spec{Every: 30_000, Anchor: &anchor}, now)
	a = backfilled(t, a, Backfill{From: 0, Until: NoInstant}, now)
	if b := a.Progress.Backfill; b.At != anchor || a.Repeat.Previous(b.At) != 0 || b.Left != 3 {
		t.Errorf("%+v", b)
	}
}

func TestBackfillThatDoesNotFitIsRefused(t *testing.T) {
	now := at(t, "2027-03-01T00:00:30Z")
	repeats := scheduledByRule(t, repeat.Spec{Cron: "* * * * *", Missed: repeat.MissedAll, MissedLimit: 3}, now)
	running := backfilled(t, repeats, Backfill{From: now - 60_000, Until: now + 3_600_000}, now)
	once, over, paused, doubt := scheduledAtLocalTime(t, "2027-06-01T12:00:00", now), repeats, repeats, repeats
	over.finish(Dead, now)
	paused.pause(now)
	doubt.InDoubt = true
	hour := Backfill{From: now - 3_600_000, Until: NoInstant}
	for _, c := range []struct {
		alarm              Alarm
		asked              Backfill
		code, field, about string
	}{
		{repeats, hour, CodeOutOfRange, "limit", "more than 3 occurrences; shorten it, or give a limit of up to 10000"},
		{repeats, Backfill{From: now - 3_600_000, Until: NoInstant, Limit: 59}, CodeOutOfRange, "limit", "more than 59"},
		{repeats, Backfill{From: now - 29_000, Until: now}, CodeOutOfRange, "from", "no occurrence from 2027-03-01T00:00:01.000Z until"},
		{repeats, Backfill{From: now + 1, Until: NoInstant}, CodeOutOfRange, "from", "in the future"},
		{once, hour, CodeRingsOnce, "", "rings once"},
		{over, hour, CodeAlreadyDead, "", "dead"},
		{paused, hour, CodePaused, "", "resume"},
		{doubt, hour, CodeRingInDoubt, "", "may have arrived"},
		{running, hour, CodeBackfillRuns, "", "1 rings left"},
	} {
		c.asked.Key = c.alarm.Key
		d := Op{Backfill: &c.asked}.Decide(&c.alarm, now)
		if refused, ok := errors.AsType[*Error](d.Err); !ok || refused.Code != c.code || refused.Field != c.field ||
			!strings.Contains(refused.Detail, c.about) {
			t.Errorf("%+v of an alarm that is %s: %v", c.asked, c.alarm.State, d.Err)
		}
	}
	if a := backfilled(t, repeats, Backfill{From: now - 3_600_000, Until: NoInstant, Limit: 60}, now); a.Progress.Backfill.Left != 60 {
		t.Errorf("%+v", a.Progress.Backfill)
	}
}

// TestBackfillRingsForEachLabelOnceByOtherData changes the time-zone data in the middle of a backfill.
func TestBackfillRingsForEachLabelOnceByOtherData(t *testing.T) {
	for hours := range 3 {
		restore := useOffset(1)
		now := at(t, "2027-03-10T10:00:00Z")
		a := scheduledByRule(t, repeat.Spec{Cron: "0 12 * * *", TimeZone: movedZone}, now)
		a = backfilled(t, a, Backfill{From: now - 4*24*3_600_000, Until: NoInstant}, now)
		var labels []int64
		for a.Progress.Backfill.Left > 0 {
			labels = append(labels, a.Progress.Backfill.Label)
			ring := ringOfRow(&a, now)
			a.RingRow = FateOf(ring, Outcome{Kind: Confirmed}, now).RingRow
			restore()
			restore = useOffset(hours)
			a = reread(t, a)
		}
		restore()
		if len(labels) != 4 {
			t.Fatalf("labels %v", labels)
		}
		for i, label := range labels[1:] {
			if label-labels[i] != 24*3_600_000 {
				t.Errorf("to %d hours: labels %v", hours, labels)
			}
		}
	}
}

func TestBackfillEndsWithTheAlarm(t *testing.T) {
	now := at(t, "2027-03-10T10:00:00Z")
	a := scheduledByRule(t, repeat.Spec{Every: 60_000, Anchor: new(int64(now) - 600_000), Times: 1}, now)
	a = backfilled(t, a, Backfill{From: now - 300_000, Until: NoInstant}, now)
	a.finish(Dead, now)
	if b := a.Backfill(); b != (BackfillProgress{}) {
		t.Errorf("%+v", b)
	}
	kicked := Op{Kick: &Kick{Key: a.Key}}.Decide(&a, now).Alarm
	if kicked.Backfill().Left != 0 {
		t.Errorf("kicked: %+v", kicked.Progress)
	}
}

func TestBackfillOutOfRangeIsRefused(t *testing.T) {
	for field, asked := range map[string]Backfill{
		"from":  {From: NoInstant, Until: NoInstant},
		"until": {From: 2, Until: 1},
		"limit": {From: 1, Until: 1, Limit: MaxBackfill + 1},
		"pace":  {From: 1, Until: 1, Pace: MaxPace + 1},
	} {
		if refused, ok := errors.AsType[*Error](asked.Validate()); !ok || refused.Field != field {
			t.Errorf("%s: %v", field, refused)
		}
	}
}

// TestRecomputationLetsAnEarlierOccurrenceRingBeforeTheBackfill moves the current occurrence to a time before the next
// ring of a backfill.
func TestRecomputationLetsAnEarlierOccurrenceRingBeforeTheBackfill(t *testing.T) {
	defer useOffset(1)()
	now := at(t, "2027-03-01T09:50:00Z")
	a := scheduledByRule(t, repeat.Spec{Cron: "0 12 * * *", TimeZone: movedZone}, now) // 11:00Z
	a = backfilled(t, a, Backfill{From: now - 2*24*3_600_000, Until: NoInstant, Pace: 15 * time.Minute}, now)
	a.RingRow = FateOf(ringOfRow(&a, now), Outcome{Kind: Confirmed}, now).RingRow
	if a.NextTryTime != now.Add(15*time.Minute) {
		t.Fatalf("the next ring of the backfill is due at %v", a.NextTryTime)
	}
	moved := at(t, "2027-03-01T10:00:00Z")
	d := recomputed(t, a, 2, now.Add(time.Minute))
	if d.Verdict != Amend || d.Alarm.NextRingAt() != moved || d.Alarm.NextTryTime != moved || d.Alarm.Progress.Backfill.Rings {
		t.Errorf("%s: %+v", d.Verdict, d.Alarm.RingRow)
	}
}
