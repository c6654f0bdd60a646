package storetest

import (
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
)

// repeating gives the alarm a rule: an occurrence every second, the first at the anchor.
func repeating(anchor clock.Instant, change func(*repeat.Spec)) func(*clock.Set) {
	first := int64(anchor)
	spec := repeat.Spec{Every: 1000, Anchor: &first}
	if change != nil {
		change(&spec)
	}
	rule, err := repeat.Parse(spec)
	if err != nil {
		panic(err)
	}
	return func(s *clock.Set) { s.Repeat = &rule }
}

// claimRepeating claims alarms whose rows are all due, and demands the rings of these occurrences, by alarm id.
func (f *fixture) claimRepeating(now clock.Instant, want map[int64]int64) *claim {
	f.t.Helper()
	ids := make([]int64, 0, len(want))
	for id := range want {
		ids = append(ids, id)
	}
	c := f.claim(now, ids...)
	rings := 0
	for i := range c.Rings {
		r := &c.Rings[i]
		same(f.t, "occurrence of "+r.BusinessID, r.Occurrence().Number, want[r.AlarmID])
		same(f.t, "ring time of "+r.BusinessID, r.RingAt, clock.Instant(r.Occurrence().At))
	}
	for _, number := range want {
		if number != 0 {
			rings++
		}
	}
	same(f.t, "rings", len(c.Rings), rings)
	return c
}

// longRule returns a rule that nearly fills its column.
func longRule() *repeat.Rule {
	spec := repeat.Spec{Cron: "0 9 * * MON-FRI", TimeZone: "America/New_York"}
	for day := range repeat.MaxSkipDates {
		spec.SkipDates = append(spec.SkipDates, time.Date(2040, 1, 1+day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly))
	}
	rule, err := repeat.Parse(spec)
	if err != nil {
		panic(err)
	}
	return &rule
}

// testRepeat demands that a ring moves the row of a repeating alarm to its next occurrence in its own transaction, and
// that the row ends after the last one.
func testRepeat(t *testing.T, f *fixture) {
	ids := f.set(t0-500, set("ever", t0, repeating(t0, nil)),
		set("twice", t0, repeating(t0, func(s *repeat.Spec) { s.Times = 2 })),
		set("acknowledged", t0, repeating(t0, nil), acknowledgedWithin(time.Minute, 3)), set("once", t0))
	same(t, "first occurrence", f.get("ever").NextRingAt(), t0)
	long := longRule()
	f.set(t0-500, set("long", t0, func(s *clock.Set) { s.Repeat = long }))
	same(t, "long rule", f.get("long").Repeat.Encode(), long.Encode())
	before := map[string]clock.Alarm{}
	for _, id := range []string{"ever", "twice", "acknowledged", "once"} {
		before[id] = *f.get(id)
	}
	c := f.claim(t0, ids...)
	c.wantRings(ids...)
	for i, fate := range c.settle(t0+5, everyRing(clock.Confirmed)) {
		f.want(afterRing(before[c.Rings[i].BusinessID], fate))
	}
	ever, twice, acknowledged := f.get("ever"), f.get("twice"), f.get("acknowledged")
	same(t, "ever", ever.State, clock.Scheduled)
	same(t, "second occurrence", ever.NextTryTime, t0+1000)
	same(t, "rung", ever.Progress.Rung, 1)
	same(t, "acknowledged", acknowledged.State, clock.Ringing)
	f.write(t0+10, clock.Op{Answer: &clock.Answer{
		Ring: clock.RingID{AlarmID: acknowledged.ID, Generation: 1, RingNo: 1}, Key: acknowledged.Key, Kind: clock.Ack,
	}})
	same(t, "acknowledged occurrence", f.get("acknowledged").Progress.Current.Number, 2)
	same(t, "due", twice.NextTryTime, t0+1000)

	f.claimRepeating(t0+1000, map[int64]int64{ids[0]: 2, ids[1]: 2, ids[2]: 2}).settle(t0+1001,
		everyRing(clock.Confirmed))
	same(t, "after its last occurrence", f.get("twice").State, clock.Rung)
	same(t, "ring_no", f.get("ever").RingNo, 2)
	same(t, "third occurrence", f.get("ever").NextTryTime, t0+2000)
	same(t, "repeated set", f.write(t0+1500, set("ever", t0, repeating(t0, nil)))[0].Verdict, clock.Keep)
}

// testTrigger demands that a triggered ring of a repeating alarm rings besides its occurrences, and that an alarm that
// rings once is set anew.
func testTrigger(t *testing.T, f *fixture) {
	trigger := func(id string) clock.Op { return clock.Op{Trigger: &clock.Trigger{Key: key(id)}} }
	ids := f.set(t0-500, set("repeats", t0+9000, repeating(t0+9000, nil)), set("once", t0+9000), set("rung", t0))
	f.claim(t0, ids[2]).settle(t0+1, everyRing(clock.Confirmed))
	plan := f.get("repeats").Progress
	for i, want := range []clock.Verdict{clock.Amend, clock.Replace, clock.Rearm} {
		id := []string{"repeats", "once", "rung"}[i]
		same(t, "trigger of "+id, f.write(t0+2000, trigger(id))[0].Verdict, want)
		same(t, "due time of "+id, f.get(id).NextTryTime, t0+2000)
	}
	same(t, "triggered at", f.get("repeats").Progress.Triggered(), t0+2000)
	same(t, "a second trigger", f.write(t0+2001, trigger("repeats"))[0].Verdict, clock.Keep)
	c := f.claim(t0+2100, ids...)
	c.wantRings(ids...)
	for i := range c.Rings {
		r := &c.Rings[i]
		same(t, "ring time of "+r.BusinessID, r.RingAt, t0+2000)
		same(t, "occurrence of "+r.BusinessID, r.Occurrence().Number, 0)
	}
	c.settle(t0+2101, everyRing(clock.Confirmed))
	a := f.get("repeats")
	plan.RingsBefore = 1
	same(t, "progress", a.Progress, plan)
	same(t, "next ring", a.NextTryTime, t0+9000)
	for _, id := range []string{"once", "rung"} {
		same(t, id, f.get(id).State, clock.Rung)
		same(t, "generation of "+id, f.get(id).Generation, 2)
	}
}

// testStopWhileRinging pauses and cancels repeating alarms whose rings wait for their acknowledgement. The ring of the
// paused alarm is answered, and the alarm stays paused.
func testStopWhileRinging(t *testing.T, f *fixture) {
	k := f.together("paused", "cancelled", "cancelled if")
	acknowledged := acknowledgedWithin(time.Minute, 3)
	var sets []clock.Op
	for _, id := range k {
		sets = append(sets, set(id, t0, repeating(t0, nil), acknowledged))
	}
	c := f.claim(t0, f.set(t0-500, sets...)...)
	c.settle(t0, everyRing(clock.Confirmed))
	id := clock.RingID{AlarmID: f.get(k[0]).ID, Generation: 1, RingNo: 1}
	ack := clock.Op{Answer: &clock.Answer{Key: key(k[0]), Ring: id, Kind: clock.Ack}}
	same(t, "pause", f.write(t0+500, clock.Op{Pause: &clock.Pause{Key: key(k[0])}})[0].Verdict, clock.Amend)
	if0 := clock.Condition{Kind: clock.AtGeneration, Generation: 1}
	d := f.write(t0+500, clock.Op{Cancel: &clock.Cancel{Key: key(k[1])}}, clock.Op{Cancel: &clock.Cancel{Key: key(k[2]), If: if0}})
	same(t, "cancel", d[0].Verdict, clock.Disarm)
	same(t, "cancel of a generation", d[1].Verdict, clock.Disarm)
	for _, id := range k[1:] {
		same(t, id, f.get(id).State, clock.Cancelled)
	}
	same(t, "answer", f.write(t0+600, ack)[0].Verdict, clock.Amend)
	same(t, "second answer", f.write(t0+600, ack)[0].Verdict, clock.Refuse)
	a := f.get(k[0])
	same(t, "state", a.State, clock.Paused)
	same(t, "next try", a.NextTryTime, clock.NoInstant)
	same(t, "rung", a.Progress.Rung, 1)
	same(t, "occurrence", a.Progress.Current.Number, 2)
}

// testBackfill demands that an alarm rings once for each occurrence of a range of the past, besides its plan, with its
// pace, and that the end of a backfill leaves nothing of it.
func testBackfill(t *testing.T, f *fixture) {
	const anchor clock.Instant = t0 - 5000
	k := key("repeats")
	id := f.set(t0-500, set("repeats", t0, repeating(anchor, func(s *repeat.Spec) { s.Every = 60_000 })))[0]
	plan := f.get("repeats").Progress
	backfill := clock.Op{Backfill: &clock.Backfill{Key: k, From: 0, Until: clock.NoInstant, Pace: 2 * time.Second}}
	same(t, "backfill", f.write(t0, backfill)[0].Verdict, clock.Amend)
	same(t, "a second backfill", f.write(t0, backfill)[0].Verdict, clock.Refuse)
	ring := func(now clock.Instant) {
		t.Helper()
		c := f.claim(now, id)
		c.wantRings(id)
		same(t, "occurrence", c.Rings[0].Occurrence(), repeat.Occurrence{At: int64(anchor)})
		same(t, "ring time", c.Rings[0].RingAt, now)
		c.settle(now, everyRing(clock.Confirmed))
	}
	ring(t0)
	plan.RingsBefore, plan.Backfill = 1, clock.BackfillProgress{Rung: 1}
	same(t, "progress", f.get("repeats").Progress, plan)
	same(t, "next ring", f.get("repeats").NextTryTime, anchor+60_000)

	now := anchor + 60_000
	c := f.claim(now, id)
	same(t, "occurrence", c.Rings[0].Occurrence().Number, 1)
	c.settle(now, everyRing(clock.Confirmed))
	same(t, "backfill", f.write(now, backfill)[0].Verdict, clock.Amend)
	ring(now)
	same(t, "left", f.get("repeats").Progress.Backfill.Left, 1)
	same(t, "next ring", f.get("repeats").NextTryTime, now+2000)
	same(t, "end", f.write(now, clock.Op{EndBackfill: &clock.EndBackfill{Key: k}})[0].Verdict, clock.Amend)
	same(t, "end of nothing", f.write(now, clock.Op{EndBackfill: &clock.EndBackfill{Key: k}})[0].Verdict, clock.Keep)
	a := f.get("repeats")
	same(t, "backfill", a.Progress.Backfill, clock.BackfillProgress{Rung: 1})
	same(t, "next ring", a.NextTryTime, now+60_000)
}

// testRepeatMissed demands that missed occurrences are counted as the rule says, that a row whose occurrences were all
// missed moves without a ring, and that a lost or released claim leaves no trace.
func testRepeatMissed(t *testing.T, f *fixture) {
	missed := func(m repeat.Missed, limit int) func(*repeat.Spec) {
		return func(s *repeat.Spec) { s.Missed, s.MissedLimit = m, limit }
	}
	k := f.together("once", "all", "skip", "late", "last")
	ids := f.set(t0-500, set(k[0], t0, repeating(t0, nil)), set(k[1], t0, repeating(t0, missed(repeat.MissedAll, 3))),
		set(k[2], t0, repeating(t0, func(s *repeat.Spec) { s.Every, s.Missed = 60_000, repeat.MissedSkip })),
		set(k[3], t0, repeating(t0, func(s *repeat.Spec) { s.Every, s.LatestAfter = 60_000, 5000 })),
		set(k[4], t0, repeating(t0, func(s *repeat.Spec) { s.Times, s.LatestAfter = 2, 5000 })))
	const now = t0 + 20_000
	c := f.claimRepeating(now, map[int64]int64{ids[0]: 21, ids[1]: 19, ids[2]: 0, ids[3]: 0, ids[4]: 0})
	same(t, "moved", len(c.Moved), 2)
	same(t, "ended", len(c.Ended)+0, 1)
	for _, d := range c.Moved {
		same(t, "time of the moved row", d.NextTryTime, t0+60_000)
		same(t, "application of the moved row", d.Application, app)
	}
	c.release()
	if f.timeout == 0 {
		same(t, "after a release", f.get(k[0]).NextTryTime, t0)
	}
	c = f.claim(now, ids...)
	same(t, "rings", len(c.Rings), 2)
	c.settle(now+5, everyRing(clock.Confirmed))
	once, all, skip, late, last := f.get(k[0]), f.get(k[1]), f.get(k[2]), f.get(k[3]), f.get(k[4])
	same(t, "once: missed", once.Progress.Missed, 20)
	same(t, "once: next", once.NextTryTime, t0+21_000)
	same(t, "once: ring_no", once.RingNo, 21)
	same(t, "all: missed", all.Progress.Missed, 18)
	same(t, "all: due at once", all.NextTryTime, now+5)
	same(t, "skip: missed", skip.Progress.Missed, 1)
	same(t, "skip: next", skip.NextTryTime, t0+60_000)
	same(t, "late: missed", late.Progress.Missed, 1)
	same(t, "late: next", late.NextTryTime, t0+60_000)
	same(t, "last: state", last.State, clock.Expired)
	same(t, "last: missed", last.Progress.Missed, 2)
	f.claimRepeating(now+10, map[int64]int64{ids[1]: 20}).settle(now+11, everyRing(clock.Confirmed))
	f.claimRepeating(now+20, map[int64]int64{ids[1]: 21}).settle(now+21, everyRing(clock.Confirmed))
	same(t, "all: after the missed ones", f.get(k[1]).NextTryTime, t0+21_000)
}

// testRepeatRetries demands that a failed ring keeps its occurrence, that occurrences which come due meanwhile are
// skipped, and that the last failure moves the row to the next occurrence.
func testRepeatRetries(t *testing.T, f *fixture) {
	id := f.set(t0-500, set("r", t0, repeating(t0, nil), retryLimit(2)))[0]
	for i := range 3 {
		now := max(t0+clock.Instant(i)*1500, f.get("r").NextTryTime)
		f.claimRepeating(now, map[int64]int64{id: 1}).settle(now+1, everyRing(clock.Returned))
	}
	a := f.get("r")
	same(t, "state", a.State, clock.Scheduled)
	same(t, "failed", a.Progress.Failed, 1)
	same(t, "retry_times", a.RetryTimes, 0)
	same(t, "decided", a.Progress.Current.Number, a.Progress.Failed+a.Progress.Skipped+1)
	if a.Progress.Skipped == 0 || a.NextTryTime != clock.Instant(a.Progress.Current.At) {
		t.Errorf("the row waits for %v at %v, %d are skipped", a.Progress.Current, a.NextTryTime, a.Progress.Skipped)
	}
	used := a.RingNo
	c := f.claimRepeating(a.NextTryTime, map[int64]int64{id: a.Progress.Current.Number})
	if c.Rings[0].RingNo <= used {
		t.Errorf("ring %d has the number of an earlier occurrence", c.Rings[0].RingNo)
	}
	c.settle(a.NextTryTime+1, everyRing(clock.Confirmed))
	f.wantCounts("r", clock.OccurrenceCounts{Rung: 1, Failed: 1, Skipped: a.Progress.Skipped})
	same(t, "alarm_report",
		f.report("SELECT occurrences_rung, occurrences_failed, occurrences_missed FROM alarm_report WHERE business_id = 'r'"),
		[][]string{{"1", "1", "0"}})
}

// testRepeatPauses demands that an alarm pauses after failed occurrences in a row, whether a ring fails or a claim finds
// the last ring unacknowledged, and that its next occurrence rings after a resume.
func testRepeatPauses(t *testing.T, f *fixture) {
	pausing := func(s *repeat.Spec) { s.Every, s.PauseAfter = 60_000, 2 }
	k := f.together("failing", "silent")
	ids := f.set(t0-500, set(k[0], t0, repeating(t0, pausing), retryLimit(0)),
		set(k[1], t0, repeating(t0, pausing), acknowledgedWithin(time.Second, 1)))
	for i := range clock.Instant(2) {
		now := t0 + i*60_000
		f.claim(now, ids[0]).settle(now+1, everyRing(clock.Returned))
		f.claim(now, ids[1]).settle(now+1, everyRing(clock.Confirmed))
		c := f.claim(now+1500, ids[1])
		same(t, "rings", len(c.Rings), 0)
		same(t, "counted", c.Counted, clock.OccurrenceCounts{Failed: 1})
		same(t, "moved", len(c.Moved), 1-int(i))
		if i == 1 {
			same(t, "paused", c.Ended[0].State, clock.Paused)
		}
	}
	for i, last := range []string{"the reason of returned", "not acknowledged after 1 rings"} {
		a := f.get(k[i])
		same(t, "state", a.State, clock.Paused)
		same(t, "due", a.NextTryTime, clock.NoInstant)
		same(t, "last_error", a.LastError, "paused, because 2 occurrences in a row failed; the last one: "+last)
		same(t, "next occurrence", a.NextRingAt(), t0+120_000)
		f.wantCounts(k[i], clock.OccurrenceCounts{Failed: 2})
		f.write(t0+90_000, clock.Op{Resume: &clock.Resume{Key: a.Key}})
		same(t, "last_error after the resume", f.get(k[i]).LastError, "")
	}
	const third = t0 + 120_000
	for _, fate := range f.claimRepeating(third, map[int64]int64{ids[0]: 3, ids[1]: 3}).settle(third+1,
		everyRing(clock.Returned)) {
		same(t, "after one more failure", fate.State, clock.Scheduled)
	}
}

// testRepeatWindow demands that missed occurrences outside the window of their rule are counted, not rung, and that
// alarm_report has the counts.
func testRepeatWindow(t *testing.T, f *fixture) {
	window := func(missed repeat.Missed) func(*repeat.Spec) {
		return func(s *repeat.Spec) { s.Every, s.Missed, s.MissedWindow = 5000, missed, 12_500 }
	}
	k := f.together("once", "all", "none")
	ids := f.set(t0-500, set(k[0], t0, repeating(t0, window(repeat.MissedOnce))),
		set(k[1], t0, repeating(t0, window(repeat.MissedAll))),
		set(k[2], t0, repeating(t0, func(s *repeat.Spec) { s.Every, s.MissedWindow = 60_000, 12_500 })))
	const now = t0 + 51_000
	c := f.claimRepeating(now, map[int64]int64{ids[0]: 11, ids[1]: 9, ids[2]: 0})
	same(t, "counted", c.Counted, clock.OccurrenceCounts{Missed: 2, Outside: 8 + 8 + 1})
	c.settle(now+1, everyRing(clock.Confirmed))
	f.wantCounts(k[0], clock.OccurrenceCounts{Rung: 1, Missed: 2, Outside: 8})
	f.wantCounts(k[1], clock.OccurrenceCounts{Rung: 1, Outside: 8})
	f.wantCounts(k[2], clock.OccurrenceCounts{Outside: 1})
	same(t, "ring_no", f.get(k[0]).RingNo, 11)
	same(t, "previous occurrence", f.get(k[1]).Progress.PreviousAt, int64(t0+40_000))
	same(t, "alarm_report", f.report("SELECT occurrences_missed, occurrences_outside_window FROM alarm_report WHERE business_id = '"+k[0]+"'"),
		[][]string{{"2", "8"}})
}

// wantCounts demands the counts of ended occurrences.
func (f *fixture) wantCounts(id string, want clock.OccurrenceCounts) {
	f.t.Helper()
	same(f.t, "counts", f.get(id).Progress.OccurrenceCounts, want)
}

// testRepeatCrash demands that the copy of a ring that was lost with its node has the occurrence of that ring.
func testRepeatCrash(t *testing.T, f *fixture) {
	id := f.set(t0-500, set("r", t0, repeating(t0, nil)))[0]
	const now = t0 + 7300
	c := f.claimRepeating(now, map[int64]int64{id: 8})
	lost := c.Rings[0].MessageID()
	c.unsettled = false // the node is dead
	again := f.claimRepeating(now+clock.Instant(f.timeout.Milliseconds()), map[int64]int64{id: 8})
	same(t, "message id of the copy", again.Rings[0].MessageID(), lost)
	same(t, "in doubt", again.Rings[0].InDoubt(), true)
	again.settle(now+clock.Instant(f.timeout.Milliseconds())+1, everyRing(clock.Confirmed))
	same(t, "missed", f.get("r").Progress.Missed, 7)
}

// localTime gives the alarm a local time in a time zone.
func localTime(text, timeZone string) func(*clock.Set) {
	return func(s *clock.Set) {
		if err := s.SetLocalTime(text, timeZone, "ring_at"); err != nil {
			panic(err)
		}
	}
}

// testLocalTime demands that a local time is stored, that a repeated set is kept although the instant in it differs,
// and that the alarm rings once. A set with the same instant and another time zone, or none, changes the alarm.
func testLocalTime(t *testing.T, f *fixture) {
	const text = "2027-03-28T02:30:00"
	local := localTime(text, "Europe/Berlin")
	id := f.set(t0, set("local", t0, local))[0]
	stored := f.get("local")
	at := clock.Instant(time.Date(2027, 3, 28, 1, 0, 0, 0, time.UTC).UnixMilli())
	same(t, "ring_at", stored.RingAt, at)
	same(t, "next try", stored.NextTryTime, at)
	same(t, "local time", stored.Local.String(), text)
	same(t, "time zone", stored.Local.TimeZone(), "Europe/Berlin")
	otherData := func(s *clock.Set) { s.RingAt += 3_600_000 }
	same(t, "repeated set", f.write(t0+1, set("local", t0, local, otherData))[0].Verdict, clock.Keep)
	f.claim(at-1, id).wantRings()
	c := f.claim(at, id)
	c.wantRings(id)
	same(t, "ring time", c.Rings[0].RingAt, at)
	c.settle(at+1, everyRing(clock.Confirmed))
	same(t, "state", f.get("local").State, clock.Rung)
	same(t, "set after the ring", f.write(at+2, set("local", t0, local))[0].Verdict, clock.Keep)
	same(t, "other zone", f.write(at+3, set("local", t0, localTime("2027-03-28T03:00:00", "Europe/Paris")))[0].Verdict,
		clock.Rearm)
	same(t, "no zone", f.write(at+4, set("local", at))[0].Verdict, clock.Replace)
}
