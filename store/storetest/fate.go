package storetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// fateRows is the number of random rows of a round. Each statement of a claim meets some of them.
const fateRows = 60

// fateRound is a claim of random rows, and its end.
type fateRound struct {
	name     string
	expire   bool                // Expire runs before the claim
	answered bool                // no row is unacknowledged, so a confirmed ring leaves no attempt
	outcomes []clock.OutcomeKind // outcomes to draw from; empty: the claim is released
}

func fateRounds() []fateRound {
	confirmed, all := []clock.OutcomeKind{clock.Confirmed}, clock.OutcomeKinds()
	return []fateRound{
		{name: "confirmed without attempts", answered: true, outcomes: confirmed},
		{name: "confirmed", outcomes: confirmed},
		{name: "mixed", outcomes: all},
		{name: "mixed without unacknowledged rings", answered: true, outcomes: all},
		{name: "failed", outcomes: []clock.OutcomeKind{clock.Returned, clock.Nacked, clock.Refused}},
		{name: "doubtful", outcomes: []clock.OutcomeKind{clock.Doubtful}},
		{name: "expired before", expire: true, outcomes: all},
		{name: "released"},
	}
}

// testFates claims random rows and settles their rings with random outcomes. After each step every row is the row that
// clock.FateOf returns, or RowAfterClaim while a committed claim is open. So a statement that writes an outcome without
// FateOf equals that function.
func testFates(t *testing.T, f *fixture) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for _, round := range fateRounds() {
		for _, once := range []bool{false, true} {
			f.empty()
			c := &fateCheck{f: f, random: random, round: round, want: make(map[int64]clock.Alarm)}
			c.what = fmt.Sprintf("seed %d, %s, at most once %t: ", seed, round.name, once)
			c.insert()
			c.run(once)
		}
	}
}

// fateCheck is one round with its expected rows.
type fateCheck struct {
	f      *fixture
	random *rand.Rand
	round  fateRound
	what   string
	want   map[int64]clock.Alarm // expected rows with attempts, by alarm id
}

// insert inserts random due rows.
func (c *fateCheck) insert() {
	ops := sets(names("fate", fateRows), t0)
	for i := range ops {
		c.drawContent(ops[i].Set)
	}
	for _, id := range c.f.set(t0-1000, ops...) {
		if c.random.IntN(4) > 0 { // the other rows stay as they were set
			c.changeRow(id)
		}
	}
	for _, a := range c.f.list(clock.ListQuery{}) {
		c.want[a.ID] = a
	}
	same(c.f.t, c.what+"rows", len(c.want), fateRows)
}

func (c *fateCheck) drawContent(s *clock.Set) {
	s.RingAt = t0 - clock.Instant(c.random.IntN(3))
	s.MaxRings = 1 + c.random.IntN(3)
	s.Retry = clock.RetryPolicy{Initial: time.Second, Factor: 2, Cap: time.Minute, Limit: c.random.IntN(4) - 1}
	if c.random.IntN(2) == 0 {
		s.AckTimeout = time.Minute
	}
	if c.random.IntN(2) == 0 {
		s.Delivery = clock.AtMostOnce
	}
	if c.random.IntN(3) == 0 {
		s.LatestRingAt = t0 - 2 + clock.Instant(c.random.IntN(20))
	}
}

// changeRow gives a row a random history with plain SQL.
func (c *fateCheck) changeRow(id int64) {
	state, rungAt := clock.Scheduled, "NULL"
	if c.random.IntN(2) == 0 {
		rungAt = fmt.Sprint(int64(t0 - 500))
	}
	if c.random.IntN(2) == 0 {
		state = clock.Ringing
		if c.round.answered {
			rungAt = "NULL"
		}
	}
	pick := func(texts ...string) string { return texts[c.random.IntN(len(texts))] }
	c.f.exec("UPDATE alarm SET state = %d, rung_at = %s, generation = %d, next_try_time = %d, ring_no = %d, retry_times = %d, in_doubt = %d, "+
		"last_error = '%s', claim_id = '%s', update_time = %d WHERE id = %d",
		state, rungAt, 1+c.random.IntN(2), t0-clock.Instant(c.random.IntN(3)), c.random.IntN(3), c.random.IntN(3),
		c.random.IntN(2),
		pick("", "no queue – ö"), pick("", "an older claim"), t0-clock.Instant(c.random.IntN(400)), id)
}

func (c *fateCheck) run(once bool) {
	if c.round.expire {
		c.f.expireAll(t0, 7)
		c.end()
		c.check("after Expire")
	}
	r := c.f.request(t0, slices.Collect(maps.Keys(c.want))...)
	r.AtMostOnce = once
	claim := c.f.claimRequest(r)
	c.end()
	ended := maps.Clone(c.want)
	rings := 0
	for id, a := range ended {
		if a.NextTryTime == clock.NoInstant || (a.Delivery == clock.AtMostOnce) != once {
			continue
		}
		rings++
		if r.Kind() != store.Held {
			c.want[id] = afterClaim(a, &r)
		}
	}
	same(c.f.t, c.what+"rings", len(claim.Rings), rings)
	c.checkList("after the claim")
	c.want = ended
	c.finish(claim)
	c.check("after the end of the claim")
}

// end ends the expected rows that may not ring any more: the expired rows, and the rows that have used up their rings.
func (c *fateCheck) end() {
	for id, a := range c.want {
		switch {
		case a.NextTryTime == clock.NoInstant:
		case a.LatestRingAt != clock.NoInstant && a.LatestRingAt < t0:
			c.want[id] = afterEnd(a, clock.TooLate, t0)
		case a.Unacknowledged() && a.RingNo >= a.MaxRings:
			ended := afterEnd(a, clock.Unacknowledged, t0)
			ended.Attempts = []clock.Attempt{unansweredAttempt(&a, t0)}
			c.want[id] = ended
		}
	}
}

// finish settles or releases the claim.
func (c *fateCheck) finish(claim *claim) {
	if len(c.round.outcomes) == 0 {
		claim.release()
		return
	}
	now := t0 + clock.Instant(c.random.IntN(2)*7)
	fates := claim.settle(now, func(*clock.Ring) clock.Outcome {
		o := everyRing(c.round.outcomes[c.random.IntN(len(c.round.outcomes))])(nil)
		if c.random.IntN(3) == 0 {
			o.Reason = ""
		}
		if c.random.IntN(2) == 0 { // the reply of a receiver says more than the outcome's kind
			o.Acknowledged, o.Final, o.Counted = o.Kind == clock.Confirmed, o.Kind == clock.Nacked, o.Kind == clock.Doubtful
			o.RetryAfter = time.Duration(c.random.IntN(3)) * time.Minute
		}
		return o
	})
	for i, fate := range fates {
		r := &claim.Rings[i]
		a := c.want[r.AlarmID]
		same(c.f.t, c.what+"ring", *r, ringOf(a, &claim.request))
		want := afterRing(a, fate)
		want.Attempts = attemptsOf(&a, r, fate, now)
		c.want[a.ID] = want
	}
}

// check compares all rows and their attempts.
func (c *fateCheck) check(when string) {
	c.f.t.Helper()
	for _, want := range c.want {
		same(c.f.t, c.what+when, *c.f.get(want.BusinessID), want)
	}
}

// checkList compares all rows in one read, without their attempts: a server ends an open claim that is idle for long.
func (c *fateCheck) checkList(when string) {
	c.f.t.Helper()
	got := c.f.list(clock.ListQuery{})
	same(c.f.t, c.what+when, len(got), len(c.want))
	for _, a := range got {
		want := c.want[a.ID]
		want.Attempts = nil
		same(c.f.t, c.what+when, a, want)
	}
}
