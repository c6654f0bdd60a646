package storetest

import (
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// testServerClock claims with a Now that is an hour ahead of the database's clock. With ServerClock the claim takes and
// ends only rows that are due by the database's clock, and leaves the other rows unchanged.
func testServerClock(t *testing.T, f *fixture) {
	micros, err := f.Time(t.Context())
	ok(t, err, "time")
	now := clock.Instant(micros / 1000)
	soon, ahead := now.Add(30*time.Minute), now.Add(time.Hour)
	due := f.set(now, set("due", now-1000))[0]
	early := f.set(now, set("early", soon))[0]
	retried := f.set(now, set("retried", now-1000))[0]
	expiring := f.set(now, set("expiring", now-1000, latestRingAt(soon)))[0]
	unanswered := f.set(now, set("unanswered", now-1000, acknowledgedWithin(30*time.Minute, 1)))[0]
	f.claim(now, retried).wantRings(retried).settle(now, everyRing(clock.Nacked))
	f.exec("UPDATE alarm SET next_try_time = %d WHERE id = %d", soon, retried)
	f.claim(now, unanswered).wantRings(unanswered).settle(now, everyRing(clock.Confirmed))

	// out of rings, and past latest_ring_at only by the clock that is ahead
	over := f.set(now-5000, set("over", now-5000, acknowledgedWithin(time.Second, 1), latestRingAt(soon)))[0]
	f.claim(now-4000, over).wantRings(over).settle(now-4000, everyRing(clock.Confirmed))

	others := []string{"early", "retried", "expiring", "unanswered", "over"}
	before := map[string]clock.Alarm{}
	for _, id := range others {
		before[id] = *f.get(id)
	}
	r := f.request(ahead, early, due, retried, expiring, unanswered, over)
	r.ServerClock = true
	c := f.claimRequest(r).wantRings(due)
	if len(c.Ended) > 0 {
		t.Errorf("ended an hour too soon: %+v", c.Ended)
	}
	f.claim(ahead, early, retried).wantRings(early, retried).release() // the claim that passed them over does not lock them
	c.settle(ahead, everyRing(clock.Confirmed))
	for _, id := range others {
		f.want(before[id])
	}

	c = f.claim(ahead, early, due, retried, expiring, unanswered, over)
	same(t, "rings by the clock that is ahead", sorted(c.ids()), sorted([]int64{early, retried}))
	if len(c.Ended) != 3 {
		t.Errorf("ended by the clock that is ahead: %+v", c.Ended)
	}
	c.release()
}
