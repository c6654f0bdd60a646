package clock

import (
	"math"
	"slices"
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
	all       []repeat.Occurrence // of the rule
	counts    OccurrenceCounts
	inRow     int // failed occurrences in a row
	paused    bool
	ended     *int64            // count of last, which a kick takes back
	last      repeat.Occurrence // occurrence that ended the alarm, if it is over
	kicked    bool              // current rings however late
	unacked   bool              // a confirmed ring of current waits for its answer
	triggered bool              // a ring without an occurrence comes before all others; begun says whether it was tried

	backfill    []int64 // occurrences of the past that ring besides, in order
	backfillDue Instant // of the first one
	pace        time.Duration
	filling     bool // the first of backfill rings; begun says whether it was tried
	filled      int  // rings of backfills that are over
	backfilled  BackfillProgress
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
	case m.triggered:
		return repeat.Occurrence{}, true
	case m.filling:
		return repeat.Occurrence{At: m.backfill[0]}, true
	case m.begun || m.kicked:
		return m.current, true
	case len(m.backlog) > 0:
		m.current, m.backlog = m.backlog[0], m.backlog[1:]
		return m.current, true
	}
	due := m.due(now)
	if len(due) == 0 && len(m.backfill) > 0 && m.backfillDue <= now {
		m.filling = true
		return repeat.Occurrence{At: m.backfill[0]}, true
	}
	for m.spec.MissedWindow > 0 && len(due) > 0 && now-m.ringAt(due[0]) > Instant(m.spec.MissedWindow) {
		m.counts.Outside++
		m.ended, m.last = &m.counts.Outside, due[0]
		due = due[1:]
	}
	keep := 1
	if m.spec.Missed == repeat.MissedAll {
		keep = m.spec.MissedLimit
	}
	kept := due[max(len(due)-keep, 0):]
	m.counts.Missed += int64(len(due) - len(kept))
	if len(due) > 0 {
		m.ended, m.last = &m.counts.Missed, due[len(due)-1]
	}
	if m.spec.Missed == repeat.MissedSkip && now-m.ringAt(kept[0]) > MissedGrace {
		m.counts.Missed++
		return repeat.Occurrence{}, false
	}
	if len(kept) == 0 {
		return repeat.Occurrence{}, false
	}
	m.current, m.backlog = kept[0], kept[1:]
	return m.current, true
}

// before returns the time of the occurrence before o; 0: there is none.
func (m *occurrenceModel) before(o repeat.Occurrence) int64 {
	if o.Number <= 1 {
		return 0
	}
	return m.all[o.Number-2].At
}

// after returns the time of the occurrence after o.
func (m *occurrenceModel) after(o repeat.Occurrence) Instant {
	if int(o.Number) == len(m.all) {
		return NoInstant
	}
	return Instant(m.all[o.Number].At)
}

// end ends the current occurrence. count is the counter of its end.
func (m *occurrenceModel) end(count *int64, now Instant) {
	*count++
	m.ended, m.last = count, m.current
	switch count {
	case &m.counts.Failed:
		m.inRow++
	case &m.counts.Rung:
		m.inRow = 0
	}
	m.queued = false
	m.free(now)
	if m.spec.PauseAfter > 0 && m.inRow >= m.spec.PauseAfter && len(m.backlog)+len(m.undecided) > 0 {
		m.pause()
	}
}

// endTriggered ends the triggered ring.
func (m *occurrenceModel) endTriggered(now Instant) {
	m.triggered = false
	m.free(now)
}

// endFilling ends the ring of the backfill.
func (m *occurrenceModel) endFilling(rung bool, now Instant) {
	if rung {
		m.backfilled.Rung++
	} else {
		m.backfilled.Failed++
	}
	m.filled++
	m.filling, m.backfill, m.backfillDue = false, m.backfill[1:], now.Add(m.pace)
	m.free(now)
}

// dueAt returns when the next ring is due that has not begun. There is one.
func (m *occurrenceModel) dueAt() Instant {
	switch {
	case m.triggered || len(m.backlog) > 0:
		return 0
	case len(m.backfill) > 0:
		return min(m.backfillDue, m.ringAt(m.undecided[0]))
	}
	return m.ringAt(m.undecided[0])
}

// free ends a ring. Occurrences that came due while it lasted overlap with it.
func (m *occurrenceModel) free(now Instant) {
	if m.begun && len(m.backlog) == 0 {
		overlapping := m.due(now)
		m.counts.Skipped += int64(len(overlapping))
		if m.current.Number == 0 && len(overlapping) > 0 {
			m.ended, m.last = &m.counts.Skipped, overlapping[len(overlapping)-1]
		}
		if m.spec.Overlap == repeat.OverlapQueueOne && len(overlapping) > 0 {
			m.counts.Skipped--
			m.backlog, m.queued = overlapping[:1], true
		}
	}
	if m.kicked && m.ended == nil { // a ring before the kicked one has ended
		m.begun, m.unacked = false, false
		return
	}
	m.current, m.begun, m.unacked, m.kicked = repeat.Occurrence{}, false, false, false
	switch {
	case len(m.backlog)+len(m.undecided) == 0:
		m.paused = false // the alarm is over
	case m.paused:
		m.pause()
	}
}

// pause puts decisions back: after it, the due occurrences are decided again.
func (m *occurrenceModel) pause() {
	m.paused = true
	if (m.triggered || m.filling) && !m.unacked {
		m.triggered, m.filling, m.begun, m.unacked = false, false, false, false
	}
	if !m.begun && !m.queued {
		m.backlog, m.undecided = nil, append(slices.Clone(m.backlog), m.undecided...)
	}
}

func (m *occurrenceModel) resume() { m.paused, m.inRow = false, 0 }

// unsent puts a decision back: the ring was not sent.
func (m *occurrenceModel) unsent() {
	if m.begun || m.triggered || m.kicked {
		return
	}
	if m.filling {
		m.filling = false // an occurrence that comes due meanwhile comes first
		return
	}
	if m.queued {
		m.current, m.backlog = repeat.Occurrence{}, []repeat.Occurrence{m.current}
		return
	}
	m.undecided = append(append([]repeat.Occurrence{m.current}, m.backlog...), m.undecided...)
	m.current, m.backlog = repeat.Occurrence{}, nil
}

// firstBackfilled is far from the numbers of triggered rings.
const firstBackfilled = -1_000_000

// repeatLife is the row of a repeating alarm under random claims, outcomes, answers and outages, beside the model.
type repeatLife struct {
	row   Alarm
	now   Instant
	model occurrenceModel
	// rings is the occurrence of each ring number; -n: the nth triggered ring; firstBackfilled-n: the nth ring of backfills.
	rings map[int]int64
	asked int64 // triggered rings
}

func newRepeatLife(t *rapid.T) *repeatLife {
	spec := repeat.Spec{
		Jitter: rapid.SampledFrom([]int64{0, 0, 700}).Draw(t, "jitter"),
		Times:  rapid.SampledFrom([]int64{0, 0, 25}).Draw(t, "times"),
		Missed: rapid.SampledFrom([]repeat.Missed{repeat.MissedOnce, repeat.MissedSkip, repeat.MissedAll}).Draw(t,
			"missed"),
		Overlap: rapid.SampledFrom([]repeat.Overlap{repeat.OverlapSkip, repeat.OverlapQueueOne}).Draw(t, "overlap"),

		LatestAfter: rapid.SampledFrom([]int64{0, 0, 5000}).Draw(t, "latest after"),
		PauseAfter:  rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "pause after"),
	}
	if spec.Missed != repeat.MissedSkip {
		spec.MissedWindow = rapid.SampledFrom([]int64{0, 0, 10_000, 20_000}).Draw(t, "missed window")
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
	l.model.all = l.row.Repeat.Occurrences(first, 4000)
	l.model.undecided = l.model.all
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
			"pause":     l.pause,
			"resume":    l.resume,
			"trigger":   l.trigger,
			"backfill":  l.backfill,
			"kick":      l.kick,
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
		RingAt:       l.row.Repetition().DueAt(&chosen.Progress),
	}
	if ring.Occurrence() != want {
		t.Fatalf("the ring is of %v, the model says %v", ring.Occurrence(), want)
	}
	if _, next := ring.OccurrencesBeside(); want.Number != 0 && next != l.model.after(want) {
		t.Fatalf("the occurrence after %v is at %v, the model says %v", want, next, l.model.after(want))
	}
	number := want.Number
	switch before := l.model.before(want); {
	case l.model.triggered:
		number = -l.asked
	case l.model.filling:
		number = firstBackfilled - int64(l.model.filled)
	case chosen.Progress.PreviousAt != before:
		t.Fatalf("the occurrence before %v is at %d, the model says %d", want, chosen.Progress.PreviousAt, before)
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
		if o, used := l.rings[ring.RingNo]; kind != Unsent && used && o != number {
			t.Fatalf("ring %d is of occurrence %d, and was of %d", ring.RingNo, number, o)
		}
		if kind != Unsent {
			l.rings[ring.RingNo] = number
		}
		l.now += Instant(rapid.IntRange(1, 1500).Draw(t, "until the reply"))
		l.settle(t, ring, Outcome{Kind: kind, Reason: "x", Final: kind == Nacked && rapid.Bool().Draw(t, "final")})
	}
}

// checkListed checks the list of next occurrences.
func (l *repeatLife) checkListed(t *rapid.T) {
	m := &l.model
	var want []repeat.Occurrence
	switch unplanned := m.triggered || m.filling; {
	case !unplanned && (m.begun || m.kicked):
		want = append(want, m.current)
	case !unplanned && len(m.backlog) > 0:
		want = append(want, m.backlog[0])
	}
	for _, o := range m.undecided {
		if len(want) < 4 && m.ringAt(o) > l.now {
			want = append(want, o)
		}
	}
	for _, counted := range []int{len(m.all), 5} {
		listed := l.row.Occurrences(l.now, 4, counted)
		for i := range listed {
			if counted == 5 && listed[i].Number == 0 && i < len(want) {
				listed[i].Number = want[i].Number
			}
		}
		few := counted == 5 && l.row.Repeat.Spec().Times != 0 && len(listed) < len(want)
		if !few && !slices.Equal(listed, want) {
			t.Fatalf("the next occurrences are %v, the model says %v", listed, want)
		}
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
		m.end(&m.counts.Missed, l.now)
	case outcome.Kind == TooLate || outcome.Kind == Unacknowledged || outcome.Final ||
		exhausted && (outcome.Kind == Returned || outcome.Kind == Nacked):
		l.end(&m.counts.Failed)
	case outcome.Kind == Confirmed && ring.AckTimeout == 0:
		l.end(&m.counts.Rung)
	default:
		m.begun = true
		m.unacked = outcome.Kind == Confirmed
	}
}

// end tells the model that the ring is over. count is the counter of its occurrence.
func (l *repeatLife) end(count *int64) {
	switch {
	case l.model.triggered:
		l.model.endTriggered(l.now)
		return
	case l.model.filling:
		l.model.endFilling(count == &l.model.counts.Rung, l.now)
		return
	}
	l.model.end(count, l.now)
}

func (l *repeatLife) answer(t *rapid.T) {
	paused := l.row.State == Paused && l.model.unacked
	if l.row.State != Ringing && !paused {
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
		l.end(&l.model.counts.Rung)
	case Bury:
		l.end(&l.model.counts.Failed)
	case Release:
		if l.model.unacked = false; l.model.paused {
			l.model.pause()
		}
	default:
	}
	if paused && l.row.State != Paused && !l.row.State.Over() {
		t.Fatalf("the %s of a paused alarm makes it %s", kind, l.row.State)
	}
	if again := (Op{Answer: &Answer{Ring: id, Key: l.row.Key, Kind: Ack}}).Decide(&l.row, l.now); kind == Ack &&
		again.Verdict != Refuse {
		t.Fatal("the ring is answered twice")
	}
}

func (l *repeatLife) pause(t *rapid.T) {
	note := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "note")
	d := Op{Pause: &Pause{Key: l.row.Key}, Note: note}.Decide(&l.row, l.now)
	if l.row.State == Paused { // the reason may change, and nothing else
		before := l.row.RingRow
		l.row = d.Alarm
		d.Alarm.LastError, d.Alarm.UpdateTime = before.LastError, before.UpdateTime
		if d.Alarm.RingRow != before {
			t.Fatalf("a second pause: %+v became %+v", before, d.Alarm.RingRow)
		}
		return
	}
	if may := (l.row.State == Scheduled || l.row.State == Ringing) && !l.row.InDoubt; may != (d.Verdict == Amend) {
		t.Fatalf("the pause of a row that is %s, in doubt: %v, is %s", l.row.State, l.row.InDoubt, d.Verdict)
	} else if !may {
		return
	}
	l.row = d.Alarm
	l.model.pause()
}

func (l *repeatLife) resume(t *rapid.T) {
	if l.row.State != Paused {
		t.Skip("nothing to resume")
	}
	l.row = Op{Resume: &Resume{Key: l.row.Key}}.Decide(&l.row, l.now).Alarm
	l.model.resume()
}

// trigger asks for a ring at once. A further try, and a triggered ring that waits, are no other ring.
func (l *repeatLife) trigger(t *rapid.T) {
	if l.model.kicked && !l.model.begun {
		t.Skip("whether a kicked occurrence has begun depends on its tries before the kick")
	}
	waits := (l.model.begun || l.model.triggered) && l.row.NextTryTime <= l.now
	d := Op{Trigger: &Trigger{Key: l.row.Key}}.Decide(&l.row, l.now)
	if may := l.row.State == Scheduled && !l.row.InDoubt; !may && d.Verdict != Refuse || may && waits != (d.Verdict == Keep) {
		t.Fatalf("the trigger of a row that is %s, in doubt: %v, is %s", l.row.State, l.row.InDoubt, d.Verdict)
	} else if d.Verdict != Amend {
		return
	}
	l.row = d.Alarm
	if !l.model.begun && !l.model.triggered {
		l.model.triggered = true
		l.asked++
	}
}

// kick rings the occurrence that has ended the alarm once more.
func (l *repeatLife) kick(t *rapid.T) {
	d := Op{Kick: &Kick{Key: l.row.Key}}.Decide(&l.row, l.now)
	if may := l.row.State == Dead || l.row.State == Expired; may != (d.Verdict == Amend) {
		t.Fatalf("the kick of a row that is %s is %s", l.row.State, d.Verdict)
	} else if !may {
		return
	}
	l.row = d.Alarm
	m := &l.model
	*m.ended--
	if m.ended == &m.counts.Failed {
		m.inRow--
	}
	m.current, m.kicked, m.ended, m.backfill = m.last, true, nil, nil
}

// backfill begins a backfill of some seconds of the past, or ends the current backfill.
func (l *repeatLife) backfill(t *rapid.T) {
	if len(l.model.backfill) > 0 && rapid.Bool().Draw(t, "end") {
		l.endBackfill(t)
		return
	}
	asked := &Backfill{Key: l.row.Key, From: l.now - Instant(rapid.IntRange(0, 20_000).Draw(t, "from")), Until: NoInstant,
		Pace: rapid.SampledFrom([]time.Duration{0, 0, 700 * time.Millisecond, 5 * time.Second}).Draw(t, "pace")}
	var want []int64
	for at, ok := l.row.Repeat.Next(int64(asked.From) - 1); ok && at <= int64(l.now); at, ok = l.row.Repeat.Next(at) {
		want = append(want, at)
	}
	d := Op{Backfill: asked}.Decide(&l.row, l.now)
	may := (l.row.State == Scheduled || l.row.State == Ringing) && !l.row.InDoubt && len(l.model.backfill) == 0 &&
		len(want) > 0 && len(want) <= l.row.Repeat.MissedLimit()
	if may != (d.Verdict == Amend) {
		t.Fatalf("the backfill of %d occurrences of a row that is %s is %s: %v", len(want), l.row.State, d.Verdict, d.Err)
	} else if !may {
		return
	}
	if l.model.begun && d.Alarm.NextTryTime != l.row.NextTryTime {
		t.Fatalf("the backfill moves a try from %v to %v", l.row.NextTryTime, d.Alarm.NextTryTime)
	}
	l.row = d.Alarm
	m := &l.model
	m.backfill, m.backfillDue, m.pace, m.backfilled = want, l.now, asked.Pace, BackfillProgress{}
}

func (l *repeatLife) endBackfill(t *rapid.T) {
	d := Op{EndBackfill: &EndBackfill{Key: l.row.Key}}.Decide(&l.row, l.now)
	if may := !l.row.State.Over() && !l.row.InDoubt; may && d.Verdict != Amend || !may && d.Verdict == Amend {
		t.Fatalf("the end of the backfill of a row that is %s is %s: %v", l.row.State, d.Verdict, d.Err)
	} else if !may {
		return
	}
	m := &l.model
	unacknowledged := l.row.State == Ringing || m.paused && m.unacked
	l.row = d.Alarm
	switch {
	case !m.filling:
		m.backfill = nil
	case unacknowledged:
		m.backfill = m.backfill[:1]
	default:
		m.backfill, m.filling, m.begun = nil, false, false
		m.filled++
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
	if b := &p.Backfill; b.Rung != m.backfilled.Rung || b.Failed != m.backfilled.Failed ||
		int(b.Left) != len(m.backfill) || b.Left == 0 && b.At != 0 {
		t.Fatalf("the backfill is %+v; the model has %+v, and %d left", *b, m.backfilled, len(m.backfill))
	}
	if p.OccurrenceCounts != m.counts || p.FailedInRow != m.inRow {
		t.Fatalf("counts %+v, %d failed in a row; the model has %+v, %d", p.OccurrenceCounts, p.FailedInRow, m.counts, m.inRow)
	}
	if paused := l.row.State == Paused; paused != m.paused {
		t.Fatalf("paused: %v, the model says %v", paused, m.paused)
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
	l.checkListed(t)
	if due := l.row.NextTryTime != NoInstant; due == m.paused {
		t.Fatalf("the alarm is %s, and due: %v", l.row.State, due)
	}
	if !m.paused && !m.begun && !m.kicked && m.current.Number == 0 && l.row.NextTryTime > max(m.dueAt(), l.row.UpdateTime) {
		t.Fatalf("the alarm is due at %v, the model says %v", l.row.NextTryTime, m.dueAt())
	}
	decided := p.Rung + p.Missed + p.Outside + p.Skipped + p.Failed // with queue_one also occurrences after the current one
	if p.Current.Number > decided+1 || p.Current.Number <= decided && m.spec.Overlap != repeat.OverlapQueueOne && !p.Kicked {
		t.Fatalf("occurrence %d is current after %d ended", p.Current.Number, decided)
	}
	decoded, err := DecodeProgress(p.Encode())
	if err != nil || decoded != *p {
		t.Fatalf("decoded %+v, %v", decoded, err)
	}
}

// TestLongestProgressFitsItsColumn encodes the largest values of an alarm that rings each second for a hundred years.
func TestLongestProgressFitsItsColumn(t *testing.T) {
	const at, count, lateness = int64(MaxInstant), 100 * 366 * 24 * 60 * 60, 1e15
	p := Progress{
		Current: repeat.Occurrence{At: at, Number: count}, Next: repeat.Occurrence{At: at, Number: count}, DecidedUntil: at, Label: at,
		PreviousAt: at, RingsBefore: math.MaxInt32, FailedInRow: 1000,
		Backfill: BackfillProgress{At: at, Label: at, DueAt: at, Pace: MaxPace.Milliseconds(), Left: MaxBackfill, Rung: MaxBackfill,
			Failed: MaxBackfill, Rings: true},
		OccurrenceCounts: OccurrenceCounts{Rung: count, Missed: count, Outside: count, Skipped: count, Failed: count},
		Lateness:         at, LatenessMax: at, LatenessSum: lateness,
	}
	const column = 500 // repeat_state
	triggered := p
	triggered.TriggeredAt, triggered.Backfill.Rings = at, false
	unanswered := p
	unanswered.UnansweredUntil = at
	over := p
	over.Ended, over.Backfill.Rings = SkippedCount, false
	for _, p := range []Progress{p, triggered, unanswered, over} {
		if text := p.Encode(); len(text) > column {
			t.Errorf("%d bytes: %s", len(text), text)
		}
	}
}

func TestProgressOutOfRangeIsRefused(t *testing.T) {
	for _, text := range []string{
		`{"n":0,"at":5}`, `{"n":1,"at":-5}`, `{"n":1,"at":253402300800000}`, `{"n":1,"at":5,"next":-1}`,
		`{"n":1,"at":5,"rings":-1}`, `{"n":2,"at":5,"prev_at":-1}`, `{"n":2,"at":5,"prev_at":253402300800000}`,
		`{"n":1,"at":5,"later":1}`, `{`, `{"n":1,"at":5,"backfill":[1]}`, `{"n":1,"at":5,"backfill":[1,1,1,1,0,0,0,1]}`,
		`{"n":1,"at":5,"backfill":[1,1,-1,1,1,0,0,1]}`, `{"n":1,"at":5,"backfill":[253402300800000,1,1,1,1,0,0,1]}`,
	} {
		if p, err := DecodeProgress(text); err == nil {
			t.Errorf("%s is read as %+v", text, p)
		}
	}
}
