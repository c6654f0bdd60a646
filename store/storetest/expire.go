package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
	"github.com/clockd/clockd/store"
)

// afterEnd returns alarm a after a claim at now has ended it with the outcome, without another ring.
func afterEnd(a clock.Alarm, outcome clock.OutcomeKind, now clock.Instant) clock.Alarm {
	ring := ringOf(a, &store.ClaimRequest{Now: now})
	return afterRing(a, clock.FateOf(&ring, clock.Outcome{Kind: outcome}, now))
}

// expiryCase is an alarm that expires: its preparation, and its reason and doubt afterwards.
type expiryCase struct {
	name    string
	reason  string
	inDoubt bool
	prepare func(f *fixture, id int64)
}

func expiryCases(f *fixture) []expiryCase {
	lose := func(f *fixture, id int64) { f.claim(t0, id).wantRings(id).unsettled = false } // the claim's node dies
	fail := func(kind clock.OutcomeKind, reason string) func(f *fixture, id int64) {
		return func(f *fixture, id int64) {
			f.claim(t0, id).wantRings(id).settle(t0,
				func(*clock.Ring) clock.Outcome { return clock.Outcome{Kind: kind, Reason: reason} })
			f.exec("UPDATE alarm SET next_try_time = %d WHERE id = %d", t0, id)
		}
	}
	all := []expiryCase{
		{"never claimed", clock.ReasonExpired, false, func(*fixture, int64) {}},
		{"failed", "full", false, fail(clock.Nacked, "full")},
		{"not sent", clock.ReasonExpired, false, fail(clock.Unsent, "")},
		{"in doubt", clock.ReasonInDoubt, true, fail(clock.Doubtful, "")},
		{"in doubt with a reason", clock.ReasonInDoubt + "; last error: größer ✗", true,
			fail(clock.Doubtful, "größer ✗")},
		{"unacknowledged", clock.ReasonUnacknowledged, false, fail(clock.Confirmed, "")},
		{"failed and unacknowledged", clock.ReasonUnacknowledged, false, func(f *fixture, id int64) {
			fail(clock.Nacked, "full")(f, id)
			fail(clock.Confirmed, "")(f, id)
		}},
	}
	if f.timeout == 0 {
		return all
	}
	return append(all,
		expiryCase{"lost", clock.ReasonInDoubt, true, lose},
		expiryCase{"failed, then lost", clock.ReasonInDoubt + "; last error: full", true, func(f *fixture, id int64) {
			fail(clock.Nacked, "full")(f, id)
			lose(f, id)
		}},
		expiryCase{"unacknowledged, then lost", clock.ReasonInDoubt, true, func(f *fixture, id int64) {
			fail(clock.Confirmed, "")(f, id)
			lose(f, id)
		}},
	)
}

// testExpiredReasons expires alarms in a claim and in Expire. The reason tells whether a ring may have arrived.
func testExpiredReasons(t *testing.T, f *fixture) {
	end := t0.Add(time.Hour)
	for _, by := range []string{"claim", "Expire"} {
		for _, e := range expiryCases(f) {
			name := by + ": " + e.name
			id := f.set(t0, set(name, t0, latestRingAt(t0+5), acknowledgedWithin(time.Minute, 5)))[0]
			e.prepare(f, id)
			before := f.get(name)
			var reason string
			if by == "claim" {
				c := f.claim(end, id).wantRings()
				same(t, name+": ended", len(c.Ended), 1)
				same(t, name+": state", c.Ended[0].State, clock.Expired)
				reason = c.Ended[0].Reason
			} else {
				reason = f.expireAll(end, 10)[name]
			}
			same(t, name+": reason", reason, e.reason)
			want := afterEnd(*before, clock.TooLate, end)
			same(t, name+": in doubt", want.InDoubt, e.inDoubt)
			f.want(want)
			shown := f.report(fmt.Sprintf("SELECT state, in_doubt FROM retry_report WHERE id = %d AND in_doubt = 1",
				id))
			same(t, name+": in retry_report", len(shown) == 1, e.inDoubt)
		}
	}
}

// testExpireWithoutRings demands that Expire ends alarms that have rung max_rings times without an acknowledgement,
// with their attempts, as a claim does. It leaves alarms that have a ring left, and rings that still wait for their
// acknowledgement.
func testExpireWithoutRings(t *testing.T, f *fixture) {
	ids := f.set(t0, set("used up", t0, acknowledgedWithin(time.Minute, 1)),
		set("one left", t0, acknowledgedWithin(time.Minute, 2)),
		set("in time", t0.Add(time.Second), acknowledgedWithin(time.Minute, 1)))
	f.claim(t0, ids[:2]...).settle(t0, everyRing(clock.Confirmed))
	f.claim(t0.Add(time.Second), ids[2]).settle(t0.Add(time.Second), everyRing(clock.Confirmed))
	before := map[string]clock.Alarm{}
	for _, id := range []string{"used up", "one left", "in time"} {
		before[id] = *f.get(id)
	}
	end := t0.Add(time.Minute)
	same(t, "ended", f.expireAll(end, 10), map[string]string{"used up": "not acknowledged after 1 rings"})
	usedUp := before["used up"]
	want := afterEnd(usedUp, clock.Unacknowledged, end)
	want.Attempts = []clock.Attempt{unansweredAttempt(&usedUp, end)}
	f.want(want)
	f.want(before["one left"])
	f.want(before["in time"])
	same(t, "ended the second time", len(f.expireAll(end, 10)), 0)
}

// testExpireMoves demands that Expire moves a repeating alarm whose occurrence has used up its rings to the next
// occurrence.
func testExpireMoves(t *testing.T, f *fixture) {
	ids := f.set(t0-500,
		set("ever", t0, repeating(t0, func(s *repeat.Spec) { s.Every = 300_000 }), acknowledgedWithin(time.Minute, 1)))
	f.claim(t0, ids...).settle(t0, everyRing(clock.Confirmed))
	ringing := f.get("ever")
	end := t0.Add(time.Minute)
	page, err := f.Expire(t.Context(), end, f.shards(), store.Position{}, 10)
	ok(t, err, "expire")
	same(t, "ended", len(page.Ended), 0)
	same(t, "moved", page.Moved,
		[]store.Due{{ID: ids[0], NextTryTime: t0.Add(5 * time.Minute),
			Rank: store.Rank(store.Named{}, ringing.Priority), Shard: ringing.Shard, Application: app}})
	moved := f.get("ever")
	same(t, "state", moved.State, clock.Scheduled)
	same(t, "next try", moved.NextTryTime, t0.Add(5*time.Minute))
	same(t, "occurrence", moved.Progress.Current.Number, 2)
	same(t, "attempts", moved.Attempts, []clock.Attempt{unansweredAttempt(ringing, end)})
}
