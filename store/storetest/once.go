package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// claimOnce claims what rings at most once.
func (f *fixture) claimOnce(now clock.Instant, ids ...int64) *claim {
	f.t.Helper()
	r := f.request(now, ids...)
	r.Once = true
	return f.claimRequest(r)
}

// spent returns what a claim makes of an alarm that rings at most once.
func spent(a clock.Alarm, r *store.ClaimRequest) clock.Alarm {
	a.State, a.NextTryTime, a.InDoubt, a.ClaimID = clock.Rung, clock.NoInstant, true, r.ClaimID
	a.RungAt, a.FinishedAt, a.UpdateTime = r.Now, r.Now, r.Now
	return a
}

// settledOnce returns what a fate makes of alarm a, which rings at most once.
func settledOnce(a clock.Alarm, r *store.ClaimRequest, f clock.Fate, now clock.Instant) clock.Alarm {
	switch {
	case f.Outcome.Kind == clock.Confirmed:
		a = spent(a, r)
		a.RingNo, a.InDoubt, a.UpdateTime = a.RingNo+1, false, now
		return a
	case f.State == clock.Rung:
		a = spent(a, r)
	}
	return failed(a, f, now)
}

// testOnce mixes alarms that ring at most once with others: they come back from a claim, locked by nobody, and have a claim of
// their own, which has said that they have rung before anything is delivered.
func testOnce(t *testing.T, f *fixture) {
	ids := f.set(t0, set("often", t0), set("once", t0-1, atMostOnce, priority(4)), set("too late", t0-5, atMostOnce, latest(t0-1)),
		set("once too", t0-2, atMostOnce), set("later", t0+1, atMostOnce), set("large", t0, atMostOnce, payload(make([]byte, 5000))))
	before := *f.get("once")
	c := f.claim(t0, ids...).wantRings(ids[0])
	same(t, "once", c.Once, []int64{ids[3], ids[1], ids[5]})
	same(t, "ended", len(c.Ended), 1)

	// beside the first claim, which is still open
	r := f.request(t0, ids[0], ids[1], ids[3], ids[4], ids[5])
	r.Once, r.MaxBytes = true, 100
	once := f.other().claimRequest(r).wantRings(ids[3], ids[1])
	same(t, "left", once.Left, []int64{ids[5]})
	same(t, "ring", once.Rings[1], ringOf(before, once))
	f.want(spent(before, &r))
	same(t, "due", len(f.claimOnce(t0.Add(time.Hour), ids[1], ids[3]).Rings), 0)
	same(t, "due", len(f.claim(t0.Add(time.Hour), ids[1], ids[3]).Once), 0)
	for name, op := range map[string]clock.Op{"cancel": cancel("once"), "repeated set": set("once", t0-1, atMostOnce, priority(4))} {
		row := f.get("once")
		want := op.Decide(row, t0+9)
		same(t, "verdict", want.Verdict == clock.Wait, false)
		f.wantDecision(name+" beside its ring", op, want)
	}
	c.settle(t0, all(clock.Confirmed))
	fates := once.settle(t0+7, all(clock.Confirmed))
	f.want(settledOnce(before, &r, fates[1], t0+7))
	same(t, "attempts", len(f.get("once").Attempts), 0)
}

// testOnceOutcomes ends such rings with every outcome, 300 at once.
func testOnceOutcomes(t *testing.T, f *fixture) {
	const n = 300
	ids := f.set(t0, sets(names("once", n), t0, atMostOnce, retries(1))...)
	f.set(t0, set("once-00001", t0, atMostOnce, retries(0)), set("once-00002", t0, atMostOnce, latest(t0+1)))
	before := make(map[int64]clock.Alarm, n)
	for _, a := range f.list(clock.ListQuery{}) {
		before[a.ID] = a
	}
	kinds := clock.OutcomeKinds()
	c := f.claimOnce(t0, ids...)
	same(t, "rings", len(c.Rings), n)
	fates := c.settle(t0+7, func(r *clock.Ring) clock.Outcome { return all(kinds[int(r.AlarmID-ids[0])%len(kinds)])(r) })
	for i, fate := range fates {
		r := c.Rings[i]
		a := before[r.AlarmID]
		f.want(settledOnce(a, &c.request, fate, t0+7))
		f.wantAttempts(a.BusinessID, attemptsOf(&a, &r, fate, t0+7)...)
		arrived := fate.Outcome.Kind == clock.Nacked || fate.Outcome.Kind == clock.Doubtful || fate.Outcome.Kind == clock.Refused
		same(t, "in doubt after "+fate.Outcome.Kind.String(), f.get(a.BusinessID).InDoubt, arrived)
	}
	same(t, "dead", f.get("once-00001").State, clock.Dead)
}

// testOnceCrash leaves such a claim without an end: its rows have rung, in doubt, and are never due again.
func testOnceCrash(t *testing.T, f *fixture) {
	ids := f.set(t0, sets(names("lost", 5), t0, atMostOnce, latest(t0+10))...)
	other := f.other()
	lost := other.claimOnce(t0, ids...)
	lost.open = false
	ok(t, other.Close(), "close")
	later := t0.Add(24 * time.Hour)
	same(t, "claimed again", len(f.claim(later, ids...).Once)+len(f.claimOnce(later, ids...).Rings), 0)
	o, err := f.Overdue(t.Context(), later, f.shards(), 10)
	ok(t, err, "overdue")
	same(t, "overdue", o.Count, 0)
	same(t, "expired", len(f.expireAll(later, 10)), 0)
	for _, id := range names("lost", 5) {
		a := f.get(id)
		same(t, "row", fmt.Sprint(a.State, a.InDoubt, a.RingNo, a.ClaimID), fmt.Sprint(clock.Rung, true, 0, lost.request.ClaimID))
	}
	same(t, "report", f.report("SELECT COUNT(*) FROM retry_report WHERE in_doubt = 1 AND state = 'rung'"), [][]string{{"5"}})
}

// testOnceRelease gives such rings back as if they had not been claimed.
func testOnceRelease(t *testing.T, f *fixture) {
	ids := f.set(t0, set("fresh", t0, atMostOnce), set("failed", t0, atMostOnce))
	f.claimOnce(t0, ids[1]).settle(t0, all(clock.Returned))
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
	ok(t, first.Settler.Release(t.Context()), "release again") // of a claim that has lost its rows
	f.want(held)
}

// testOnceAnew sets such an alarm anew between claim and settlement: the old ring has no say in the new generation.
func testOnceAnew(t *testing.T, f *fixture) {
	id := f.set(t0, set("anew", t0, atMostOnce))[0]
	first := f.claimOnce(t0, id).wantRings(id)
	same(t, "verdict", f.write(t0+1, set("anew", t0+5))[0].Verdict, clock.Rearm)
	before := *f.get("anew")
	first.settle(t0+2, all(clock.Doubtful))
	f.want(before)
	same(t, "attempts", len(f.get("anew").Attempts), 0)
	same(t, "of the new generation", len(f.claimOnce(t0+5, id).Rings), 0)
	f.claim(t0+5, id).wantRings(id)
}
