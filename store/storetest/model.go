package storetest

import (
	"cmp"
	"context"
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// testModel runs random histories against the store and against a model. The model is a map that changes only by
// clock.Op.Decide and clock.FateOf. The test compares every result, and every row after each step.
func testModel(t *testing.T, f *fixture) {
	if checks := flag.Lookup("rapid.checks"); partly() && checks.Value.String() == checks.DefValue {
		ok(t, checks.Value.Set("10"), "set -rapid.checks")
		t.Cleanup(func() { _ = checks.Value.Set(checks.DefValue) })
	}
	rapid.Check(t, func(rt *rapid.T) {
		f.empty()
		m := &model{f: f, rt: rt, now: t0, rows: make(map[clock.Key]*clock.Alarm), held: make(map[clock.Key]bool)}
		defer m.abandon()
		rt.Repeat(map[string]func(*rapid.T){
			"write":   m.inTime(m.write),
			"claim":   m.inTime(m.claim),
			"settle":  m.inTime(m.settle),
			"release": m.inTime(m.release),
			"forget":  m.inTime(m.loseClaim),
			"expire":  m.inTime(m.expire),
			"purge":   m.inTime(m.purge),
			"due":     m.inTime(m.due),
			"wait":    m.inTime(m.wait),
			"":        m.check,
		})
	})
}

// model is the expected content of the store.
type model struct {
	f          *fixture
	rt         *rapid.T
	now        clock.Instant
	rows       map[clock.Key]*clock.Alarm
	held       map[clock.Key]bool // keys of held claims: no other call may change or decide them
	openClaims []*modelClaim
	lastID     int64 // highest id given so far
}

// modelClaim is an open claim.
type modelClaim struct {
	*store.Claim
	request store.ClaimRequest
	before  map[int64]clock.Alarm
	opened  time.Time // by the wall clock, which the server's limit for idle transactions counts
}

// modelKeys are few, so that the steps of a history meet on the same keys.
var modelKeys = []clock.Key{
	key("a"), key("A"), key("b/%"), key("ü"), {Application: "bank", BusinessID: "a"},
	{Application: "bank", BusinessID: "c"},
}

// drawSet returns a set of few possible contents, so that some sets repeat stored ones.
func (m *model) drawSet(rt *rapid.T, k clock.Key) clock.Op {
	at := m.now + clock.Instant(rapid.IntRange(-2, 6).Draw(rt, "ring in")*500)
	op := set(k.BusinessID, at, inApplication(k.Application))
	s := op.Set
	if rapid.IntRange(0, 3).Draw(rt, "bounded") == 0 {
		s.LatestRingAt = at + clock.Instant(rapid.IntRange(0, 3).Draw(rt, "latest after")*500)
	}
	if rapid.IntRange(0, 2).Draw(rt, "acknowledged") == 0 {
		s.AckTimeout, s.MaxRings = time.Second, rapid.IntRange(1, 3).Draw(rt, "max rings")
	} else if rapid.Bool().Draw(rt, "at most once") {
		s.Delivery = clock.AtMostOnce
	}
	s.Priority = rapid.IntRange(0, 2).Draw(rt, "priority")
	s.Target = rapid.SampledFrom([]clock.TargetKind{clock.NoTarget, clock.TargetStream, clock.TargetPull}).Draw(rt,
		"target")
	s.Retry = clock.RetryPolicy{Initial: 500 * time.Millisecond, Factor: 1, Cap: time.Second,
		Limit: rapid.IntRange(-1, 2).Draw(rt, "limit")}
	if row := m.rows[k]; row != nil && rapid.Bool().Draw(rt, "repeat") {
		s.Content = row.Content
	}
	s.If.Kind = rapid.SampledFrom([]clock.ConditionKind{
		clock.AnyRow, clock.AnyRow, clock.AnyRow, clock.Absent, clock.Earlier, clock.Later, clock.AtGeneration,
	}).Draw(rt, "if")
	if s.If.Kind == clock.AtGeneration {
		s.If.Generation = int64(rapid.IntRange(0, 4).Draw(rt, "generation"))
	}
	if rapid.IntRange(0, 5).Draw(rt, "room") == 0 {
		withoutRoom(s)
	}
	return op
}

func (m *model) write(rt *rapid.T) {
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom(modelKeys), 1, len(modelKeys), rapid.ID).Draw(rt, "keys")
	ops := make([]clock.Op, len(keys))
	for i, k := range keys {
		ops[i] = m.drawOp(rt, k)
	}
	got, err := m.f.tryWrite(m.now, ops...)
	if err != nil {
		rt.Fatalf("write: %v", err)
	}
	known := m.lastID
	for i, d := range got {
		if d.Verdict == clock.Create && d.Alarm.ID <= known {
			rt.Fatalf("id %d came after %d", d.Alarm.ID, known)
		}
		m.checkDecision(rt, ops[i], d)
	}
}

func (m *model) drawOp(rt *rapid.T, k clock.Key) clock.Op {
	switch rapid.SampledFrom([]string{"set", "set", "set", "cancel", "answer", "answer", "resend", "kick", "discard", "pause", "resume", "trigger", "backfill", "end backfill"}).Draw(rt, "op") {
	case "cancel":
		return clock.Op{Cancel: &clock.Cancel{Key: k, Brief: rapid.Bool().Draw(rt, "brief")}}
	case "answer":
		return m.drawAnswer(rt, k)
	case "resend":
		if row := m.rows[k]; row != nil {
			return resend(row, row.RingNo+rapid.SampledFrom([]int{0, 0, 1}).Draw(rt, "ring"))
		}
		return resend(&clock.Alarm{Key: k, ID: 1, Generation: 1}, 1)
	case "kick":
		return clock.Op{Kick: &clock.Kick{Key: k}}
	case "discard":
		return clock.Op{Discard: &clock.Discard{Key: k}}
	case "pause":
		return clock.Op{Pause: &clock.Pause{Key: k}}
	case "resume":
		return clock.Op{Resume: &clock.Resume{Key: k}}
	case "trigger":
		return clock.Op{Trigger: &clock.Trigger{Key: k}}
	case "backfill":
		return clock.Op{Backfill: &clock.Backfill{Key: k, From: m.now - 20_000, Until: clock.NoInstant, Pace: time.Second}}
	case "end backfill":
		return clock.Op{EndBackfill: &clock.EndBackfill{Key: k}}
	default:
		return m.drawSet(rt, k)
	}
}

// drawAnswer returns an answer, mostly to the latest ring of the row.
func (m *model) drawAnswer(rt *rapid.T, k clock.Key) clock.Op {
	a := &clock.Answer{Key: k, Ring: clock.RingID{AlarmID: 1, Generation: 1, RingNo: 1}, Reason: "because",
		By: "10.0.0.7"}
	if row := m.rows[k]; row != nil {
		a.Ring = clock.RingID{AlarmID: row.ID, Generation: row.Generation,
			RingNo: row.RingNo + rapid.SampledFrom([]int{0, 0, 1}).Draw(rt, "ring")}
	}
	a.Kind = rapid.SampledFrom([]clock.AnswerKind{clock.Ack, clock.Release, clock.Bury, clock.Touch}).Draw(rt, "kind")
	a.Delay = clock.Delay{Given: true, Span: time.Second}
	return clock.Op{Answer: a}
}

// checkDecision compares one decision with the model's decision and writes it to the model.
func (m *model) checkDecision(rt *rapid.T, op clock.Op, got clock.Decision) {
	k := op.Key()
	row := m.rows[k]
	if m.held[k] {
		equal(rt, "verdict on held "+k.BusinessID, got.Verdict, clock.Locked)
		return
	}
	want := op.Decide(row, m.now)
	equal(rt, "verdict on "+k.BusinessID, got.Verdict, want.Verdict)
	if want.Verdict == clock.Create {
		want.Alarm.ID, want.Alarm.Shard = got.Alarm.ID, k.Shard(m.f.ShardCount())
		m.lastID = max(m.lastID, got.Alarm.ID)
	}
	wantRow := want.Alarm
	wantRow.Attempts = nil
	equal(rt, "alarm in the result for "+k.BusinessID, askedFields(op, got.Alarm), askedFields(op, wantRow))
	if want.Writes() {
		a := want.Alarm
		if row != nil {
			a.Attempts = row.Attempts
			if want.Attempt != nil {
				a.Attempts = newestAttempts(append([]clock.Attempt{*want.Attempt}, a.Attempts...))
			}
		}
		m.rows[k] = &a
	}
}

// claim claims some of the alarms, and an id that does not exist.
func (m *model) claim(rt *rapid.T) {
	if len(m.openClaims) == 3 {
		rt.Skip("enough claims")
	}
	ids := []int64{1 << 50}
	for _, k := range modelKeys {
		if row := m.rows[k]; row != nil && rapid.IntRange(0, 3).Draw(rt, "ask for "+k.BusinessID) > 0 {
			ids = append(ids, row.ID)
		}
	}
	r := m.f.request(m.now, ids...)
	r.MaxBytes = 1 << 20
	if !m.f.distributed { // there each placement has a part of the limit
		r.MaxBytes = rapid.SampledFrom([]int{1, 20, 1 << 20}).Draw(rt, "max bytes")
	}
	r.AtMostOnce = rapid.Bool().Draw(rt, "once")
	r.Named = map[int64]store.Named{}
	for _, row := range m.rows {
		if rapid.IntRange(0, 9).Draw(rt, "knows the target") > 0 {
			r.Named[row.ID] = store.NamedBy(&row.Content)
		}
	}
	c, err := m.f.tryClaim(r)
	if err != nil {
		rt.Fatalf("claim: %v", err)
	}
	m.checkClaim(rt, c)
}

// checkClaim compares a claim with the rows that the model takes.
func (m *model) checkClaim(rt *rapid.T, c *claim) {
	r := c.request
	opened := &modelClaim{Claim: c.Claim, request: r, before: make(map[int64]clock.Alarm), opened: time.Now()}
	if c.Settler != nil {
		m.openClaims = append(m.openClaims, opened)
	}
	var rings []clock.Ring
	ended, deferred, once := []store.EndedAlarm{}, []int64{}, []int64{}
	size := 0
	for _, row := range m.dueRows() {
		if !slices.Contains(r.IDs, row.ID) || m.held[row.Key] || r.Named[row.ID] != store.NamedBy(&row.Content) {
			continue
		}
		if e, ends := m.endRow(row); ends {
			ended = append(ended, e)
			continue
		}
		if (row.Delivery == clock.AtMostOnce) != r.AtMostOnce {
			if !r.AtMostOnce {
				once = append(once, row.ID)
			}
			continue
		}
		if len(deferred) > 0 || len(rings) > 0 && size+len(row.Payload) > r.MaxBytes {
			deferred = append(deferred, row.ID)
			continue
		}
		size += len(row.Payload)
		opened.before[row.ID] = *row
		rings = append(rings, m.takeRow(row, c))
	}
	equal(rt, "rings", c.Rings, rings)
	byID := func(a, b store.EndedAlarm) int { return cmp.Compare(a.ID, b.ID) }
	equal(rt, "ended", slices.SortedFunc(slices.Values(c.Ended), byID), slices.SortedFunc(slices.Values(ended), byID))
	equal(rt, "at-most-once ids", slices.Sorted(slices.Values(c.AtMostOnce)), slices.Sorted(slices.Values(once)))
	equal(rt, "deferred", slices.Sorted(slices.Values(c.Deferred)), slices.Sorted(slices.Values(deferred)))
}

// takeRow writes the claim into the row and returns the ring.
func (m *model) takeRow(row *clock.Alarm, c *claim) clock.Ring {
	ring := ringOf(*row, &c.request)
	if c.request.Kind() == store.Held {
		m.held[row.Key] = true
		return ring
	}
	*row = afterClaim(*row, &c.request)
	return ring
}

// dueRows returns the due rows in due order.
func (m *model) dueRows() []*clock.Alarm {
	rows := slices.DeleteFunc(slices.Collect(maps.Values(m.rows)), func(a *clock.Alarm) bool {
		return a.NextTryTime == clock.NoInstant || a.NextTryTime > m.now
	})
	slices.SortFunc(rows, func(a, b *clock.Alarm) int { return comparePositions(dueRowOf(a), dueRowOf(b)) })
	return rows
}

// endRow ends a due row that may not ring any more.
func (m *model) endRow(row *clock.Alarm) (store.EndedAlarm, bool) {
	switch {
	case row.LatestRingAt != clock.NoInstant && row.LatestRingAt < m.now:
		*row = afterEnd(*row, clock.TooLate, m.now)
	case row.Unacknowledged() && row.RingNo >= row.MaxRings:
		row.Attempts = newestAttempts(append([]clock.Attempt{unansweredAttempt(row, m.now)}, row.Attempts...))
		*row = afterEnd(*row, clock.Unacknowledged, m.now)
	default:
		return store.EndedAlarm{}, false
	}
	return store.EndedAlarm{Key: row.Key, ID: row.ID, State: row.State, Reason: row.LastError}, true
}

// pickClaim removes a random open claim from the list and returns it.
func (m *model) pickClaim(rt *rapid.T) *modelClaim {
	if len(m.openClaims) == 0 {
		rt.Skip("no claim is open")
	}
	i := rapid.IntRange(0, len(m.openClaims)-1).Draw(rt, "claim")
	c := m.openClaims[i]
	m.openClaims = slices.Delete(m.openClaims, i, i+1)
	return c
}

// settle settles a claim, perhaps after the claim has ended.
func (m *model) settle(rt *rapid.T) {
	c := m.pickClaim(rt)
	fates := make([]clock.Fate, len(c.Rings))
	for i := range fates {
		k := rapid.SampledFrom(clock.OutcomeKinds()).Draw(rt, "outcome")
		fates[i] = clock.FateOf(&c.Rings[i], everyRing(k)(nil), m.now)
	}
	if err := c.Settler.Settle(m.f.t.Context(), m.now, fates); err != nil {
		rt.Fatalf("settle: %v", err)
	}
	for i := range fates {
		r := &c.Rings[i]
		if row := m.rows[r.Key]; m.owns(c, row, r) {
			m.settleRow(c, row, r, fates[i])
		}
	}
}

// owns reports whether the row still belongs to the claim.
func (m *model) owns(c *modelClaim, row *clock.Alarm, r *clock.Ring) bool {
	switch c.request.Kind() {
	case store.Held:
		delete(m.held, r.Key)
		return true
	case store.Once:
		return row != nil && row.ID == r.AlarmID && row.Generation == r.Generation && row.State == clock.Rung &&
			row.InDoubt && row.ClaimID == r.ClaimID
	default:
		return row != nil && row.ID == r.AlarmID && row.Generation == r.Generation && row.Claimed() &&
			row.NextTryTime == c.request.ClaimEnd()
	}
}

func (m *model) settleRow(c *modelClaim, row *clock.Alarm, r *clock.Ring, f clock.Fate) {
	attempts, before := row.Attempts, c.before[r.AlarmID]
	*row = afterRing(before, f)
	row.Attempts = newestAttempts(append(attemptsOf(&before, r, f, m.now), attempts...))
}

func newestAttempts(attempts []clock.Attempt) []clock.Attempt {
	return attempts[:min(len(attempts), clock.MaxAttempts)]
}

// release releases a claim, perhaps after the claim has ended.
func (m *model) release(rt *rapid.T) {
	m.releaseClaim(rt, m.pickClaim(rt))
}

func (m *model) releaseClaim(rt *rapid.T, c *modelClaim) {
	if err := c.Settler.Release(m.f.t.Context()); err != nil {
		rt.Fatalf("release: %v", err)
	}
	for i := range c.Rings {
		r := &c.Rings[i]
		if row := m.rows[r.Key]; m.owns(c, row, r) {
			before := c.before[r.AlarmID]
			before.Attempts = row.Attempts
			*row = before
		}
	}
}

// inTime returns the step, which first releases every held claim whose transaction the server may soon end as idle: on
// a busy machine a history takes longer than that.
func (m *model) inTime(step func(*rapid.T)) func(*rapid.T) {
	return func(rt *rapid.T) {
		m.openClaims = slices.DeleteFunc(m.openClaims, func(c *modelClaim) bool {
			idle := c.request.Kind() == store.Held && time.Since(c.opened) > clock.IdleInTransaction/3
			if idle {
				m.releaseClaim(rt, c)
			}
			return idle
		})
		step(rt)
	}
}

// loseClaim simulates a node that dies: its two-phase claim is never settled.
func (m *model) loseClaim(rt *rapid.T) {
	if m.f.timeout == 0 &&
		!slices.ContainsFunc(m.openClaims, func(c *modelClaim) bool { return c.request.AtMostOnce }) {
		rt.Skip("the server would end the lost claim")
	}
	c := m.pickClaim(rt)
	if c.request.Kind() == store.Held {
		m.openClaims = append(m.openClaims, c)
		rt.Skip("the server would end the lost claim")
	}
}

func (m *model) expire(rt *rapid.T) {
	limit := rapid.IntRange(1, 4).Draw(rt, "limit")
	want := make(map[int64]store.EndedAlarm)
	for _, row := range m.dueRows() {
		if m.held[row.Key] {
			continue
		}
		if e, expires := m.endRow(row); expires {
			want[e.ID] = e
		}
	}
	var from store.Position
	for {
		page, err := m.f.Expire(m.f.t.Context(), m.now, m.f.shards(), from, limit)
		if err != nil {
			rt.Fatalf("expire: %v", err)
		}
		for _, e := range page.Ended {
			equal(rt, "expired", e, want[e.ID])
			delete(want, e.ID)
		}
		if page.Next == (store.Position{}) {
			break
		}
		from = page.Next
	}
	equal(rt, "not expired", len(want), 0)
}

func (m *model) purge(rt *rapid.T) {
	before := m.now - clock.Instant(rapid.IntRange(-1, 8).Draw(rt, "keep")*500)
	want := 0
	for k, row := range m.rows {
		if row.FinishedAt != clock.NoInstant && row.FinishedAt < before && !m.held[k] {
			delete(m.rows, k)
			want++
		}
	}
	n, err := m.f.Purge(m.f.t.Context(), before, before, 100)
	if err != nil {
		rt.Fatalf("purge: %v", err)
	}
	equal(rt, "purged", n, want)
}

// due compares the due index with the model. Rows of a held claim stay in the index.
func (m *model) due(rt *rapid.T) {
	var want []store.Due
	for _, a := range m.dueRows() {
		want = append(want, dueRowOf(a))
	}
	until := store.Position{Time: m.now + 1}
	page, err := m.f.Due(m.f.t.Context(), store.DueQuery{Shards: m.f.shards(), Until: until, Limit: 100})
	if err != nil {
		rt.Fatalf("due: %v", err)
	}
	equal(rt, "due", page.Rows, want)
	o, err := m.f.Overdue(m.f.t.Context(), m.now, m.f.shards(), 100)
	if err != nil {
		rt.Fatalf("overdue: %v", err)
	}
	equal(rt, "overdue", o.Count, len(want))
}

// wait advances the time.
func (m *model) wait(rt *rapid.T) {
	m.now += clock.Instant(rapid.SampledFrom([]int{1, 500, 1000, 10_000}).Draw(rt, "milliseconds"))
}

// check compares all rows. It runs after every step.
func (m *model) check(rt *rapid.T) {
	stored := make(map[clock.Key]clock.Alarm)
	for _, application := range []string{app, "bank"} {
		alarms, err := m.f.listAlarms(m.f.t.Context(), clock.ListQuery{
			Application: application, DueAfter: clock.NoInstant, DueBefore: clock.NoInstant, Limit: 100,
		})
		if err != nil {
			rt.Fatalf("list: %v", err)
		}
		for _, a := range alarms {
			stored[a.Key] = a
		}
	}
	equal(rt, "alarms", len(stored), len(m.rows))
	for k, row := range m.rows {
		got := stored[k]
		want := *row
		want.Attempts = nil
		equal(rt, "alarm "+k.BusinessID, got, want)
		a, err := m.f.Get(m.f.t.Context(), k)
		if err != nil {
			rt.Fatalf("get: %v", err)
		}
		equal(rt, "attempts of "+k.BusinessID, a.Attempts, row.Attempts)
	}
}

// abandon releases the claims that a history has left open.
func (m *model) abandon() {
	for _, c := range m.openClaims {
		_ = c.Settler.Release(context.Background())
	}
}

// equal is same for the use within a history.
func equal[T any](rt *rapid.T, what string, got, want T) {
	if d := diff(got, want); d != "" {
		rt.Fatalf("%s: %s", what, d)
	}
}
