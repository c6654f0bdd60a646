package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// recoverable is the part of a store that prepares a restored database.
type recoverable interface {
	SkipIDs(ctx context.Context) error
	MarkRestored(ctx context.Context, now clock.Instant, after int64, limit int) (next int64, counts store.RestoredCounts, err error)
}

func (f *fixture) recoverable() recoverable {
	f.t.Helper()
	s, is := f.Store.(recoverable)
	if !is {
		f.t.Fatalf("%T cannot be restored", f.Store)
	}
	return s
}

// testSkipIDs demands that new alarms get ids far above those before.
func testSkipIDs(t *testing.T, f *fixture) {
	first := f.set(t0, set("first", t0))[0]
	ok(t, f.recoverable().SkipIDs(t.Context()), "skip ids")
	for _, id := range f.set(t0, sets(names("next", 100), t0)...) {
		if id < first+store.SkippedIDs && !f.distributed { // there a process first gives out the rest of its block
			t.Errorf("after the id %d an alarm has %d", first, id)
		}
	}
}

// testMarkRestored demands that alarms of a restored database are marked page by page: due ones as in doubt, ringing
// and repeating ones not at all, and the others, with their attempts, by a higher generation.
func testMarkRestored(t *testing.T, f *fixture) {
	const now = t0 + 1000
	f.set(t0, sets(names("waiting", 40), now+1)...)
	f.set(t0, set("due", now), set("paused", now+1), set("repeating", now, repeating(now, nil)),
		set("ever", t0+9000, repeating(t0+9000, nil)),
		set("late", t0, latestRingAt(t0+5)), set("over", t0), set("again", t0+1, acknowledgedWithin(time.Minute, 3)),
		set("tried", t0+2))
	ringing := f.set(t0, set("ringing", t0, acknowledgedWithin(time.Minute, 3)))
	f.claim(t0, ringing...).settle(t0, everyRing(clock.Confirmed))
	f.set(t0, clock.Op{Cancel: &clock.Cancel{Key: key("over")}}, clock.Op{Pause: &clock.Pause{Key: key("paused")}})
	f.claim(t0+2, f.get("tried").ID).settle(t0+2, everyRing(clock.Nacked)) // has an attempt
	f.exec("UPDATE alarm SET next_try_time = %d WHERE id = %d", now+1, f.get("tried").ID)
	before := map[string]clock.Alarm{}
	for _, a := range f.list(clock.ListQuery{}) {
		before[a.BusinessID] = *f.get(a.BusinessID)
	}

	var counts store.RestoredCounts
	for after, next := int64(-1), int64(0); after != next; {
		after = next
		var page store.RestoredCounts
		var err error
		next, page, err = f.recoverable().MarkRestored(t.Context(), now, after, 7)
		ok(t, err, "mark restored alarms")
		counts = counts.Plus(page)
	}
	same(t, "counts", counts, store.RestoredCounts{InDoubt: 4, Raised: 43})
	for name, a := range before {
		switch {
		case a.State == clock.Scheduled && a.NextTryTime <= now:
			a.InDoubt, a.LastError, a.UpdateTime = true, store.ReasonRestored, now
		case a.State != clock.Ringing && a.Repeat == nil:
			a.Generation += 1_000_000
			for i := range a.Attempts {
				a.Attempts[i].Generation += 1_000_000
			}
		}
		f.want(a)
		same(t, "attempts of "+name, f.get(name).Attempts, a.Attempts)
	}
	f.expireAll(now, 100)
	same(t, "reason of an alarm that may have rung", f.get("late").LastError,
		clock.ReasonInDoubt+"; last error: "+store.ReasonRestored)
	again := f.write(now+2, set("waiting-00000", now+3))[0]
	same(t, "generation of the next set", again.Alarm.Generation, 1_000_002)
}
