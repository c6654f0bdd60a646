package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// claimOnce claims at-most-once alarms.
func (f *fixture) claimOnce(now clock.Instant, ids ...int64) *claim {
	f.t.Helper()
	r := f.request(now, ids...)
	r.AtMostOnce = true
	return f.claimRequest(r)
}

// testAtMostOnce claims at-most-once alarms together with others. A claim returns their ids without locking the rows.
// Their own claim records that they have rung before their rings are handed over.
func testAtMostOnce(t *testing.T, f *fixture) {
	k := f.together("once", "often", "too late", "also once", "later", "large")
	ids := f.set(t0-1000, set(k[1], t0), set("once", t0-1, atMostOnce, priority(4)),
		set(k[2], t0-5, atMostOnce, latestRingAt(t0-1)),
		set(k[3], t0-2, atMostOnce), set(k[4], t0+1, atMostOnce),
		set(k[5], t0, atMostOnce, payload(make([]byte, 5000))))
	before := *f.get("once")
	c := f.claim(t0, ids...).wantRings(ids[0])
	same(t, "at-most-once ids", c.AtMostOnce, []int64{ids[3], ids[1], ids[5]})
	same(t, "ended", len(c.Ended), 1)

	// The first claim is still open.
	r := f.request(t0, ids[0], ids[1], ids[3], ids[4], ids[5])
	r.AtMostOnce, r.MaxBytes = true, 100
	once := f.other().claimRequest(r).wantRings(ids[3], ids[1])
	same(t, "deferred", once.Deferred, []int64{ids[5]})
	same(t, "ring", once.Rings[1], ringOf(before, &r))
	f.want(afterClaim(before, &r))
	same(t, "due", len(f.claimOnce(t0.Add(time.Hour), ids[1], ids[3]).Rings), 0)
	same(t, "due", len(f.claim(t0.Add(time.Hour), ids[1], ids[3]).AtMostOnce), 0)
	for name, op := range map[string]clock.Op{"cancel": cancel("once"), "repeated set": set("once", t0-1, atMostOnce, priority(4))} {
		row := f.get("once")
		want := op.Decide(row, t0+9)
		same(t, "verdict", want.Verdict == clock.Locked, false)
		f.wantDecision(name+" beside its ring", op, want)
	}
	c.settle(t0, everyRing(clock.Confirmed))
	fates := once.settle(t0+7, everyRing(clock.Confirmed))
	f.want(afterRing(before, fates[1]))
	same(t, "attempts", len(f.get("once").Attempts), 0)
}

// testAtMostOnceOutcomes settles 300 at-most-once rings with all outcomes.
func testAtMostOnceOutcomes(t *testing.T, f *fixture) {
	const n = 300
	ids := f.set(t0, sets(names("once", n), t0, atMostOnce, retryLimit(1))...)
	f.set(t0, set("once-00001", t0, atMostOnce, retryLimit(0)), set("once-00002", t0, atMostOnce, latestRingAt(t0+1)))
	before := make(map[int64]clock.Alarm, n)
	for _, a := range f.list(clock.ListQuery{}) {
		before[a.ID] = a
	}
	kinds := clock.OutcomeKinds()
	c := f.claimOnce(t0, ids...)
	same(t, "rings", len(c.Rings), n)
	fates := c.settle(t0+7,
		func(r *clock.Ring) clock.Outcome { return everyRing(kinds[slices.Index(ids, r.AlarmID)%len(kinds)])(r) })
	for i, fate := range fates {
		r := c.Rings[i]
		a := before[r.AlarmID]
		f.want(afterRing(a, fate))
		f.wantAttempts(a.BusinessID, attemptsOf(&a, &r, fate, t0+7)...)
		arrived := fate.Outcome.Kind == clock.Nacked || fate.Outcome.Kind == clock.Doubtful ||
			fate.Outcome.Kind == clock.Refused
		same(t, "in doubt after "+fate.Outcome.Kind.String(), f.get(a.BusinessID).InDoubt, arrived)
	}
	same(t, "dead", f.get("once-00001").State, clock.Dead)
}

// testSettledTwice settles committed claims twice with the same fates, as a caller does that got no reply to the first
// COMMIT. The second settlement finds no row of the claim, also where the first one left the row rung and in doubt.
func testSettledTwice(t *testing.T, f *fixture) {
	f.timeout = claimTimeout
	for _, once := range []bool{true, false} {
		f.empty()
		kinds := clock.OutcomeKinds()
		var ops []clock.Op
		for _, k := range kinds {
			op := set(k.String(), t0)
			if once {
				atMostOnce(op.Set)
			}
			ops = append(ops, op)
		}
		r := f.request(t0, f.set(t0, ops...)...)
		r.AtMostOnce = once
		c := f.claimRequest(r)
		same(t, "rings", len(c.Rings), len(kinds))
		fates := c.settle(t0+7,
			func(r *clock.Ring) clock.Outcome { return everyRing(kinds[slices.Index(c.request.IDs, r.AlarmID)])(r) })
		settled := make(map[string]clock.Alarm)
		for _, k := range kinds {
			settled[k.String()] = *f.get(k.String())
		}
		ok(t, c.Settler.Settle(t.Context(), t0+7, fates), "settle again")
		for name, want := range settled {
			same(t, fmt.Sprintf("%s, at most once %t", name, once), *f.get(name), want)
		}
	}
}

// testAtMostOnceCrash never ends an at-most-once claim: its rows have rung, in doubt, and are never due again.
func testAtMostOnceCrash(t *testing.T, f *fixture) {
	ids := f.set(t0, sets(names("lost", 5), t0, atMostOnce, latestRingAt(t0+10))...)
	other := f.other()
	lost := other.claimOnce(t0, ids...)
	lost.unsettled = false
	ok(t, other.Close(), "close")
	later := t0.Add(24 * time.Hour)
	same(t, "claimed again", len(f.claim(later, ids...).AtMostOnce)+len(f.claimOnce(later, ids...).Rings), 0)
	o, err := f.Overdue(t.Context(), later, f.shards(), 10)
	ok(t, err, "overdue")
	same(t, "overdue", o.Count, 0)
	same(t, "expired", len(f.expireAll(later, 10)), 0)
	for _, id := range names("lost", 5) {
		a := f.get(id)
		same(t, "row", fmt.Sprint(a.State, a.InDoubt, a.RingNo, a.ClaimID),
			fmt.Sprint(clock.Rung, true, 0, lost.request.ClaimID))
	}
	same(t, "report", f.report("SELECT COUNT(*) FROM retry_report WHERE in_doubt = 1 AND state = 'rung'"),
		[][]string{{"5"}})
}

// testAtMostOnceRelease demands that a release restores at-most-once rows to their state before the claim.
func testAtMostOnceRelease(t *testing.T, f *fixture) {
	ids := f.set(t0, set("fresh", t0, atMostOnce), set("failed", t0, atMostOnce))
	f.claimOnce(t0, ids[1]).settle(t0, everyRing(clock.Returned))
	now := t0.Add(time.Hour)
	before := []clock.Alarm{*f.get("fresh"), *f.get("failed")}
	first := f.claimOnce(now, ids...)
	same(t, "rings", len(first.Rings), 2)
	first.release()
	for _, a := range before {
		f.want(a)
	}
	second := f.claimOnce(now, ids...)
	for i, r := range second.Rings {
		r.ClaimID = first.Rings[i].ClaimID
		same(t, "ring after the release", r, first.Rings[i])
	}
	held := *f.get("fresh")
	ok(t, first.Settler.Release(t.Context()), "release again") // the claim has lost its rows
	f.want(held)
}

// testAtMostOnceSetAgain sets an at-most-once alarm again between claim and settlement. The old ring does not change
// the new generation.
func testAtMostOnceSetAgain(t *testing.T, f *fixture) {
	id := f.set(t0, set("set again", t0, atMostOnce))[0]
	first := f.claimOnce(t0, id).wantRings(id)
	same(t, "verdict", f.write(t0+1, set("set again", t0+5))[0].Verdict, clock.Rearm)
	before := *f.get("set again")
	first.settle(t0+2, everyRing(clock.Doubtful))
	f.want(before)
	same(t, "attempts", len(f.get("set again").Attempts), 0)
	same(t, "at-most-once rings of the new generation", len(f.claimOnce(t0+5, id).Rings), 0)
	f.claim(t0+5, id).wantRings(id)
}

// testAtMostOncePurge purges finished alarms and alarms in doubt. An alarm whose claim may still be settled stays,
// whatever the retention.
func testAtMostOncePurge(t *testing.T, f *fixture) {
	ids := f.set(t0, set("returned", t0, atMostOnce), set("confirmed", t0, atMostOnce), set("lost", t0, atMostOnce),
		set("finished", t0))
	f.set(t0, cancel("finished"))
	c := f.claimOnce(t0, ids[:3]...)
	same(t, "rings", len(c.Rings), 3)
	purge := func(settled clock.Instant, want int) {
		t.Helper()
		n, err := f.Purge(t.Context(), t0+1, settled, 10)
		ok(t, err, "purge")
		same(t, "purged", n, want)
	}
	purge(t0, 1) // the cancelled alarm
	fates := c.settle(t0, func(r *clock.Ring) clock.Outcome {
		return everyRing(map[string]clock.OutcomeKind{"returned": clock.Returned, "confirmed": clock.Confirmed,
			"lost": clock.Doubtful}[r.BusinessID])(r)
	})
	same(t, "settled", len(fates), 3)
	same(t, "returned", f.get("returned").State, clock.Scheduled)
	same(t, "confirmed", fmt.Sprint(f.get("confirmed").RingNo, f.get("confirmed").InDoubt), fmt.Sprint(1, false))
	purge(t0, 1) // the confirmed alarm
	same(t, "in doubt", f.get("lost").InDoubt, true)
	purge(t0+1, 1)
	same(t, "alarms", f.count("alarm"), 1)
}
