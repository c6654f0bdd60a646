package storetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// testClaimTakesDueRowsOnly demands that a claim takes the due rows of its request and no others, with all values of
// their rings.
func testClaimTakesDueRowsOnly(t *testing.T, f *fixture) {
	ids := f.set(t0-1000, set("due", t0, latestRingAt(t0+9)), set("now", t0-1, acknowledgedWithin(time.Minute, 3)),
		set("later", t0+1),
		set("not asked", t0-5), set("cancelled", t0), set("paused", t0), set("rung", t0),
		set("options", t0-2, payload([]byte("\x00\xff")), func(s *clock.Set) {
			s.Retry, s.Priority, s.Traceparent = clock.RetryPolicy{Initial: time.Second, Factor: 1, Cap: time.Minute, Limit: 3}, 4, "00-ab-cd-01"
		}))
	f.set(t0, cancel("cancelled"), pause("paused"))
	f.claim(t0, ids[6]).settle(t0, everyRing(clock.Confirmed))
	before := make(map[int64]clock.Alarm)
	for _, id := range []string{"due", "now", "options"} {
		a := f.get(id)
		before[a.ID] = *a
	}

	c := f.claim(t0, ids[0], 1<<60, ids[1], ids[2], ids[4], ids[5], ids[6], ids[7])
	c.wantRings(ids[7], ids[1], ids[0])
	same(t, "ended and deferred", len(c.Ended)+len(c.Deferred), 0)
	for i := range c.Rings {
		same(t, fmt.Sprintf("ring %d", i), c.Rings[i], ringOf(before[c.Rings[i].AlarmID], &c.request))
	}
	if f.timeout > 0 {
		for _, a := range before {
			f.want(afterClaim(a, &c.request))
		}
	}
	for i, fate := range c.settle(t0+3, everyRing(clock.Confirmed)) {
		f.want(afterRing(before[c.Rings[i].AlarmID], fate))
	}
	same(t, "not asked for", f.get("not asked").State, clock.Scheduled)
	f.claim(t0, ids[0], ids[7], ids[6]).wantRings()
}

// ringOf returns the ring that a claim makes of alarm a.
func ringOf(a clock.Alarm, r *store.ClaimRequest) clock.Ring {
	return clock.Ring{
		AlarmID: a.ID, Key: a.Key, Shard: a.Shard, Generation: a.Generation, RingNo: a.RingNo + 1, RingAt: a.RingAt,
		LatestRingAt: a.LatestRingAt, RungAt: r.Now, ClaimID: r.ClaimID, Payload: a.Payload, PayloadKind: a.PayloadKind,
		ContentType: a.ContentType, Retry: a.Retry, AckTimeout: a.AckTimeout, MaxRings: a.MaxRings,
		Priority: a.Priority,
		Delivery: a.Delivery, Traceparent: a.Traceparent, NamedTarget: a.Target, Before: a.RingRow,
	}
}

// testClaimBytes demands that a claim takes the first rings in due order whose payloads fit into MaxBytes, and always
// at least one.
func testClaimBytes(t *testing.T, f *fixture) {
	kib := func(n int) func(*clock.Set) { return payload(make([]byte, n<<10)) }
	k := f.together("a", "b", "c", "d", "e")
	ids := f.set(t0-1000, set(k[0], t0-5, kib(6)), set(k[1], t0-4, kib(6)), set(k[2], t0-3, kib(1)),
		set(k[3], t0-2, kib(60)), set(k[4], t0+1, kib(1)))
	claimUpTo := func(bytes int) *claim {
		r := f.request(t0, ids[4], ids[3], ids[2], ids[1], ids[0])
		r.MaxBytes = bytes
		return f.claimRequest(r)
	}
	wantDeferred := func(c *claim, want ...int64) {
		t.Helper()
		same(t, "deferred", sorted(c.Deferred), append([]int64{}, want...))
	}
	c := claimUpTo(10 << 10).wantRings(ids[0])
	wantDeferred(c, ids[1], ids[2], ids[3])
	c.settle(t0, everyRing(clock.Confirmed))
	c = claimUpTo(7<<10).wantRings(ids[1], ids[2])
	wantDeferred(c, ids[3])
	c.settle(t0, everyRing(clock.Confirmed))
	c = claimUpTo(10 << 10).wantRings(ids[3])
	wantDeferred(c)
	c.settle(t0, everyRing(clock.Confirmed))
	wantDeferred(claimUpTo(10 << 10).wantRings())
}

// testClaimBytesMixed demands that small and large payloads share MaxBytes, also on an engine that takes rows with
// small payloads by another statement.
func testClaimBytesMixed(t *testing.T, f *fixture) {
	kib := func(n int) func(*clock.Set) { return payload(make([]byte, n<<10)) }
	k := f.together("a", "b", "c")
	ids := f.set(t0-1000, set(k[0], t0-5, kib(6)), set(k[1], t0-4, kib(2)), set(k[2], t0-3, kib(2)))
	r := f.request(t0, ids...)
	r.MaxBytes = 7 << 10
	c := f.claimRequest(r).wantRings(ids[0])
	same(t, "deferred", sorted(c.Deferred), []int64{ids[1], ids[2]})
	c.settle(t0, everyRing(clock.Confirmed))
}

// testClaimPayloads claims payloads of very different lengths together.
func testClaimPayloads(t *testing.T, f *fixture) {
	lengths := []int{0, 1, 4 << 10, 4<<10 + 1, 20 << 10, 4 << 10, 200 << 10}
	var ops []clock.Op
	for i, n := range lengths {
		ops = append(ops,
			set(fmt.Sprint("p", i), t0-clock.Instant(i), payload(bytes.Repeat([]byte{byte(i), 0xff, '\''}, n)[:n])))
	}
	c := f.claim(t0, f.set(t0-1000, ops...)...)
	for i := range c.Rings {
		want := ops[len(ops)-1-i].Set
		if r := &c.Rings[i]; r.BusinessID != want.BusinessID || !bytes.Equal(r.Payload, want.Payload) {
			t.Errorf("%d bytes of %s are not the %d of %s", len(r.Payload), r.BusinessID, len(want.Payload),
				want.BusinessID)
		}
	}
	same(t, "rings", len(c.Rings), len(ops))
	c.settle(t0, everyRing(clock.Confirmed))
}

// testClaimTexts demands that rings carry all texts and bytes as they were set. Some of the values look like the
// separators of others.
func testClaimTexts(t *testing.T, f *fixture) {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	content := func(contentType string, p []byte) func(*clock.Set) {
		return func(s *clock.Set) { s.ContentType, s.Payload = contentType, p }
	}
	ops := []clock.Op{
		set("3 7 2", t0, content("text/plain; charset=utf-8", every)),
		set("ä€😀 日本", t0, content("", nil)),
		set(strings.Repeat("😀", 128/4), t0, content("1 2", []byte(" 5 -1 "))),
		set("-1", t0, content("a/b", []byte("\xff\xfe"))),
		set("nul", t0, content("0", []byte{0}), acknowledgedWithin(time.Minute, 2)),
	}
	ids := f.set(t0, ops...)
	for _, reason := range []string{"", "2 voll: ä€😀 -1 ", "5"} { // rounds: as they were set, then after failures
		before, now := make(map[int64]clock.Alarm), t0
		for _, op := range ops {
			a := f.get(op.Set.BusinessID)
			before[a.ID], now = *a, max(now, a.NextTryTime)
		}
		c := f.claim(now, ids...)
		same(t, "rings", len(c.Rings), len(ops))
		for i := range c.Rings {
			same(t, fmt.Sprintf("ring %q", c.Rings[i].BusinessID), c.Rings[i],
				ringOf(before[c.Rings[i].AlarmID], &c.request))
		}
		c.settle(now, func(*clock.Ring) clock.Outcome { return clock.Outcome{Kind: clock.Nacked, Reason: reason} })
	}
}

// testClaimMessages demands that the rings of stored messages have the message and its body, of all lengths, and that a
// message which cannot be unpacked keeps its kind.
func testClaimMessages(t *testing.T, f *fixture) {
	stored := func(p []byte) func(*clock.Set) {
		return func(s *clock.Set) { s.Payload, s.PayloadKind = p, clock.MessagePayload }
	}
	var ops []clock.Op
	want := map[string]*clock.Message{"cut": nil}
	for id, n := range map[string]int{"empty": 0, "short": 10, "long": 20 << 10} {
		m := &clock.Message{Exchange: "orders", RoutingKey: "order." + id, Properties: []byte{0, 0},
			Body: bytes.Repeat([]byte{0xff}, n)}
		packed, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		want[id], ops = m, append(ops, set(id, t0, stored(packed)))
	}
	cut := []byte{1, 200, 'o'}
	ops = append(ops, set("cut", t0, stored(cut)))
	c := f.claim(t0, f.set(t0-1000, ops...)...)
	same(t, "rings", len(c.Rings), len(ops))
	for i := range c.Rings {
		r := &c.Rings[i]
		m := want[r.BusinessID]
		if m == nil {
			same(t, "payload of the cut message", r.Payload, cut)
			same(t, "kind of the cut message", r.PayloadKind, clock.MessagePayload)
			continue
		}
		same(t, "message "+r.BusinessID, r.Message, m)
		same(t, "payload of "+r.BusinessID, r.Payload, m.Body)
		same(t, "kind of "+r.BusinessID, r.PayloadKind, clock.Binary)
	}
	c.settle(t0, everyRing(clock.Confirmed))
	same(t, "kind of a read message", f.get("short").PayloadKind, clock.MessagePayload)
}

// testExpiryAtLatestRingAt demands that an alarm rings in the millisecond of its latest_ring_at, and expires one
// millisecond later.
func testExpiryAtLatestRingAt(t *testing.T, f *fixture) {
	ids := f.set(t0, set("on time", t0, latestRingAt(t0+100)), set("too late", t0, latestRingAt(t0+99)),
		set("failed before", t0, latestRingAt(t0+99)))
	f.claim(t0, ids[2]).settle(t0,
		func(*clock.Ring) clock.Outcome { return clock.Outcome{Kind: clock.Nacked, Reason: "full"} })
	due := f.get("failed before")
	late := *f.get("too late")
	f.exec("UPDATE alarm SET next_try_time = %d WHERE id = %d", t0+5, ids[2])

	c := f.claim(t0+100, ids...).wantRings(ids[0])
	slices.SortFunc(c.Ended, func(a, b store.EndedAlarm) int { return int(a.ID - b.ID) })
	const reason = "latest_ring_at passed before it could be rung"
	same(t, "ended", c.Ended, []store.EndedAlarm{
		{Key: key("too late"), ID: ids[1], State: clock.Expired, Reason: reason},
		{Key: key("failed before"), ID: ids[2], State: clock.Expired, Reason: "full"},
	})
	c.settle(t0+100, everyRing(clock.Confirmed))
	same(t, "state", f.get("on time").State, clock.Rung)
	f.want(afterEnd(late, clock.TooLate, t0+100))
	same(t, "last error", f.get("failed before").LastError, "full")
	same(t, "retries", f.get("failed before").RetryTimes, due.RetryTimes)
	f.claim(t0+101, ids...).wantRings()
}

// testAcknowledge rings an alarm without an answer again, with the next ring number, until max_rings.
func testAcknowledge(t *testing.T, f *fixture) {
	id := f.set(t0, set("ack", t0, acknowledgedWithin(time.Minute, 2)))[0]
	now := t0
	for no := 1; no <= 2; no++ {
		f.claim(now-1, id).wantRings()
		c := f.claim(now, id).wantRings(id)
		same(t, "ring no", c.Rings[0].RingNo, no)
		same(t, "in doubt", c.Rings[0].InDoubt(), false)
		c.settle(now, everyRing(clock.Confirmed))
		a := f.get("ack")
		same(t, "state", a.State, clock.Ringing)
		same(t, "rung at", a.RungAt, now)
		same(t, "ring no stored", a.RingNo, no)
		same(t, "claim id", a.ClaimID, c.request.ClaimID)
		now = now.Add(time.Minute)
		same(t, "next try", a.NextTryTime, now)
	}
	before := *f.get("ack")
	c := f.claim(now, id).wantRings()
	same(t, "ended", c.Ended,
		[]store.EndedAlarm{{Key: key("ack"), ID: id, State: clock.Dead, Reason: "not acknowledged after 2 rings"}})
	f.want(afterEnd(before, clock.Unacknowledged, now))
}

// testRingAgainFails fails the second ring of an alarm: the values of the first ring stay.
func testRingAgainFails(t *testing.T, f *fixture) {
	for _, k := range []clock.OutcomeKind{clock.Returned, clock.Doubtful, clock.Unsent} {
		name := "again " + k.String()
		id := f.set(t0, set(name, t0, acknowledgedWithin(time.Minute, 5)))[0]
		f.claim(t0, id).settle(t0, everyRing(clock.Confirmed))
		first := *f.get(name)
		now := t0.Add(time.Minute)
		c := f.claim(now, id).wantRings(id)
		same(t, "ring no", c.Rings[0].RingNo, 2)
		fate := c.settle(now, everyRing(k))[0]
		f.want(afterRing(first, fate))
	}
}

// testSettle settles one claim of 300 rings with all outcomes.
func testSettle(t *testing.T, f *fixture) {
	const n = 300
	ids := f.set(t0, sets(names("mix", n), t0, retryLimit(1))...)
	f.set(t0, set("mix-00006", t0, acknowledgedWithin(time.Minute, 2), retryLimit(1)),
		set("mix-00007", t0, retryLimit(0)), set("mix-00008", t0, retryLimit(0)))
	kinds := clock.OutcomeKinds()
	outcome := func(r *clock.Ring) clock.Outcome {
		i := slices.Index(ids, r.AlarmID)
		o := everyRing(kinds[i%len(kinds)])(r)
		if o.Kind == clock.Nacked {
			o.Reason = fmt.Sprintf("queue %d is 'full' – \\ %%", i)
		}
		return o
	}
	before := make(map[int64]clock.Alarm, n)
	for _, a := range f.list(clock.ListQuery{}) {
		before[a.ID] = a
	}
	c := f.claim(t0, ids...)
	same(t, "rings", len(c.Rings), n)
	fates := c.settle(t0+7, outcome)
	for i, fate := range fates {
		r := c.Rings[i]
		a := before[r.AlarmID]
		f.want(afterRing(a, fate))
		f.wantAttempts(a.BusinessID, attemptsOf(&a, &r, fate, t0+7)...)
	}
}

// attemptsOf returns the attempts that the fate of a ring adds, the newest first. before is the alarm before the claim.
func attemptsOf(before *clock.Alarm, r *clock.Ring, f clock.Fate, now clock.Instant) []clock.Attempt {
	var attempts []clock.Attempt
	if !leavesNoAttempt(f.Outcome.Kind) {
		attempts = append(attempts, clock.Attempt{
			Generation: r.Generation, RingNo: r.RingNo, ClaimID: r.ClaimID, Time: now, Outcome: f.Outcome.Kind,
			Error: f.Outcome.Reason,
		})
	}
	if before.Unacknowledged() && !f.Outcome.Kind.NotSent() {
		attempts = append(attempts, unansweredAttempt(before, r.RungAt))
	}
	return attempts
}

// unansweredAttempt returns the attempt that records the alarm's last ring as unanswered at now.
func unansweredAttempt(a *clock.Alarm, now clock.Instant) clock.Attempt {
	return clock.Attempt{Generation: a.Generation, RingNo: a.RingNo, ClaimID: a.ClaimID, Time: now,
		Outcome: clock.Unacknowledged}
}

// leavesNoAttempt reports whether an outcome adds no attempt: the ring arrived, or no byte of it was sent.
func leavesNoAttempt(k clock.OutcomeKind) bool {
	return k == clock.Confirmed || k.NotSent()
}

func (f *fixture) wantAttempts(id string, want ...clock.Attempt) {
	f.t.Helper()
	same(f.t, "attempts of "+id, f.get(id).Attempts, append([]clock.Attempt{}, want...))
}

// testAttempts demands that an alarm keeps its newest attempts, the newest first, across generations.
func testAttempts(t *testing.T, f *fixture) {
	const tries = clock.MaxAttempts + 5
	ids := f.set(t0, set("often", t0), set("seldom", t0))
	now := t0
	var want []clock.Attempt
	f.claim(now, ids[1]).settle(now, everyRing(clock.Nacked))
	seldom := f.get("seldom").Attempts
	for i := range tries {
		c := f.claim(now, ids[0]).wantRings(ids[0])
		same(t, "ring no", c.Rings[0].RingNo, 1)
		same(t, "retry times", c.Rings[0].RetryTimes(), i)
		same(t, "message id", c.Rings[0].MessageID(), fmt.Sprintf("%d.1.1", ids[0]))
		reason := fmt.Sprintf("try %d: größer ✗", i)
		fate := c.settle(now,
			func(*clock.Ring) clock.Outcome { return clock.Outcome{Kind: clock.Nacked, Reason: reason} })[0]
		want = append(attemptsOf(f.get("often"), &c.Rings[0], fate, now), want...)
		want = want[:min(len(want), clock.MaxAttempts)]
		f.wantAttempts("often", want...)
		now = fate.NextTryTime
	}
	f.wantAttempts("seldom", seldom...)
	same(t, "verdict", f.write(now, set("often", now+1))[0].Verdict, clock.Replace)
	a := f.get("often")
	same(t, "generation, retries, error", fmt.Sprint(a.Generation, a.RetryTimes, a.LastError, a.RingNo),
		fmt.Sprint(2, 0, "", 0))
	f.wantAttempts("often", want...)
}

// testRelease demands that a release restores the rows to their state before the claim.
func testRelease(t *testing.T, f *fixture) {
	ids := f.set(t0, set("fresh", t0), set("failed", t0), set("ringing", t0, acknowledgedWithin(time.Second, 3)),
		set("expired", t0, latestRingAt(t0)))
	f.claim(t0, ids[1]).settle(t0, everyRing(clock.Doubtful))
	f.claim(t0, ids[2]).settle(t0, everyRing(clock.Confirmed))
	now := t0.Add(time.Second)
	var before []clock.Alarm
	for _, id := range []string{"fresh", "failed", "ringing"} {
		before = append(before, *f.get(id))
	}
	c := f.claim(now, ids...)
	same(t, "rings", len(c.Rings), 3)
	c.release()
	for _, a := range before {
		f.want(a)
	}
	again := f.claim(now, ids...)
	same(t, "rings", sorted(again.ids()), ids[:3])
	for i, r := range again.Rings {
		r.ClaimID = c.Rings[i].ClaimID
		same(t, "ring after the release", r, c.Rings[i])
	}
}

// testLockedRows claims while another claim holds some of the rows: the claim takes the free rows at once.
func testLockedRows(t *testing.T, f *fixture) {
	ids := f.set(t0, sets(names("row", 50), t0)...)
	other := f.other()
	held := other.claim(t0, ids[10:20]...)
	same(t, "rings", len(held.Rings), 10)
	ctx, stop := context.WithTimeout(t.Context(), hangTimeout)
	defer stop()
	got, err := f.Claim(ctx, f.request(t0, ids...))
	ok(t, err, "claim beside held rows")
	c := &claim{f: f, Claim: got, unsettled: true}
	same(t, "rings", sorted(c.ids()), slices.Concat(ids[:10], ids[20:]))
	c.settle(t0, everyRing(clock.Confirmed))
	held.settle(t0, everyRing(clock.Confirmed))
	for _, id := range names("row", 50) {
		same(t, "state of "+id, f.get(id).State, clock.Rung)
	}
}

// testClaimRace lets claimers and a canceller compete for the same rows. Every alarm either rings once or is cancelled.
func testClaimRace(t *testing.T, f *fixture) {
	for round := range 4 {
		const n, claimers = 120, 4
		ops := sets(names(fmt.Sprintf("race-%d", round), n), t0)
		race := &claimRace{f: f, ids: f.set(t0, ops...), rung: make([][]int64, claimers),
			cancelled: make(map[int64]bool)}
		var g errgroup.Group
		for claimer := range claimers {
			g.Go(func() error { return race.claim(claimer) })
		}
		g.Go(func() error { return race.cancel(ops) })
		ok(t, g.Wait(), "race")
		race.check(ops)
	}
}

type claimRace struct {
	f         *fixture
	ids       []int64
	rung      [][]int64 // ids by claimer
	cancelled map[int64]bool
}

// claim rings the alarms that it can take until no alarm is overdue.
func (r *claimRace) claim(claimer int) error {
	for {
		late, err := r.f.Overdue(r.f.t.Context(), t0, r.f.shards(), 1)
		if err != nil || late.Count == 0 {
			return err
		}
		ids := slices.Clone(r.ids)
		rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
		c, err := r.f.tryClaim(r.f.request(t0, ids[:40]...))
		if err != nil {
			return err
		}
		if _, err := c.trySettle(t0, everyRing(clock.Confirmed)); err != nil {
			return err
		}
		r.rung[claimer] = append(r.rung[claimer], c.ids()...)
	}
}

// cancel cancels every third alarm. It repeats each cancel until its verdict is not Wait.
func (r *claimRace) cancel(ops []clock.Op) error {
	for i := len(ops) - 1; i >= 0; i -= 3 {
		d, err := r.f.writeUntilUnlocked(clock.Op{Cancel: &clock.Cancel{Key: ops[i].Key()}})
		if err != nil {
			return err
		}
		if d.Verdict != clock.Disarm && d.Verdict != clock.Refuse {
			return fmt.Errorf("cancel: %s", d.Verdict)
		}
		r.cancelled[r.ids[i]] = d.Verdict == clock.Disarm
	}
	return nil
}

func (r *claimRace) check(ops []clock.Op) {
	count := make(map[int64]int)
	for _, id := range slices.Concat(r.rung...) {
		count[id]++
	}
	for i, id := range r.ids {
		name := ops[i].Key().BusinessID
		a := r.f.get(name)
		want := clock.Rung
		if r.cancelled[id] {
			want = clock.Cancelled
		}
		same(r.f.t, "state of "+name, a.State, want)
		same(r.f.t, "rings of "+name, count[id], a.RingNo)
		same(r.f.t, "rung once or cancelled: "+name, count[id] == 1, want == clock.Rung)
	}
}

// testTakeover claims a row whose two-phase claim has ended. The ring repeats its ring number and is in doubt. The
// first claim can no longer change the row.
func testTakeover(t *testing.T, f *fixture) {
	ids := f.set(t0, set("a", t0, retryLimit(0)), set("b", t0), set("c", t0))
	end := t0.Add(f.timeout)
	first := f.claim(t0, ids...)
	f.claim(end-1, ids...).wantRings()
	second := f.claim(end, ids[0], ids[1]).wantRings(ids[0], ids[1])
	for _, r := range second.Rings {
		same(t, "ring number and in doubt", fmt.Sprint(r.RingNo, r.InDoubt(), r.RetryTimes()), fmt.Sprint(1, true, 0))
	}
	held := *f.get("a")
	first.settle(end+5, everyRing(clock.Refused))
	f.want(held)
	same(t, "attempts", len(f.get("a").Attempts), 0)
	same(t, "retries of the row not taken over", f.get("c").RetryTimes, 1)
	second.settle(end+9, everyRing(clock.Confirmed))
	for _, id := range []string{"a", "b"} {
		a := f.get(id)
		same(t, "state, ring no, doubt, claim of "+id,
			fmt.Sprint(a.State, a.RingNo, a.InDoubt, a.ClaimID, a.RungAt, a.FinishedAt),
			fmt.Sprint(clock.Rung, 1, false, second.request.ClaimID, end, end))
	}
}

// testLateConfirmation confirms a two-phase claim of several generations after the claim has ended. A row that another
// claim has taken meanwhile stays unchanged.
func testLateConfirmation(t *testing.T, f *fixture) {
	ids := f.set(t0, set("a", t0), set("b", t0), set("taken", t0), set("ack", t0, acknowledgedWithin(time.Minute, 3)))
	f.set(t0-1000, set("b", t0-1))
	end := t0.Add(f.timeout)
	first := f.claim(t0, ids...).wantRings(ids[1], ids[0], ids[2], ids[3])
	second := f.claim(end, ids[2]).wantRings(ids[2])
	held := *f.get("taken")
	first.settle(end+5, everyRing(clock.Confirmed))
	f.want(held)
	for id, want := range map[string]clock.Instant{"a": clock.NoInstant, "b": clock.NoInstant, "ack": t0.Add(time.Minute)} {
		a := f.get(id)
		same(t, "next try, ring no, claim, times of "+id,
			fmt.Sprint(a.NextTryTime, a.RingNo, a.ClaimID, a.RungAt, a.UpdateTime),
			fmt.Sprint(want, 1, first.request.ClaimID, t0, t0))
	}
	second.settle(end+6, everyRing(clock.Confirmed))
	same(t, "claim", f.get("taken").ClaimID, second.request.ClaimID)
}

// testLateRelease releases a claim after another claim has taken its row: the row stays unchanged.
func testLateRelease(t *testing.T, f *fixture) {
	id := f.set(t0, set("a", t0))[0]
	first := f.claim(t0, id)
	second := f.claim(t0.Add(f.timeout), id).wantRings(id)
	held := *f.get("a")
	first.release()
	f.want(held)
	second.settle(t0.Add(f.timeout), everyRing(clock.Confirmed))
	same(t, "state", f.get("a").State, clock.Rung)
}

// testCrash never ends a claim: its rows ring again.
func testCrash(t *testing.T, f *fixture) {
	ids := f.set(t0, sets(names("lost", 10), t0)...)
	other := f.other()
	lost := other.claim(t0, ids...)
	same(t, "rings", len(lost.Rings), 10)
	lost.unsettled = false
	now := t0
	if f.timeout > 0 {
		ok(t, other.Close(), "close")
		now = t0.Add(f.timeout)
	} else {
		f.db.Kill(t)
		if _, err := lost.trySettleAfterCrash(); err == nil {
			t.Fatal("the settlement of a claim whose connection was cut reports success")
		}
		f.reconnect()
	}
	c := f.claim(now, ids...)
	same(t, "rings", sorted(c.ids()), ids)
	for _, r := range c.Rings {
		same(t, "ring number and in doubt", fmt.Sprint(r.RingNo, r.InDoubt()), fmt.Sprint(1, f.timeout > 0))
	}
	c.settle(now, everyRing(clock.Confirmed))
	same(t, "ring no", f.get("lost-00003").RingNo, 1)
}
