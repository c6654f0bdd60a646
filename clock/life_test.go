package clock

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// life is one alarm's row under a random history of sets, cancels and claims, applied as a store applies them.
type life struct {
	row       *Alarm // nil: no row
	now       Instant
	claim     *Ring           // ring in flight; nil: none
	before    Alarm           // row before the claim, restored if the claim's transaction is lost
	twoPhase  bool            // the claim is two-phase
	stopped   map[int64]bool  // generations that were cancelled or discarded
	paused    bool            // the alarm was paused, and neither resumed nor cancelled since
	confirmed map[string]bool // message ids of rings with a committed confirm or an accepted answer
	acks      ackModel
}

func newLife() *life {
	return &life{now: 1_000_000, stopped: map[int64]bool{}, confirmed: map[string]bool{}, acks: newAckModel()}
}

func TestRandomLivesKeepTheInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newLife()
		t.Repeat(map[string]func(*rapid.T){
			"":       l.check,
			"set":    l.set,
			"cancel": l.cancel,
			"pause":  l.pause,
			"resume": l.resume,
			"claim":  l.takeClaim,
			"settle": l.settle,
			"lose":   l.lose,
			"time":   func(t *rapid.T) { l.now += Instant(rapid.IntRange(0, 3000).Draw(t, "ms")) },
		})
	})
}

func (l *life) set(t *rapid.T) {
	l.skipLocked(t)
	s := testSet("4711")
	s.RingAt = 1_000_000 + 500*Instant(rapid.IntRange(0, 3).Draw(t, "ring at"))
	if rapid.Bool().Draw(t, "bounded") {
		s.LatestRingAt = s.RingAt + 4000
	}
	s.AckTimeout = rapid.SampledFrom([]time.Duration{0, time.Second}).Draw(t, "ack timeout")
	s.MaxRings = rapid.IntRange(1, 3).Draw(t, "max rings")
	s.Retry = RetryPolicy{Initial: 100 * time.Millisecond, Factor: 2, Cap: time.Second,
		Limit: rapid.IntRange(NoLimit, 2).Draw(t, "limit")}
	s.If.Kind = ConditionKind(rapid.IntRange(int(AnyRow), int(AtGeneration)).Draw(t, "if"))
	s.If.Generation = int64(rapid.IntRange(1, 6).Draw(t, "generation"))
	d := l.apply(t, Op{Set: s})
	if l.row != nil && l.row.Same(&s.Content) && l.row.State != Cancelled {
		s.If = Condition{}
		if again := l.apply(t, Op{Set: s}); again.Verdict != Keep {
			t.Fatalf("the set, repeated after %s, is %s", d.Verdict, again.Verdict)
		}
	}
}

func (l *life) cancel(t *rapid.T) {
	l.skipLocked(t)
	c := &Cancel{Key: Key{"shop", "4711"}}
	if rapid.Bool().Draw(t, "if") {
		c.If = Condition{Kind: AtGeneration, Generation: int64(rapid.IntRange(1, 6).Draw(t, "generation"))}
	}
	d := l.apply(t, Op{Cancel: c})
	switch {
	case d.Verdict == Disarm:
		l.stopped[l.row.Generation], l.paused = true, false
		if l.apply(t, Op{Cancel: c}).Verdict != Keep {
			t.Fatal("a cancel, repeated, is not kept")
		}
	case d.Verdict == Keep && !l.stopped[l.row.Generation]:
		t.Fatal("the cancel is kept, but the alarm was never cancelled")
	}
}

// pause pauses the alarm. A pause is accepted exactly if no ring may have arrived since the alarm was scheduled.
func (l *life) pause(t *rapid.T) {
	l.skipLocked(t)
	may := l.row != nil && l.row.State == Scheduled && !l.row.InDoubt
	d := l.apply(t, Op{Pause: &Pause{Key: Key{"shop", "4711"}}})
	switch {
	case may != (d.Verdict == Amend):
		t.Fatalf("a pause is %s (%v), want it accepted: %v", d.Verdict, d.Err, may)
	case l.paused != (d.Verdict == Keep):
		t.Fatalf("a pause is %s (%v), and the alarm was paused before: %v", d.Verdict, d.Err, l.paused)
	case may:
		l.paused = true
	}
}

// resume resumes the alarm. It is due at its ring time, or now.
func (l *life) resume(t *rapid.T) {
	l.skipLocked(t)
	d := l.apply(t, Op{Resume: &Resume{Key: Key{"shop", "4711"}}})
	if l.paused != (d.Verdict == Amend) ||
		l.paused && (l.row.State != Scheduled || l.row.NextTryTime != max(l.row.RingAt, l.now)) {
		t.Fatalf("a resume is %s (%v), the alarm was paused before: %v; it leaves %+v", d.Verdict, d.Err, l.paused,
			l.row)
	}
	l.paused = false
}

func (l *life) skipLocked(t *rapid.T) {
	if l.claim != nil && !l.twoPhase {
		t.Skip("the row is locked")
	}
}

// apply decides op as a store does, and checks the rules for all ops.
func (l *life) apply(t *rapid.T, op Op) Decision {
	var old *Alarm
	if l.row != nil {
		stands := *l.row
		old = &stands
	}
	d := op.Decide(l.row, l.now)
	if !reflect.DeepEqual(old, l.row) {
		t.Fatalf("%s changed the row in place", d.Verdict)
	}
	if !d.Writes() {
		if old != nil && !reflect.DeepEqual(d.Alarm, *old) {
			t.Fatalf("%s carries another row", d.Verdict)
		}
		return d
	}
	l.checkWrite(t, op, d, old)
	l.row = &d.Alarm
	if d.Verdict != Amend {
		l.acks.open = RingID{} // set again, or cancelled
	}
	return d
}

func (l *life) checkWrite(t *rapid.T, op Op, d Decision, old *Alarm) {
	if d.Verdict == Amend {
		l.checkAmend(t, op, d, old)
		return
	}
	grown := int64(1)
	switch {
	case op.Cancel != nil:
		grown = 0
	case old == nil && d.Alarm.Generation != 1:
		t.Fatalf("created with generation %d", d.Alarm.Generation)
	case d.Alarm.RingNo != 0 || d.Alarm.RetryTimes != 0 || d.Alarm.InDoubt:
		t.Fatal("a new generation inherits rings")
	}
	if old == nil {
		return
	}
	if d.Alarm.Generation != old.Generation+grown || d.Alarm.ID != old.ID {
		t.Fatalf("%s: generation %d to %d", d.Verdict, old.Generation, d.Alarm.Generation)
	}
	if old.InDoubt && !old.State.Over() || l.claim != nil {
		t.Fatalf("%s an alarm whose ring may have arrived", d.Verdict)
	}
	if old.State.Over() != (d.Verdict == Rearm) {
		t.Fatalf("%s of an alarm that was %s", d.Verdict, old.State)
	}
}

// checkAmend checks that answers, kicks, discards, pauses and resumes do not change the content. A kick may remove
// latest_ring_at.
func (l *life) checkAmend(t *rapid.T, op Op, d Decision, old *Alarm) {
	content := old.Content
	if op.Kick != nil && content.LatestRingAt <= l.now {
		content.LatestRingAt = NoInstant
	}
	if d.Alarm.Generation != old.Generation || d.Alarm.ID != old.ID || !d.Alarm.Same(&content) {
		t.Fatalf("changed to %+v", d.Alarm)
	}
	if op.Answer == nil && d.Alarm.RingNo != old.RingNo || l.claim != nil {
		t.Fatal("ring_no changed without an answer, or the row of a ring in flight changed")
	}
}

// takeClaim claims the alarm as a store's Claim does.
func (l *life) takeClaim(t *rapid.T) {
	if l.row == nil || l.claim != nil || l.row.NextTryTime == NoInstant || l.row.NextTryTime > l.now {
		t.Skip("nothing is due")
	}
	a := l.row
	ring := &Ring{
		AlarmID: a.ID, Key: a.Key, Generation: a.Generation, RingNo: a.RingNo + 1, LatestRingAt: a.LatestRingAt,
		RungAt: l.now,
		Retry:  a.Retry, AckTimeout: a.AckTimeout, MaxRings: a.MaxRings, Before: a.RingRow,
	}
	l.acks.claimed()
	switch {
	case a.LatestRingAt != NoInstant && a.LatestRingAt < l.now:
		a.RingRow = FateOf(ring, Outcome{Kind: TooLate}, l.now).RingRow
		l.acks.ended(ring.ID(), a)
		return
	case a.State == Ringing && a.RingNo >= a.MaxRings:
		a.RingRow = FateOf(ring, Outcome{Kind: Unacknowledged}, l.now).RingRow
		l.acks.ended(ring.ID(), a)
		return
	}
	l.before, l.twoPhase, l.claim = *a, rapid.Bool().Draw(t, "two-phase"), ring
	if l.twoPhase {
		a.State, a.RungAt, a.NextTryTime = Ringing, NoInstant, l.now+2000
	}
	if id := ring.MessageID(); l.stopped[a.Generation] || l.confirmed[id] || l.paused {
		t.Fatalf("ring %s starts; generation cancelled: %v, ring confirmed: %v, paused: %v", id,
			l.stopped[a.Generation], l.confirmed[id], l.paused)
	}
}

// settle settles the ring in flight as a store's Settle does, with a random outcome.
func (l *life) settle(t *rapid.T) {
	if l.claim == nil {
		t.Skip("nothing is claimed")
	}
	l.settleAs(t, rapid.SampledFrom(OutcomeKinds()).Draw(t, "outcome"))
}

func (l *life) settleAs(t *rapid.T, kind OutcomeKind) {
	r := l.claim
	f := FateOf(r, Outcome{Kind: kind, Reason: "x"}, l.now)
	a := l.before
	a.RingRow = f.RingRow
	if kind == Confirmed {
		l.confirmed[r.MessageID()] = true
	}
	if r.InDoubt() && !f.InDoubt && kind != Confirmed {
		t.Fatal("in_doubt was cleared without a confirm")
	}
	l.row, l.claim = &a, nil
	l.acks.settled(r.ID(), &a)
}

// lose ends the node between publish and commit. A held claim is rolled back; a two-phase claim stays until its end.
func (l *life) lose(t *rapid.T) {
	if l.claim == nil {
		t.Skip("nothing is claimed")
	}
	if !l.twoPhase {
		old := l.before
		l.row = &old
		l.acks.lost()
	}
	l.claim = nil
	l.now += 2000
}

func (l *life) check(t *rapid.T) {
	a := l.row
	if a == nil {
		return
	}
	if due := a.NextTryTime != NoInstant; due != (a.State == Scheduled || a.State == Ringing) {
		t.Fatalf("%s with next_try_time %s", a.State, a.NextTryTime)
	}
	if l.paused != (a.State == Paused) {
		t.Fatalf("%s, paused by a request: %v", a.State, l.paused)
	}
	if (a.FinishedAt != NoInstant) != a.State.Over() {
		t.Fatalf("%s with finished_at %s", a.State, a.FinishedAt)
	}
	if a.State == Scheduled && a.LatestRingAt != NoInstant && a.NextTryTime > max(a.LatestRingAt, l.now) {
		t.Fatalf("next try %s after the latest %s", a.NextTryTime, a.LatestRingAt)
	}
	if a.State == Cancelled && !l.stopped[a.Generation] {
		t.Fatal("cancelled without a cancel or a discard")
	}
	if a.State == Rung && (a.AckTimeout > 0) != l.acks.acked[a.Generation] {
		t.Fatalf("rung, acknowledgement wanted: %v, got: %v", a.AckTimeout > 0, l.acks.acked[a.Generation])
	}
}
