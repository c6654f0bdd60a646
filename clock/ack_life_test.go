package clock

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// ackModel knows which ring of a life may be answered. It derives that from the life's events, not from the alarm's
// row.
type ackModel struct {
	open   RingID          // ring whose answer is accepted; zero: none
	before RingID          // open before the claim in flight; it is open again if the claim's transaction is lost
	known  map[RingID]bool // rings that arrived or may have arrived
	closed map[RingID]bool // rings that were acknowledged, released or buried
	acked  map[int64]bool  // generations that were acknowledged
}

func newAckModel() ackModel {
	return ackModel{known: map[RingID]bool{}, closed: map[RingID]bool{}, acked: map[int64]bool{}}
}

// claimed notes a claim, which closes the ring before for answers, whether it rings again or ends the alarm.
func (m *ackModel) claimed() { m.before, m.open = m.open, RingID{} }

// ended notes that a claim ended the alarm without ring r; a is the row after it.
func (m *ackModel) ended(r RingID, a *Alarm) { m.known[r] = m.known[r] || a.InDoubt }

// lost notes that the claim's transaction was rolled back.
func (m *ackModel) lost() { m.open = m.before }

// settled notes the committed outcome of ring r; a is the row after it.
func (m *ackModel) settled(r RingID, a *Alarm) {
	arrived := a.RingNo == r.RingNo
	m.known[r] = m.known[r] || arrived || a.InDoubt
	m.open = RingID{}
	if a.Unacknowledged() && !arrived {
		m.open = m.before // the repetition was not sent
	}
	if a.AckTimeout > 0 && a.State != Dead && (arrived || a.InDoubt) {
		m.open = r
	}
}

// verdict returns the letter, as of verdictLetter, that an answer to r must get. "W": the ring is in a two-phase claim.
func (m *ackModel) verdict(r RingID, row *Alarm) string {
	inFlight := RingID{row.ID, row.Generation, row.RingNo + 1}
	switch {
	case r == m.open:
		return "M"
	case r == inFlight && row.Claimed():
		return "W"
	case r.AlarmID == row.ID && (r.Generation < row.Generation || m.known[r]):
		return "s"
	default:
		return "u"
	}
}

func TestRandomLivesAcceptTheAnswersOfTheModel(t *testing.T) {
	lives, accepted := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		lives++
		l := newLife()
		l.row = &Alarm{}
		*l.row = armed(nil, ackSet(), l.now)
		answer := func(t *rapid.T) {
			if l.answer(t) {
				accepted++
			}
		}
		actions := map[string]func(*rapid.T){
			"":         l.check,
			"answer":   answer,
			"answer 2": answer,
			"answer 3": answer,
			"ring":     l.ring,
			"ring 2":   l.ring,
			"claim":    l.takeClaim,
			"settle":   l.settle,
			"lose":     l.lose,
			"kick":     l.kick,
			"again":    l.again,
			"discard":  seldom(l.discard),
			"cancel":   seldom(l.cancel),
			"pause":    seldom(l.pause),
			"resume":   l.resume,
			"set":      seldom(l.set),
			"time":     func(t *rapid.T) { l.now += Instant(rapid.IntRange(0, 3000).Draw(t, "ms")) },
		}
		for range 8 {
			t.Repeat(actions)
		}
	})
	if accepted < 2*lives {
		t.Errorf("only %d answers were accepted in %d lives: the test tries too little", accepted, lives)
	}
}

// seldom returns an action that calls f one time in six. Lives get longer with it.
func seldom(f func(*rapid.T)) func(*rapid.T) {
	return func(t *rapid.T) {
		if rapid.IntRange(0, 5).Draw(t, "seldom") == 0 {
			f(t)
		}
	}
}

func ackSet() *Set {
	s := testSet("4711")
	s.RingAt, s.AckTimeout, s.MaxRings = 1_000_000, time.Second, 2
	return s
}

// again arms a finished alarm again.
func (l *life) again(t *rapid.T) {
	if !l.row.State.Over() {
		t.Skip("the alarm is not finished")
	}
	l.skipLocked(t)
	s := ackSet()
	s.RingAt, s.MaxRings = l.now, rapid.IntRange(1, 3).Draw(t, "max rings")
	s.Retry.Limit = rapid.IntRange(NoLimit, 1).Draw(t, "limit")
	if rapid.Bool().Draw(t, "bounded") {
		s.LatestRingAt = l.now + 2000
	}
	l.apply(t, Op{Set: s})
}

// ring claims the alarm and settles its ring as confirmed.
func (l *life) ring(t *rapid.T) {
	if l.row.NextTryTime != NoInstant {
		l.now = max(l.now, l.row.NextTryTime)
	}
	l.takeClaim(t)
	if l.claim != nil {
		l.settleAs(t, Confirmed)
	}
}

// answer answers a random ring and reports whether the answer was accepted.
func (l *life) answer(t *rapid.T) bool {
	l.skipLocked(t)
	a := l.drawAnswer(t)
	row := *l.row
	want := "u"
	if a.Key.Application == row.Application {
		want = l.acks.verdict(a.Ring, &row)
	}
	d := l.apply(t, Op{Answer: a})
	if got := letterOf(t, d); got != want {
		t.Fatalf("%s of %s, the alarm %s at %d.%d: %s (%v), want %s", a.Kind, a.Ring, row.State, row.Generation,
			row.RingNo, got, d.Err, want)
	}
	if want != "M" {
		return false
	}
	l.accepted(t, a)
	return true
}

func (l *life) drawAnswer(t *rapid.T) *Answer {
	a := &Answer{Key: l.row.Key, Kind: AnswerKind(rapid.IntRange(int(Ack), int(Touch)).Draw(t, "answer"))}
	a.Ring = RingID{
		AlarmID:    l.row.ID,
		Generation: max(1, l.row.Generation+int64(rapid.SampledFrom([]int{0, 0, 0, 0, -1, 1}).Draw(t, "generation"))),
		RingNo:     max(1, l.row.RingNo+rapid.SampledFrom([]int{0, 0, 1, 1, -1, 2}).Draw(t, "ring")),
	}
	switch rapid.IntRange(0, 19).Draw(t, "foreign") {
	case 0:
		a.Key.Application = "other"
	case 1:
		a.Ring.AlarmID++
	}
	if rapid.Bool().Draw(t, "with delay") {
		a.Delay = Delay{Given: true,
			Span: time.Duration(rapid.IntRange(1000, 3000).Draw(t, "delay")) * time.Millisecond}
	}
	return a
}

// accepted checks the row after an accepted answer, and checks that a repeat of the answer is refused.
func (l *life) accepted(t *rapid.T, a *Answer) {
	row := l.row
	if l.acks.closed[a.Ring] || l.acks.acked[row.Generation] {
		t.Fatalf("%s of %s after it was finished", a.Kind, a.Ring)
	}
	if row.RingNo != a.Ring.RingNo || row.InDoubt || row.Answer != a.Kind || row.AnsweredAt != l.now {
		t.Fatalf("%s of %s leaves %+v", a.Kind, a.Ring, row)
	}
	l.confirmed[a.Ring.String()] = true
	if want := map[AnswerKind]State{Ack: Rung, Release: Scheduled, Bury: Dead, Touch: Ringing}[a.Kind]; row.State != want {
		t.Fatalf("%s makes it %s", a.Kind, row.State)
	}
	if a.Kind == Touch {
		return
	}
	l.acks.open, l.acks.closed[a.Ring] = RingID{}, true
	l.acks.acked[row.Generation] = a.Kind == Ack
	if d := l.apply(t, Op{Answer: a}); letterOf(t, d) != "s" {
		t.Fatalf("%s of %s, repeated, is %s", a.Kind, a.Ring, d.Verdict)
	}
}

func letterOf(t *rapid.T, d Decision) string {
	if letter, ok := map[Verdict]string{Amend: "M", Locked: "W"}[d.Verdict]; ok {
		return letter
	}
	e, ok := d.Err.(*Error)
	if !ok {
		t.Fatalf("%s with %v", d.Verdict, d.Err)
	}
	return map[string]string{CodeStaleRing: "s", CodeUnknownRing: "u", CodeNotDead: "n"}[e.Code]
}

func (l *life) kick(t *rapid.T) {
	l.skipLocked(t)
	dead := l.row.State == Dead || l.row.State == Expired
	ringNo := l.row.RingNo
	d := l.apply(t, Op{Kick: &Kick{Key: l.row.Key}})
	if got := letterOf(t, d) == "M"; got != dead {
		t.Fatalf("a kick is %s; the alarm was dead or expired: %v", d.Verdict, dead)
	}
	if dead &&
		(l.row.State != Scheduled || l.row.NextTryTime != l.now || l.row.RingNo != ringNo || l.row.RetryTimes != 0) {
		t.Fatalf("kicked to %+v", l.row)
	}
	if dead && l.row.InDoubt && l.row.AckTimeout > 0 {
		l.acks.open = RingID{l.row.ID, l.row.Generation, ringNo + 1} // the ring in doubt may still be answered
	}
}

func (l *life) discard(t *rapid.T) {
	l.skipLocked(t)
	dead := l.row.State == Dead || l.row.State == Expired
	d := l.apply(t, Op{Discard: &Discard{Key: l.row.Key}})
	switch {
	case dead != (d.Verdict == Amend) || dead && l.row.State != Cancelled:
		t.Fatalf("a discard is %s, and the alarm is %s; it was dead or expired: %v", d.Verdict, l.row.State, dead)
	case dead:
		l.stopped[l.row.Generation] = true
	}
}
