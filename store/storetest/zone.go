package storetest

import (
	"strings"
	"sync"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
)

// movedZone is the time zone whose rules these tests change. No other test uses it.
const movedZone = "Pacific/Kanton"

// changedData lets one test at a time change the time-zone data of the process. Suites of several servers run side by
// side.
var changedData sync.Mutex

// useOffset makes the local clock of movedZone run that many hours ahead of UTC, 1 or 2, as in other time-zone data.
func useOffset(hours int) (restore func()) {
	rules := map[string]string{movedZone: []string{1: "Etc/GMT-1", 2: "Etc/GMT-2"}[hours]}
	return repeat.ReplaceData(repeat.Data().With("2099a", rules))
}

// cronIn gives the alarm a rule of fixed times in a time zone.
func cronIn(expression, timeZone string) func(*clock.Set) {
	rule, err := repeat.Parse(repeat.Spec{Cron: expression, TimeZone: timeZone})
	if err != nil {
		panic(err)
	}
	return func(s *clock.Set) { s.Repeat = &rule }
}

func recompute(id string) clock.Op { return clock.Op{Recompute: &clock.Recompute{Key: key(id)}} }

func (f *fixture) zoned(timeZone string, after int64, limit int) []int64 {
	f.t.Helper()
	ids, err := f.ZonedAlarms(f.t.Context(), timeZone, after, limit)
	ok(f.t, err, "list alarms of "+timeZone)
	return ids
}

// testZones demands that alarms are found by the time zone that their times depend on, until they are purged.
func testZones(t *testing.T, f *fixture) {
	const berlin, rome = "Europe/Berlin", "Europe/Rome"
	ids := f.set(t0, set("plain", t0), set("cron", t0, cronIn("30 2 * * *", berlin)),
		set("local", t0, localTime("2027-03-28T12:00:00", berlin)),
		set("utc", t0, cronIn("30 2 * * *", "UTC")), set("period", t0, repeating(t0, nil)),
		set("rome", t0, cronIn("0 9 * * *", rome)))
	zoned := sorted([]int64{ids[1], ids[2]})
	same(t, "alarms in Berlin", f.zoned(berlin, 0, 10), zoned)
	same(t, "first page", f.zoned(berlin, 0, 1), zoned[:1])
	same(t, "second page", f.zoned(berlin, zoned[0], 1), zoned[1:])
	same(t, "alarms in Rome", f.zoned(rome, 0, 10), ids[5:])
	same(t, "all alarms with a time zone", f.count("zoned_alarm"), 3)

	f.write(t0+1, set("cron", t0, cronIn("30 2 * * *", rome)),
		set("plain", t0, localTime("2027-03-28T12:00:00", berlin)), cancel("local"))
	same(t, "alarms in Berlin after other sets", f.zoned(berlin, 0, 10), sorted([]int64{ids[0], ids[2]}))
	same(t, "alarms in Rome after other sets", f.zoned(rome, 0, 10), sorted([]int64{ids[1], ids[5]}))
	if _, err := f.Purge(t.Context(), t0+2, t0+2, 10); err != nil {
		t.Fatal(err)
	}
	same(t, "alarms in Berlin after the purge", f.zoned(berlin, 0, 10), ids[:1])

	before := f.archive(0)
	f.removeAlarms()
	f.exec("DELETE FROM zoned_alarm")
	f.restore(before)
	same(t, "alarms in Rome after a restore", len(f.zoned(rome, 0, 10)), 2)
	same(t, "alarms in Berlin after a restore", f.zoned(berlin, 0, 10), []int64{f.get("plain").ID})
	same(t, "restored alarms", before[0].Same(&f.archive(0)[0]), true)
}

// testRecompute demands that a recomputation by other time-zone data moves ring_at, next_try_time and the occurrences,
// and nothing else.
func testRecompute(t *testing.T, f *fixture) {
	changedData.Lock()
	defer changedData.Unlock()
	restore := useOffset(1)
	f.set(t0, set("local", t0, localTime("2027-06-01T12:00:00", movedZone)),
		set("cron", t0, cronIn("30 2 1 6 *", movedZone)),
		set("paused", t0, localTime("2027-06-01T12:00:00", movedZone)), set("plain", t0))
	f.write(t0+1, pause("paused"))
	before := map[string]clock.Alarm{}
	for _, id := range []string{"local", "cron", "paused", "plain"} {
		before[id] = *f.get(id)
	}
	restore()
	defer useOffset(2)()
	same(t, "repeated set by other data",
		f.write(t0+2, set("local", t0, localTime("2027-06-01T12:00:00", movedZone)))[0].Verdict, clock.Keep)
	const now, hour = t0 + 5000, 3_600_000
	for i, d := range f.write(now, recompute("local"), recompute("cron"), recompute("paused"), recompute("plain")) {
		same(t, "verdict", d.Verdict, []clock.Verdict{clock.Amend, clock.Amend, clock.Amend, clock.Keep}[i])
	}
	local := before["local"]
	local.RingAt, local.NextTryTime, local.UpdateTime = local.RingAt-hour, local.NextTryTime-hour, now
	cron := before["cron"]
	cron.NextTryTime, cron.UpdateTime = cron.NextTryTime-hour, now
	cron.Progress.Current.At, cron.Progress.Next.At = cron.Progress.Current.At-hour, cron.Progress.Next.At-hour
	paused := before["paused"]
	paused.RingAt, paused.UpdateTime = paused.RingAt-hour, now
	for _, want := range []clock.Alarm{local, cron, paused, before["plain"]} {
		got := f.get(want.BusinessID)
		want.Repeat, want.Local = got.Repeat, got.Local // read by other data
		same(t, want.BusinessID, *got, want)
	}
	f.claim(local.NextTryTime-1, local.ID).wantRings()
	c := f.claim(local.NextTryTime, local.ID)
	c.wantRings(local.ID)
	same(t, "ring time", c.Rings[0].RingAt, local.RingAt)
	c.settle(local.NextTryTime+1, everyRing(clock.Confirmed))
	same(t, "recomputation of a rung alarm", f.write(local.NextTryTime+2, recompute("local"))[0].Verdict, clock.Keep)
}

// testZoneState demands that of two writers that have read the same state, one writes.
func testZoneState(t *testing.T, f *fixture) {
	f.exec("UPDATE time_zone_data SET revision = 0, document = ''")
	state := func() (revision int64, document string) {
		t.Helper()
		revision, document, err := f.ZoneState(t.Context())
		ok(t, err, "read the state")
		return revision, document
	}
	change := func(revision int64, document string) bool {
		t.Helper()
		written, err := f.ChangeZoneState(t.Context(), revision, document)
		ok(t, err, "write the state")
		return written
	}
	revision, document := state()
	same(t, "state of a new database", document, "")
	long := strings.Repeat("0123456789", 20_000)
	same(t, "first writer", change(revision, long), true)
	same(t, "second writer", change(revision, "other"), false)
	next, document := state()
	same(t, "revision", next, revision+1)
	same(t, "document", document, long)
	same(t, "writer of the next revision", change(next, "{}"), true)
}
