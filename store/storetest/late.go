package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// settleLate settles the awaited rings of a claim with the outcomes that outcomeOf returns.
func (c *claim) settleLate(
	now clock.Instant, rings []clock.Ring, outcomeOf func(r *clock.Ring) clock.Outcome,
) []clock.Fate {
	c.f.t.Helper()
	fates := make([]clock.Fate, len(rings))
	for i := range rings {
		fates[i] = clock.LateFateOf(&rings[i], outcomeOf(&rings[i]), now)
	}
	ok(c.f.t, c.Settler.Settle(c.f.t.Context(), now, fates), "settle late")
	return fates
}

// testLateReplies settles half of the rings, waits longer for the other half, and settles these with all outcomes.
func testLateReplies(t *testing.T, f *fixture) {
	for _, once := range []bool{false, true} {
		f.empty()
		const n = 60
		ids := f.set(t0, sets(names("late", n), t0, retryLimit(1))...)
		f.set(t0, set("late-00001", t0, latestRingAt(t0+500), retryLimit(1)))
		const earlier = t0 - 70_000
		again := f.set(earlier, set("late-00003", earlier, acknowledgedWithin(time.Minute, 3), retryLimit(1)))
		f.claim(earlier, again...).settle(earlier, everyRing(clock.Confirmed)) // unacknowledged at t0
		if once {
			f.set(t0, sets(names("late", n), t0, atMostOnce, retryLimit(1))...)
		}
		before := make(map[int64]clock.Alarm, n)
		for _, a := range f.list(clock.ListQuery{}) {
			before[a.ID] = a
		}
		r := f.request(t0, ids...)
		r.AtMostOnce = once
		c := f.claimRequest(r)
		same(t, "rings", len(c.Rings), n)
		odd := func(r *clock.Ring) bool { return (r.AlarmID-ids[0])%2 == 1 }
		fates := c.settle(t0+7, func(r *clock.Ring) clock.Outcome {
			if odd(r) {
				return clock.Outcome{Kind: clock.Awaited, Reason: "not kept"}
			}
			return clock.Outcome{Kind: clock.Confirmed}
		})
		var rings []clock.Ring
		for i, fate := range fates {
			if r := &c.Rings[i]; odd(r) {
				rings = append(rings, *r)
			}
			f.want(afterRing(before[c.Rings[i].AlarmID], fate))
		}
		check := func(what string, fates []clock.Fate, settled clock.Instant) {
			for i, fate := range fates {
				a := before[rings[i].AlarmID]
				f.want(afterRing(a, fate))
				var attempts []clock.Attempt
				if fate.Outcome.Kind != clock.Awaited {
					attempts = attemptsOf(&a, &rings[i], fate, settled)
				}
				f.wantAttempts(a.BusinessID, attempts...)
			}
			same(t, what+": rows", len(fates), n/2)
		}
		longer := c.settleLate(t0+100, rings, everyRing(clock.Awaited))
		check("postponed", longer, 0)
		ok(t, c.Settler.Settle(t.Context(), t0+150, longer), "settle with the same fates")
		check("unchanged", longer, 0)
		kinds := clock.OutcomeKinds()
		final := c.settleLate(t0+200, rings,
			func(r *clock.Ring) clock.Outcome { return everyRing(kinds[int(r.AlarmID)%len(kinds)])(r) })
		check("final", final, t0+200)
		ok(t, c.Settler.Settle(t.Context(), t0+200, final), "settle again")
		check("again", final, t0+200)
	}
}

// testLateRepliesChangeNoOtherRow settles awaited rings whose rows have changed meanwhile. Only the row that has not
// changed is written.
func testLateRepliesChangeNoOtherRow(t *testing.T, f *fixture) {
	ids := f.set(t0, set("kept", t0), set("answered", t0, acknowledgedWithin(time.Minute, 3)),
		set("expired", t0, latestRingAt(t0+50)), set("claimed", t0))
	kept := *f.get("kept")
	c := f.claim(t0, ids...)
	c.settle(t0+7, everyRing(clock.Awaited))
	rings := c.Rings
	same(t, "verdict of an answer", f.write(t0+9, answer(clock.Ack, f.get("answered"), 1))[0].Verdict, clock.Amend)
	same(t, "verdict of a cancel", f.write(t0+9, cancel("kept"))[0].Verdict, clock.Refuse)
	same(t, "expired", len(f.expireAll(t0+60, 10)), 1)
	now := t0.Add(clock.AwaitTimeout) + 7
	same(t, "due before the end of the wait", len(f.claim(now-1, ids[3]).Rings), 0)
	again := f.claim(now, ids[3]).wantRings(ids[3])
	same(t, "message id", again.Rings[0].MessageID(), rings[3].MessageID())
	same(t, "in doubt", again.Rings[0].InDoubt(), true)
	again.settle(now+1, everyRing(clock.Returned))
	changed := []clock.Alarm{*f.get("answered"), *f.get("expired"), *f.get("claimed")}
	same(t, "states", fmt.Sprint(changed[0].State, changed[1].State, changed[2].State),
		fmt.Sprint(clock.Rung, clock.Expired, clock.Scheduled))
	fates := c.settleLate(now+2, rings, everyRing(clock.Nacked))
	for _, a := range changed {
		f.want(a)
		f.wantAttempts(a.BusinessID, a.Attempts...)
	}
	f.want(afterRing(kept, fates[0]))
}
