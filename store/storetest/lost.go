package storetest

import (
	"testing"

	"github.com/clockd/clockd/clock"
)

// lostRow is a committed claim of two rows that loses the first one.
type lostRow struct {
	name    string
	options []func(*clock.Set)
	claim   func(f *fixture, ids []int64) *claim
	lose    func(f *fixture, id int64) (due clock.Instant) // changes the first row, which is then due again
	// settle finishes the claim, and returns the expected second row.
	settle func(c *claim, now clock.Instant, kept clock.Alarm) clock.Alarm
}

func lostRows() []lostRow {
	claimTwoPhase := func(f *fixture, ids []int64) *claim { return f.claim(t0, ids...) }
	claimAgain := func(now clock.Instant) func(f *fixture, id int64) clock.Instant {
		return func(f *fixture, id int64) clock.Instant {
			return f.claim(now, id).wantRings(id).settle(now, everyRing(clock.Returned))[0].NextTryTime
		}
	}
	settle := func(k clock.OutcomeKind) func(c *claim, now clock.Instant, kept clock.Alarm) clock.Alarm {
		return func(c *claim, now clock.Instant, kept clock.Alarm) clock.Alarm {
			return afterRing(kept, c.settle(now, everyRing(k))[1])
		}
	}
	return []lostRow{
		{
			name: "at most once", options: []func(*clock.Set){atMostOnce}, settle: settle(clock.Returned),
			claim: func(f *fixture, ids []int64) *claim { return f.claimOnce(t0, ids...) },
			lose: func(f *fixture, _ int64) clock.Instant {
				f.set(t0, set("lost", t0+5))
				return t0 + 5
			},
		},
		{name: "two-phase, returned", claim: claimTwoPhase, lose: claimAgain(t0.Add(claimTimeout)),
			settle: settle(clock.Returned)},
		{name: "two-phase, confirmed", claim: claimTwoPhase, lose: claimAgain(t0.Add(claimTimeout)),
			settle: settle(clock.Confirmed)},
		{
			name: "two-phase, released", claim: claimTwoPhase, lose: claimAgain(t0.Add(claimTimeout)),
			settle: func(c *claim, _ clock.Instant, kept clock.Alarm) clock.Alarm {
				c.release()
				return kept
			},
		},
		{
			name: "awaited", lose: claimAgain(t0.Add(clock.AwaitTimeout)),
			claim: func(f *fixture, ids []int64) *claim {
				c := f.claim(t0, ids...)
				c.settle(t0, everyRing(clock.Awaited))
				return c
			},
			settle: func(c *claim, now clock.Instant, kept clock.Alarm) clock.Alarm {
				return afterRing(kept, c.settleLate(now, c.Rings, everyRing(clock.Nacked))[1])
			},
		},
	}
}

// testSettleBesideHeldRow finishes committed claims that have lost a row, while another claim holds that row. The
// settlement does not wait for the row and does not change it. It writes the other row.
func testSettleBesideHeldRow(t *testing.T, f *fixture) {
	for _, l := range lostRows() {
		t.Run(l.name, func(t *testing.T) {
			f.empty()
			committing := &fixture{t: t, db: f.db, timeout: claimTimeout, Store: f.Store}
			holding := &fixture{t: t, db: f.db, timeout: f.timeout, Store: f.Store}
			ids := committing.set(t0, set("lost", t0, l.options...), set("kept", t0, l.options...))
			kept := *committing.get("kept")
			c := l.claim(committing, ids).wantRings(ids...)
			now := l.lose(committing, ids[0])
			held := holding.claim(now, ids[0]).wantRings(ids[0])
			lost := *committing.get("lost")
			want := l.settle(c, now, kept)
			committing.want(lost)
			committing.want(want)
			held.settle(now, everyRing(clock.Confirmed))
			same(t, "state of the lost row", committing.get("lost").State, clock.Rung)
		})
	}
}
