package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
)

// testRoundTrip writes alarms with extreme values in every field and reads them back.
func testRoundTrip(t *testing.T, f *fixture) {
	policy := clock.RetryPolicy{Initial: 250 * time.Millisecond, Factor: 1.5, Cap: 24 * time.Hour, Limit: 7}
	full := make([]byte, clock.DefaultMaxPayload)
	for i := range full {
		full[i] = byte(i * 7)
	}
	contents := map[string]func(*clock.Set){
		"own receiver": ownReceiver(clock.TargetKafka, "audit",
			`{"key":"`+strings.Repeat("ä", (clock.MaxReceiver-len(`{"key":""}`))/2)+`"}`),
		"plain":       func(*clock.Set) {},
		"first":       func(s *clock.Set) { s.RingAt, s.LatestRingAt = 0, 0 },
		"millisecond": func(s *clock.Set) { s.RingAt, s.LatestRingAt = 1, 999 },
		"last":        func(s *clock.Set) { s.RingAt, s.LatestRingAt = clock.MaxInstant, clock.MaxInstant },
		"empty":       func(s *clock.Set) { s.Payload, s.PayloadKind = nil, clock.NoPayload },
		"text":        func(s *clock.Set) { s.Payload, s.PayloadKind = []byte("grüße 🔔 '\\\""), clock.Text },
		"large":       payload(full),
		"zeros":       payload(make([]byte, 100)),
		"options": func(s *clock.Set) {
			s.Retry, s.AckTimeout, s.MaxRings, s.Priority = policy, clock.MaxAckTimeout, clock.MaxRingsLimit, 9
			s.Delivery = clock.AtMostOnce // no set combines it with ack_timeout, but a store accepts that
			s.ContentType = strings.Repeat("x", clock.MaxContentType)
			s.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
		},
	}
	for name, change := range contents {
		want := f.write(t0, set(name, t0+5, change))[0]
		same(t, "verdict of "+name, want.Verdict, clock.Create)
		f.want(want.Alarm)
		a := f.get(name)
		s := set(name, t0+5, change).Set
		same(t, "content of "+name, a.Content, s.Content)
		same(t, "traceparent of "+name, a.Traceparent, s.Traceparent)
		same(t, "instants of "+name, []clock.Instant{a.NextTryTime, a.CreateTime, a.UpdateTime, a.RungAt, a.FinishedAt},
			[]clock.Instant{max(s.RingAt, t0), t0, t0, clock.NoInstant, clock.NoInstant})
		same(t, "shard of "+name, a.Shard, s.Key.Shard(f.ShardCount()))
	}
}

// testRewrite changes every field of an alarm's content with two sets: an alarm has a rule or a local time, not both.
func testRewrite(t *testing.T, f *fixture) {
	before := set("a", t0+5)
	repeated := set("a", t0+7, payload([]byte{0, 1, 2}), latestRingAt(t0+9), acknowledgedWithin(time.Minute, 3),
		retryLimit(7), priority(4), atMostOnce, named(clock.TargetStream), repeating(t0+7, nil))
	repeated.Set.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	local := set("a", t0, localTime("2027-03-28T02:30:00", "Europe/Berlin"),
		ownReceiver(clock.TargetKafka, "audit", `{"key":"k"}`))
	old := reflect.ValueOf(before.Set.Content)
	for i := range old.NumField() {
		changes := func(op clock.Op) bool {
			return !reflect.DeepEqual(old.Field(i).Interface(), reflect.ValueOf(op.Set.Content).Field(i).Interface())
		}
		if !changes(repeated) && !changes(local) {
			t.Errorf("this test does not change %s", old.Type().Field(i).Name)
		}
	}
	f.set(t0, before)
	for i, op := range []clock.Op{repeated, local} {
		want := f.write(t0+1+clock.Instant(i), op)[0]
		same(t, "verdict", want.Verdict, clock.Replace)
		f.want(want.Alarm)
		a := f.get("a")
		same(t, "content", a.Content, op.Set.Content)
		same(t, "traceparent", a.Traceparent, op.Set.Traceparent)
	}
}

// businessIDs differ from each other bytewise. Some are equal under every collation except a binary one.
var businessIDs = []string{
	"a", "A", "ä", "á", "\u00e9", "e\u0301", "ss", "ß", "1", "01", "1.0", "x x", "x  x", "x", "a/b", "a%2Fb", "a%b",
	"a_b", "a+b", "a b",
	"it's", `"quoted"`, `back\slash`, "`tick`", "$1", "?", ":name", "@p1", "--", "/*x*/", ";", "%", "_", "\U0001f514",
	"日本語", "İ", "i", "I", "ı",
	"null", "NULL", "…", "x\u00a0y", "\u200b", "x\u200b", strings.Repeat("k", clock.MaxBusinessID),
	strings.Repeat("🔔", clock.MaxBusinessID/4),
}

// testKeys demands that single and group writes compare keys byte for byte, with any character.
func testKeys(t *testing.T, f *fixture) {
	var ops []clock.Op
	for _, id := range businessIDs {
		ops = append(ops, set(id, t0+5))
	}
	ids := f.set(t0, ops...)
	for i, id := range businessIDs {
		a := f.get(id)
		same(t, "business id", a.BusinessID, id)
		same(t, "id", a.ID, ids[i])
	}
	for i, d := range f.write(t0+1, ops...) {
		same(t, "a repeated set of "+businessIDs[i], d.Verdict, clock.Keep)
	}
	d := f.write(t0+2, cancel("a"), cancel("\u00e9"), cancel("x"), cancel("B"))
	same(t, "verdicts", []clock.Verdict{d[0].Verdict, d[1].Verdict, d[2].Verdict, d[3].Verdict},
		[]clock.Verdict{clock.Disarm, clock.Disarm, clock.Disarm, clock.Refuse})
	for _, id := range []string{"A", "e\u0301", "x x", "ä"} {
		same(t, "state of "+id, f.get(id).State, clock.Scheduled)
	}
	one := f.set(t0, set("same", t0+5), set("same", t0+5, inApplication("Shop")),
		set("same", t0+5, inApplication("shop.")))
	if one[0] == one[1] || one[1] == one[2] {
		t.Fatalf("two applications share an alarm: ids %v", one)
	}
	if _, err := f.Get(t.Context(), clock.Key{Application: "SHOP", BusinessID: "same"}); !errors.Is(err, clock.ErrNotFound) {
		t.Fatalf("get of an application in other case: %v", err)
	}
}

// testKeysByID finds keys by id: more ids than one statement takes, in any order, repeated, unknown, of any state, and
// none at all.
func testKeysByID(t *testing.T, f *fixture) {
	ops := append(sets(names("of", 1200), t0), set("of-00003", t0, inApplication("bank")),
		set(businessIDs[len(businessIDs)-1], t0))
	ids := f.set(t0, ops...)
	f.set(t0, cancel("of-00007"))
	want := make(map[int64]clock.Key, len(ids))
	asked := []int64{1 << 60, ids[5]}
	for i, id := range ids {
		want[id] = ops[i].Key()
		asked = append(asked, id)
	}
	slices.Reverse(asked)
	keys, err := f.Keys(t.Context(), append(asked, 1<<61, -1))
	ok(t, err, "keys")
	same(t, "keys", keys, want)
	keys, err = f.Keys(t.Context(), nil)
	ok(t, err, "keys without ids")
	same(t, "keys without ids", len(keys), 0)
}

// arrange makes a row in the state under the business id and returns it. State "none" makes no row.
func (f *fixture) arrange(id string, state string) clock.Alarm {
	f.t.Helper()
	switch state {
	case "none":
		return clock.Alarm{}
	case "expired":
		f.set(t0-1000, set(id, t0-500, latestRingAt(t0-500)))
		f.claim(t0, f.get(id).ID)
	case "dead":
		f.set(t0-1000, set(id, t0-500, retryLimit(0)))
		f.claim(t0, f.get(id).ID).settle(t0, everyRing(clock.Refused))
	case "ringing":
		f.set(t0-1000, set(id, t0-500, acknowledgedWithin(time.Hour, 3)))
		f.claim(t0, f.get(id).ID).settle(t0, everyRing(clock.Confirmed))
	case "doubtful":
		f.set(t0-1000, set(id, t0-500))
		f.claim(t0, f.get(id).ID).settle(t0, everyRing(clock.Doubtful))
	default:
		f.set(t0-1000, set(id, t0-500))
		switch state {
		case "rung":
			f.claim(t0, f.get(id).ID).settle(t0, everyRing(clock.Confirmed))
		case "cancelled":
			f.set(t0, cancel(id))
		case "paused":
			f.set(t0, pause(id))
		case "claimed":
			r := f.request(t0, f.get(id).ID)
			r.Timeout = claimTimeout
			f.claimRequest(r)
		}
	}
	return *f.get(id)
}

// decisionOps returns the ops for the table of decisions, by name.
func (f *fixture) decisionOps(id string, row clock.Alarm) map[string]clock.Op {
	row.Key = key(id)
	again := set(id, row.RingAt, func(s *clock.Set) { s.Content = row.Content })
	if row.ID == 0 {
		again = set(id, t0)
	}
	with := func(op clock.Op, options ...func(*clock.Set)) clock.Op {
		s := *op.Set
		for _, o := range options {
			o(&s)
		}
		return clock.Op{Set: &s}
	}
	move := func(by clock.Instant) func(*clock.Set) {
		return func(s *clock.Set) { s.RingAt, s.LatestRingAt = s.RingAt+by, clock.NoInstant }
	}
	generation := func(g int64) clock.Condition { return clock.Condition{Kind: clock.AtGeneration, Generation: g} }
	ifKind := func(k clock.ConditionKind) func(*clock.Set) { return onlyIf(clock.Condition{Kind: k}) }
	return map[string]clock.Op{
		"repeat":                 again,
		"later":                  with(again, move(1)),
		"other payload":          with(again, payload([]byte("other"))),
		"other traceparent":      with(again, func(s *clock.Set) { s.Traceparent = "00-1-2-01" }),
		"if absent":              with(again, ifKind(clock.Absent)),
		"if earlier, earlier":    with(again, move(-1), ifKind(clock.Earlier)),
		"if earlier, equal":      with(again, payload([]byte("x")), ifKind(clock.Earlier)),
		"if earlier, later":      with(again, move(1), ifKind(clock.Earlier)),
		"if later, later":        with(again, move(1), ifKind(clock.Later)),
		"if later, earlier":      with(again, move(-1), ifKind(clock.Later)),
		"if generation 1":        with(again, move(2), onlyIf(generation(1))),
		"if generation 2":        with(again, move(2), onlyIf(generation(2))),
		"if generation 0":        with(again, onlyIf(generation(0))),
		"without room":           with(again, withoutRoom),
		"later, without room":    with(again, move(1), withoutRoom),
		"absent, without room":   with(again, withoutRoom, ifKind(clock.Absent)),
		"never rings":            set(id, clock.NoInstant, repeating(t0-9000, func(s *repeat.Spec) { s.Until = int64(t0 - 5000) })),
		"cancel":                 cancel(id),
		"brief cancel":           {Cancel: &clock.Cancel{Key: key(id), Brief: true}},
		"cancel of generation 1": {Cancel: &clock.Cancel{Key: key(id), If: generation(1)}},
		"kick":                   {Kick: &clock.Kick{Key: key(id)}},
		"kick of generation 9":   {Kick: &clock.Kick{Key: key(id), If: generation(9)}},
		"pause":                  pause(id),
		"pause of generation 1":  {Pause: &clock.Pause{Key: key(id), If: generation(1)}},
		"pause of generation 9":  {Pause: &clock.Pause{Key: key(id), If: generation(9)}},
		"resume":                 resume(id),
		"recompute":              recompute(id),
		"resume of generation 9": {Resume: &clock.Resume{Key: key(id), If: generation(9)}},
		"discard":                {Discard: &clock.Discard{Key: key(id)}},
		"ack of the last ring":   answer(clock.Ack, &row, row.RingNo),
		"bury the next ring":     answer(clock.Bury, &row, row.RingNo+1),
		"release of the last":    answer(clock.Release, &row, row.RingNo),
		"resend of the last":     resend(&row, row.RingNo),
		"resend of the next":     resend(&row, row.RingNo+1),
		"cancel of generation 9": {Cancel: &clock.Cancel{Key: key(id), If: generation(9)}},
	}
}

// testDecisions writes every kind of op on a row in every state: the store does exactly what Decide says.
func testDecisions(t *testing.T, f *fixture) {
	states := []string{
		"none", "scheduled", "doubtful", "paused", "ringing", "rung", "expired", "dead", "cancelled", "claimed",
	}
	for _, state := range states {
		for name := range f.decisionOps("", clock.Alarm{}) {
			id := state + ": " + name
			row := f.arrange(id, state)
			op := f.decisionOps(id, row)[name]
			var want clock.Decision
			if row.ID == 0 {
				want = op.Decide(nil, t0+9)
			} else {
				row.Attempts = nil
				want = op.Decide(&row, t0+9)
			}
			f.wantDecision(id, op, want)
		}
	}
	same(t, "rows of refused sets", f.count("alarm WHERE application = ''"), 0)
}

// withoutRoom makes the set of an application that may have no further alarm.
func withoutRoom(s *clock.Set) {
	s.Room = noRoom{&clock.Error{Kind: clock.ErrLimited, Code: clock.CodeQuotaPending, Detail: "full"}}
}

// noRoom is a full application.
type noRoom struct{ full *clock.Error }

func (r noRoom) Take() *clock.Error { return r.full }

func (noRoom) GiveBack() {}

// askedFields returns the fields of the alarm that the op asks for.
func askedFields(op clock.Op, a clock.Alarm) clock.Alarm {
	if op.Cancel != nil && op.Cancel.Brief {
		return clock.Alarm{ID: a.ID, Key: a.Key, Shard: a.Shard, Generation: a.Generation,
			RingRow: clock.RingRow{State: a.State}}
	}
	return a
}

// wantDecision applies op at t0+9 and demands that decision, in the result and in the row.
func (f *fixture) wantDecision(what string, op clock.Op, want clock.Decision) {
	f.t.Helper()
	got := f.write(t0+9, op)[0]
	if want.Verdict == clock.Create {
		want.Alarm.ID, want.Alarm.Shard = got.Alarm.ID, want.Alarm.Key.Shard(f.ShardCount())
	}
	want.Alarm.Attempts = nil // writes do not return attempts
	same(f.t, what+": verdict", got.Verdict, want.Verdict)
	same(f.t, what+": alarm", askedFields(op, got.Alarm), askedFields(op, want.Alarm))
	same(f.t, what+": error", got.Err != nil, want.Err != nil)
	if want.Err != nil {
		var g, w *clock.Error
		if !errors.As(got.Err, &g) || !errors.As(want.Err, &w) || g.Code != w.Code || !errors.Is(g, w.Kind) {
			f.t.Fatalf("%s: error %v, want %v", what, got.Err, want.Err)
		}
	}
	if want.Alarm.ID != 0 {
		f.want(want.Alarm)
	}
}

// testNotFound demands clock.ErrNotFound for a key without a row.
func testNotFound(t *testing.T, f *fixture) {
	if a, err := f.Get(t.Context(), key("absent")); !errors.Is(err, clock.ErrNotFound) {
		t.Fatalf("get of an absent alarm: %v, %v", a, err)
	}
}

// testGroup writes groups of cancels and of sets with new and existing keys.
func testGroup(t *testing.T, f *fixture) {
	ids := names("order", 400)
	f.set(t0, sets(ids[:200], t0+5)...)
	f.set(t0, cancel(ids[0]), cancel(ids[1]), cancel(ids[2]))
	var ops []clock.Op
	var want []clock.Verdict
	add := func(op clock.Op, v clock.Verdict) { ops, want = append(ops, op), append(want, v) }
	for i, id := range ids {
		switch {
		case i < 3:
			add(set(id, t0+5), clock.Rearm)
		case i < 100:
			add(set(id, t0+5), clock.Keep)
		case i < 150:
			add(set(id, t0+6), clock.Replace)
		case i < 200:
			add(cancel(id), clock.Disarm)
		default:
			add(set(id, t0+5), clock.Create)
		}
	}
	for _, id := range names("unknown", 100) {
		add(cancel(id), clock.Refuse)
	}
	slices.Reverse(ops)
	slices.Reverse(want)
	for i, d := range f.write(t0+1, ops...) {
		same(t, fmt.Sprintf("verdict of op %d on %s", i, ops[i].Key().BusinessID), d.Verdict, want[i])
		if d.Alarm.ID != 0 {
			same(t, "key of the decision", d.Alarm.Key, ops[i].Key())
			f.want(d.Alarm)
		}
	}
}

// testOverlappingGroups writes overlapping groups from several goroutines. Each key is created once, and all decisions
// are true.
func testOverlappingGroups(t *testing.T, f *fixture) {
	const writers, span, keys = 8, 60, 100
	ids := names("k", keys)
	created, groups := make([][]clock.Decision, writers), make([][]clock.Op, writers)
	var g errgroup.Group
	for w := range writers {
		g.Go(func() (err error) {
			group := slices.Concat(ids[w*5:w*5+span], []string{fmt.Sprintf("own-%d", w)})
			if w%2 == 1 {
				slices.Reverse(group)
			}
			groups[w] = sets(group, t0+5)
			created[w], err = f.tryWrite(t0, groups[w]...)
			return err
		})
	}
	ok(t, g.Wait(), "write")
	count := make(map[clock.Key]int)
	for w, ds := range created {
		for i, d := range ds {
			if d.Verdict == clock.Locked { // another group held the key and may have rolled back
				var err error
				d, err = f.writeUntilUnlocked(groups[w][i])
				ok(t, err, "write a key that was held")
			}
			if d.Verdict == clock.Create {
				count[d.Alarm.Key]++
				f.want(d.Alarm)
			} else if d.Verdict != clock.Keep {
				t.Fatalf("%s of %s", d.Verdict, d.Alarm.BusinessID)
			}
		}
	}
	for k, n := range count {
		same(t, "creations of "+k.BusinessID, n, 1)
	}
	same(t, "keys created", len(count), 35+span+writers)
}

// testRacingSetsOfOneKey sets one key from 16 goroutines with different contents. One set creates the alarm, each other
// one adds a generation, and the last generation stays.
func testRacingSetsOfOneKey(t *testing.T, f *fixture) {
	const writers = 16
	for round := range 5 {
		id := fmt.Sprintf("round-%d", round)
		decisions := make([]clock.Decision, writers)
		var g errgroup.Group
		for w := range writers {
			g.Go(func() (err error) {
				decisions[w], err = f.writeUntilUnlocked(set(id, t0+clock.Instant(w)))
				return err
			})
		}
		ok(t, g.Wait(), "write")
		seen := make(map[int64]clock.Alarm)
		for _, d := range decisions {
			if d.Verdict != clock.Create && d.Verdict != clock.Replace {
				t.Fatalf("verdict %s, %v", d.Verdict, d.Err)
			}
			same(t, "created", d.Verdict == clock.Create, d.Alarm.Generation == 1)
			if _, twice := seen[d.Alarm.Generation]; twice {
				t.Fatalf("two sets made generation %d", d.Alarm.Generation)
			}
			seen[d.Alarm.Generation] = d.Alarm
		}
		f.want(seen[writers])
	}
}

// writeUntilUnlocked writes one op until its row is not locked.
func (f *fixture) writeUntilUnlocked(op clock.Op) (clock.Decision, error) {
	for {
		ctx, stop := context.WithTimeout(f.t.Context(), hangTimeout)
		d, err := f.Write(ctx, clock.WriteRequest{Now: t0, Ops: []clock.Op{op}, LockWait: promptTimeout})
		stop()
		if err != nil {
			return clock.Decision{}, err
		}
		if d[0].Verdict != clock.Locked {
			return d[0], nil
		}
	}
}

// testHeldRow writes while a claim holds a row. A group does not wait for the row. A write with WriteRequest.LockWait
// gets it after the claim.
func testHeldRow(t *testing.T, f *fixture) {
	ids := f.set(t0, set("held", t0), set("free", t0), set("moved", t0))
	held := f.claim(t0, ids[0]).wantRings(ids[0])
	ctx, stop := context.WithTimeout(t.Context(), hangTimeout)
	defer stop()
	ops := append(sets(names("new", 200), t0+5), set("held", t0+7), set("free", t0), cancel("moved"))
	decisions, err := f.Write(ctx, clock.WriteRequest{Now: t0 + 1, Ops: ops})
	ok(t, err, "write beside a held row")
	want := append(slices.Repeat([]clock.Verdict{clock.Create}, 200), clock.Locked, clock.Keep, clock.Disarm)
	for i, d := range decisions {
		same(t, "verdict on "+ops[i].Key().BusinessID, d.Verdict, want[i])
	}
	same(t, "alarm of the held row", decisions[200].Alarm.ID, ids[0])
	same(t, "cancel of a held row", f.write(t0+1, cancel("held"))[0].Verdict, clock.Locked)

	if f.timeout == 0 {
		var waited clock.Decision
		var g errgroup.Group
		g.Go(func() (err error) {
			waited, err = f.writeUntilUnlocked(set("held", t0+7))
			return err
		})
		g.Go(func() error {
			_, err := held.trySettle(t0, everyRing(clock.Confirmed))
			return err
		})
		ok(t, g.Wait(), "wait for a held row")
		same(t, "verdict after the wait", waited.Verdict, clock.Rearm)
		return
	}
	held.settle(t0, everyRing(clock.Confirmed))
	same(t, "verdict after the claim", f.write(t0+2, set("held", t0+7))[0].Verdict, clock.Rearm)
}

// testWaitEnds demands that a write stops waiting for a locked row after WriteRequest.LockWait, without an error.
func testWaitEnds(t *testing.T, f *fixture) {
	ids := f.set(t0, set("held", t0))
	f.claim(t0, ids...).wantRings(ids...)
	ctx, stop := context.WithTimeout(t.Context(), hangTimeout)
	defer stop()
	r := clock.WriteRequest{Now: t0, Ops: []clock.Op{cancel("held")}, LockWait: 50 * time.Millisecond}
	d, err := f.Write(ctx, r)
	ok(t, err, "write that gives up")
	same(t, "verdict", d[0].Verdict, clock.Locked)
	same(t, "state", f.get("held").Claimed(), f.timeout > 0)
}

// setWhenAvailable is set that repeats a write of which nothing was written, as a client does: on a busy machine a
// large group can take longer than the server lets a transaction be idle.
func (f *fixture) setWhenAvailable(now clock.Instant, ops ...clock.Op) {
	f.t.Helper()
	for tries := 1; ; tries++ {
		d, err := f.tryWrite(now, ops...)
		if errors.Is(err, clock.ErrUnavailable) && tries < 5 {
			f.t.Logf("written again: %v", err)
			continue
		}
		ok(f.t, err, "write of a large group")
		for i := range d {
			if !d[i].Writes() {
				f.t.Fatalf("op %d on %q: %s, %v", i, ops[i].Key().BusinessID, d[i].Verdict, d[i].Err)
			}
		}
		return
	}
}

// testLargeGroup writes a group of the largest size.
func testLargeGroup(t *testing.T, f *fixture) {
	body := make([]byte, clock.DefaultMaxPayload)
	for i := range body {
		body[i] = byte('\'' + i%3)
	}
	ids := names("large", 64)
	f.setWhenAvailable(t0, sets(ids, t0, payload(body))...)
	f.setWhenAvailable(t0, sets(ids, t0+1, payload(body))...)
	a := f.get(ids[63])
	same(t, "payload", a.Payload, body)
	same(t, "generation", a.Generation, 2)
	many := names("many", 2000)
	f.setWhenAvailable(t0, sets(many, t0)...)
	f.setWhenAvailable(t0, sets(many, t0+1)...)
	same(t, "generation", f.get(many[1999]).Generation, 2)
}
