package storetest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// pause and resume return ops on an alarm of app.
func pause(id string) clock.Op  { return clock.Op{Pause: &clock.Pause{Key: key(id)}} }
func resume(id string) clock.Op { return clock.Op{Resume: &clock.Resume{Key: key(id)}} }

// testPaused pauses alarms in one group with a set and a cancel. No claim, no expiry pass and no purge takes them.
// After they are resumed in one group, each rings once with its next ring number, or expires.
func testPaused(t *testing.T, f *fixture) {
	ids := names("paused", 120)
	f.set(t0-1000, sets(ids[:100], t0-500, priority(4), payload([]byte("stays")))...)
	f.set(t0-1000, sets(ids[100:], t0-500, latestRingAt(t0+5))...)
	f.set(t0-1000, set("tried", t0-500), set("later", t0+900), set("again", t0), set("gone", t0))
	f.claim(t0, f.get("tried").ID).settle(t0, everyRing(clock.Nacked))
	ids = append(ids, "tried", "later")

	group := func(now clock.Instant, op func(id string) clock.Op, more ...clock.Op) {
		ops := slices.Clone(more)
		for _, id := range ids {
			ops = append(ops, op(id))
		}
		rand.Shuffle(len(ops), func(i, j int) { ops[i], ops[j] = ops[j], ops[i] })
		want := make([]clock.Decision, len(ops))
		for i, op := range ops {
			row, err := f.Get(t.Context(), op.Key())
			ok(t, err, "get")
			row.Attempts = nil
			want[i] = op.Decide(row, now)
			same(t, "writes", want[i].Writes(), true)
		}
		for i, got := range f.write(now, ops...) {
			same(t, ops[i].Name()+": verdict", got.Verdict, want[i].Verdict)
			same(t, ops[i].Name()+": alarm", got.Alarm, want[i].Alarm)
			f.want(want[i].Alarm)
		}
	}
	group(t0, pause, set("again", t0+7), cancel("gone"))
	alarms := make([]int64, len(ids))
	for i, id := range ids {
		alarms[i] = f.get(id).ID
	}
	const afterLatest = t0 + 10
	same(t, "retries of a paused alarm", f.get("tried").RetryTimes, 1)
	f.claim(afterLatest, alarms...).wantRings()
	page, err := f.Expire(t.Context(), afterLatest, f.shards(), store.Position{}, 1000)
	ok(t, err, "expire")
	same(t, "expired while paused", len(page.Ended), 0)
	purged, err := f.Purge(t.Context(), afterLatest, afterLatest, 1000)
	ok(t, err, "purge")
	same(t, "purged beside paused alarms", purged, 1) // the cancelled one
	overdue, err := f.Overdue(t.Context(), afterLatest, f.shards(), 1000)
	ok(t, err, "overdue")
	same(t, "overdue beside paused alarms", overdue.Count, 1) // the alarm that was set again

	group(afterLatest, resume)
	c := f.claim(afterLatest, alarms...)
	same(t, "rings", sorted(c.ids()), sorted(append(slices.Clone(alarms[:100]), alarms[120])))
	same(t, "expired", len(c.Ended), 20)
	for i := range c.Rings {
		same(t, "number of the ring", c.Rings[i].RingNo, 1)
	}
	c.settle(afterLatest, everyRing(clock.Confirmed))
	same(t, "alarm due later", fmt.Sprint(f.get("later").State, f.get("later").NextTryTime),
		fmt.Sprint(clock.Scheduled, t0+900))
	f.claim(t0+900, alarms...).wantRings(alarms[121]).settle(t0+900, everyRing(clock.Confirmed))
}

// testPauseOfUnacknowledged: an alarm whose ring waits for its answer cannot be paused. It can be after a release, and
// the resume then makes it due at once.
func testPauseOfUnacknowledged(t *testing.T, f *fixture) {
	before := f.ringingAlarm("ringing", 3)
	op := pause("ringing")
	f.wantDecision("pause of a ringing alarm", op, op.Decide(before, t0+9))
	release := answer(clock.Release, before, 1)
	release.Answer.Delay = clock.Delay{Given: true, Span: time.Hour}
	f.set(t0+9, release)
	f.set(t0+9, pause("ringing"))
	f.wantDecision("answer of a paused alarm", answer(clock.Ack, before, 1),
		answer(clock.Ack, before, 1).Decide(f.get("ringing"), t0+9))
	f.set(t0+9, resume("ringing"))
	c := f.claim(t0+9, before.ID).wantRings(before.ID)
	same(t, "number of the ring", c.Rings[0].RingNo, 2)
	c.settle(t0+9, everyRing(clock.Confirmed))
}

// testPauseRace claims alarms from several goroutines while others pause every third one. After a pause is accepted, no
// claim has the alarm. Each alarm rings once or is paused.
func testPauseRace(t *testing.T, f *fixture) {
	for round := range 3 {
		const n, claimers = 120, 3
		ops := sets(names(fmt.Sprintf("race-%d", round), n), t0)
		race := &claimRace{f: f, ids: f.set(t0, ops...), rung: make([][]int64, claimers)}
		paused := make(map[int64]bool)
		var g errgroup.Group
		for claimer := range claimers {
			g.Go(func() error { return race.claim(claimer) })
		}
		g.Go(func() error {
			for i := n - 1; i >= 0; i -= 3 {
				d, err := f.writeUntilUnlocked(pause(ops[i].Key().BusinessID))
				if err != nil {
					return err
				}
				paused[d.Alarm.ID] = d.Verdict == clock.Amend
			}
			return nil
		})
		ok(t, g.Wait(), "race")
		rung := make(map[int64]int)
		for _, ids := range race.rung {
			for _, id := range ids {
				rung[id]++
			}
		}
		for i, id := range race.ids {
			a := f.get(ops[i].Key().BusinessID)
			if paused[id] {
				same(t, "paused alarm", fmt.Sprint(a.State, a.RingNo, rung[id]), fmt.Sprint(clock.Paused, 0, 0))
			} else {
				same(t, "alarm that was not paused", fmt.Sprint(a.State, a.RingNo, rung[id]),
					fmt.Sprint(clock.Rung, 1, 1))
			}
		}
	}
}
