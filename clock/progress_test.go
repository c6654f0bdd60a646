package clock

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock/repeat"
)

func mustRule(t interface{ Fatal(args ...any) }, spec repeat.Spec) *repeat.Rule {
	rule, err := repeat.Parse(spec)
	if err != nil {
		t.Fatal(err)
	}
	return &rule
}

// occurrenceModel says which occurrences ring, with plain lists in place of arithmetic.
type occurrenceModel struct {
	spec      repeat.Spec
	undecided []repeat.Occurrence // in order
	backlog   []repeat.Occurrence // decided to ring, after current
	current   repeat.Occurrence   // Number 0: none
	begun     bool                // current was tried
	queued    bool                // current, or the only element of backlog, waited for the end of an earlier ring
	ringAt    func(repeat.Occurrence) Instant

	rung, missed, skipped, failed int64
}

// due takes the undecided occurrences that are due off the list.
func (m *occurrenceModel) due(now Instant) (due []repeat.Occurrence) {
	for len(m.undecided) > 0 && m.ringAt(m.undecided[0]) <= now {
		due, m.undecided = append(due, m.undecided[0]), m.undecided[1:]
	}
	return due
}

// claim returns the occurrence that a claim at now rings.
func (m *occurrenceModel) claim(now Instant) (o repeat.Occurrence, rings bool) {
	switch {
	case m.begun:
		return m.current, true
	case len(m.backlog) > 0:
		m.current, m.backlog = m.backlog[0], m.backlog[1:]
		return m.current, true
	}
	due := m.due(now)
	keep := 1
	if m.spec.Missed == repeat.MissedAll {
		keep = m.spec.MissedLimit
	}
	kept := due[max(len(due)-keep, 0):]
	m.missed += int64(len(due) - len(kept))
	if m.spec.Missed == repeat.MissedSkip && now-m.ringAt(kept[0]) > MissedGrace {
		m.missed++
		return repeat.Occurrence{}, false
	}
	m.current, m.backlog = kept[0], kept[1:]
	return m.current, true
}

// end ends the current occurrence. count is the counter of its end.
func (m *occurrenceModel) end(count *int64, now Instant) {
	*count++
	m.queued = false
	if m.begun && len(m.backlog) == 0 {
		overlapping := m.due(now)
		m.skipped += int64(len(overlapping))
		if m.spec.Overlap == repeat.OverlapQueueOne && len(overlapping) > 0 {
			m.skipped--
			m.backlog, m.queued = overlapping[:1], true
		}
	}
	m.current, m.begun = repeat.Occurrence{}, false
}

// unsent puts a decision back: the ring was not sent.
func (m *occurrenceModel) unsent() {
	if m.begun {
		return
	}
	if m.queued {
		m.current, m.backlog = repeat.Occurrence{}, []repeat.Occurrence{m.current}
		return
	}
	m.undecided = append(append([]repeat.Occurrence{m.current}, m.backlog...), m.undecided...)
	m.current, m.backlog = repeat.Occurrence{}, nil
}

// repeatLife is the row of a repeating alarm under random claims, outcomes, answers and outages, beside the model.
type repeatLife struct {
	row   Alarm
	now   Instant
	model occurrenceModel
	rings map[int]int64 // occurrence of each ring number
}

func newRepeatLife(t *rapid.T) *repeatLife {
	spec := repeat.Spec{
		Jitter: rapid.SampledFrom([]int64{0, 0, 700}).Draw(t, "jitter"),
		Times:  rapid.SampledFrom([]int64{0, 0, 25}).Draw(t, "times"),
		Missed: rapid.SampledFrom([]repeat.Missed{repeat.MissedOnce, repeat.MissedSkip, repeat.MissedAll}).Draw(t,
			"missed"),
		Overlap: rapid.SampledFrom([]repeat.Overlap{repeat.OverlapSkip, repeat.OverlapQueueOne}).Draw(t, "overlap"),

		LatestAfter: rapid.SampledFrom([]int64{0, 0, 5000}).Draw(t, "latest after"),
	}
	if spec.Missed == repeat.MissedAll {
		spec.MissedLimit = rapid.IntRange(1, 6).Draw(t, "missed limit")
	}
	if spec.Cron = rapid.SampledFrom([]string{"", "*/2 * * * * *", "0,1,7 * * * * *", "0,1,7 0-59 0-23 * * *"}).Draw(t, "cron"); spec.Cron == "" {
		spec.Every = rapid.SampledFrom([]int64{1000, 3000}).Draw(t, "every")
	} else {
		spec.TimeZone = rapid.SampledFrom([]string{"UTC", "Europe/Berlin"}).Draw(t, "time zone")
	}
	l := &repeatLife{now: 1_000_000, rings: map[int]int64{}, model: occurrenceModel{spec: spec}}
	s := testSet("4711")
	s.RingAt, s.Repeat = NoInstant, mustRule(t, spec)
	s.AckTimeout = rapid.SampledFrom([]time.Duration{0, 2 * time.Second}).Draw(t, "ack timeout")
	s.MaxRings = rapid.IntRange(1, 3).Draw(t, "max rings")
	s.Retry = RetryPolicy{Initial: 100 * time.Millisecond, Factor: 2, Cap: time.Second,
		Limit: rapid.IntRange(NoLimit, 2).Draw(t, "limit")}
	if err := s.Validate(DefaultMaxPayload); err != nil {
		t.Fatal(err)
	}
	d := Op{Set: s}.Decide(nil, l.now)
	if d.Verdict != Create {
		t.Fatalf("the set is %s: %v", d.Verdict, d.Err)
	}
	l.row = d.Alarm
	l.row.ID = 7
	l.model.ringAt = l.row.Repetition().RingAt
	first, _ := l.row.Repeat.First(int64(l.now))
	l.model.undecided = l.row.Repeat.Occurrences(first, 4000)
	return l
}

// TestRandomLivesOfRepeatingAlarmsFollowTheModel is the model test of occurrences: each one ends in exactly one way, in
// order, never early, and no two occurrences share a message id.
func TestRandomLivesOfRepeatingAlarmsFollowTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := newRepeatLife(t)
		t.Repeat(map[string]func(*rapid.T){
			"":          l.check,
			"claim":     l.claim,
			"answer":    l.answer,
			"recompute": l.recompute,
			"time":      func(t *rapid.T) { l.now += Instant(rapid.IntRange(0, 2500).Draw(t, "ms")) },
			"outage":    func(t *rapid.T) { l.now += Instant(rapid.IntRange(5000, 60_000).Draw(t, "ms")) },
		})
	})
}

func (l *repeatLife) claim(t *rapid.T) {
	if l.row.NextTryTime == NoInstant || l.row.NextTryTime > l.now {
		t.Skip("nothing is due")
	}
	chosen, rings := l.row.Repetition().ChooseOccurrence(l.row.RingRow, l.now)
	want, wantRings := l.model.claim(l.now)
	if rings != wantRings {
		t.Fatalf("rings: %v, the model says %v", rings, wantRings)
	}
	if !rings {
		l.row.RingRow = chosen
		return
	}
	ring := &Ring{
		AlarmID: l.row.ID, Key: l.row.Key, Generation: l.row.Generation, RingNo: chosen.RingNo + 1, RungAt: l.now,
		Retry:      l.row.Retry,
		AckTimeout: l.row.AckTimeout, MaxRings: l.row.MaxRings, Repetition: l.row.Repetition(), Before: chosen,
		LatestRingAt: l.row.Repetition().Latest(&chosen.Progress),
		RingAt:       l.row.Repetition().RingAt(chosen.Progress.Current),
	}
	if ring.Occurrence() != want {
		t.Fatalf("the ring is of %v, the model says %v", ring.Occurrence(), want)
	}
	switch {
	case ring.LatestRingAt != NoInstant && ring.LatestRingAt < l.now:
		l.settle(t, ring, Outcome{Kind: TooLate})
	case chosen.Unacknowledged() && chosen.RingNo-chosen.Progress.RingsBefore >= l.row.MaxRings:
		l.settle(t, ring, Outcome{Kind: Unacknowledged})
	default:
		if l.now < ring.RingAt {
			t.Fatalf("rung at %v, before %v", l.now, ring.RingAt)
		}
		kind := rapid.SampledFrom([]OutcomeKind{Confirmed, Confirmed, Confirmed, Returned, Nacked, Doubtful,
			Unsent}).Draw(t, "outcome")
		if o, used := l.rings[ring.RingNo]; kind != Unsent && used && o != want.Number {
			t.Fatalf("ring %d is of occurrence %d, and was of %d", ring.RingNo, want.Number, o)
		}
		if kind != Unsent {
			l.rings[ring.RingNo] = want.Number
		}
		l.now += Instant(rapid.IntRange(1, 1500).Draw(t, "until the reply"))
		l.settle(t, ring, Outcome{Kind: kind, Reason: "x", Final: kind == Nacked && rapid.Bool().Draw(t, "final")})
	}
}

// settle writes the fate, and tells the model how the occurrence ended, if it did.
func (l *repeatLife) settle(t *rapid.T, ring *Ring, outcome Outcome) {
	fate := FateOf(ring, outcome, l.now)
	exhausted := ring.Retry.Exhausted(ring.Before.RetryTimes + 1)
	l.row.RingRow = fate.RingRow
	m := &l.model
	switch {
	case outcome.Kind == Unsent:
		m.unsent()
	case outcome.Kind == TooLate && !m.begun:
		m.end(&m.missed, l.now)
	case outcome.Kind == TooLate || outcome.Kind == Unacknowledged || outcome.Final ||
		exhausted && (outcome.Kind == Returned || outcome.Kind == Nacked):
		m.end(&m.failed, l.now)
	case outcome.Kind == Confirmed && ring.AckTimeout == 0:
		m.end(&m.rung, l.now)
	default:
		m.begun = true
	}
}

func (l *repeatLife) answer(t *rapid.T) {
	if l.row.State != Ringing {
		t.Skip("nothing to answer")
	}
	kind := rapid.SampledFrom([]AnswerKind{Ack, Ack, Release, Bury, Touch}).Draw(t, "answer")
	id := RingID{AlarmID: l.row.ID, Generation: l.row.Generation, RingNo: l.row.RingNo}
	d := Op{Answer: &Answer{Ring: id, Key: l.row.Key, Kind: kind,
		Delay: Delay{Given: true, Span: time.Second}}}.Decide(&l.row, l.now)
	if d.Verdict != Amend {
		t.Fatalf("the %s is %s: %v", kind, d.Verdict, d.Err)
	}
	l.row = d.Alarm
	switch kind {
	case Ack:
		l.model.end(&l.model.rung, l.now)
	case Bury:
		l.model.end(&l.model.failed, l.now)
	default:
	}
	if again := (Op{Answer: &Answer{Ring: id, Key: l.row.Key, Kind: Ack}}).Decide(&l.row, l.now); kind == Ack &&
		again.Verdict != Refuse {
		t.Fatal("the ring is answered twice")
	}
}

// recompute demands that a recomputation by the same time-zone data changes nothing.
func (l *repeatLife) recompute(t *rapid.T) {
	d := Op{Recompute: &Recompute{Key: l.row.Key}}.Decide(&l.row, l.now)
	if d.Verdict != Keep && !l.row.InDoubt {
		t.Fatalf("the recomputation is %s (%v): %+v became %+v", d.Verdict, d.Err, l.row.RingRow, d.Alarm.RingRow)
	}
}

func (l *repeatLife) check(t *rapid.T) {
	p, m := &l.row.Progress, &l.model
	if p.Rung != m.rung || p.Missed != m.missed || p.Skipped != m.skipped || p.Failed != m.failed {
		t.Fatalf("rung %d, missed %d, skipped %d, failed %d; the model has %d, %d, %d, %d",
			p.Rung, p.Missed, p.Skipped, p.Failed, m.rung, m.missed, m.skipped, m.failed)
	}
	left := len(m.backlog) + len(m.undecided)
	if m.current.Number != 0 {
		left++
	}
	if over := left == 0; over != l.row.State.Over() {
		t.Fatalf("%d occurrences are left, and the alarm is %s", left, l.row.State)
	}
	if l.row.State.Over() {
		return
	}
	if l.row.NextTryTime == NoInstant {
		t.Fatalf("the alarm is %s and not due", l.row.State)
	}
	decided := p.Rung + p.Missed + p.Skipped + p.Failed // with queue_one also occurrences after the current one
	if p.Current.Number > decided+1 || p.Current.Number <= decided && m.spec.Overlap != repeat.OverlapQueueOne {
		t.Fatalf("occurrence %d is current after %d ended", p.Current.Number, decided)
	}
	decoded, err := DecodeProgress(p.Encode())
	if err != nil || decoded != *p {
		t.Fatalf("decoded %+v, %v", decoded, err)
	}
}

func TestKickTakesTheLastOccurrenceOutOfTheCounts(t *testing.T) {
	for _, c := range []struct{ before, failed, missed int64 }{{1, 0, 2}, {0, 0, 1}} {
		p := Progress{Failed: c.before, Missed: 2}
		if p.kick(); p.Failed != c.failed || p.Missed != c.missed || !p.Kicked {
			t.Errorf("after a kick with %d failed: %+v", c.before, p)
		}
	}
	p := Progress{}
	if p.kick(); p.Failed != 0 || p.Missed != 0 { // its row was unreadable, so nothing was counted
		t.Errorf("counts below 0: %+v", p)
	}
}
