package ring

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unique"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// absentees is a target that refuses the applications whose value is true. It gets no deliveries.
type absentees map[string]bool

func (absentees) Usable() error            { return nil }
func (absentees) Changed() <-chan struct{} { return nil }
func (absentees) Lane(int) Lane            { return nil }
func (a absentees) Accepts(n string) error {
	if a[n] {
		return errors.New("no receiver")
	}
	return nil
}

func newQuarantine(target Target) *quarantine {
	h, cs := NewHeap(1, 10_000), &crews{all: []*crew{{Route: &Route{Target: target}, usable: true}}}
	return &quarantine{
		cfg: DefaultConfig(), heap: h, crews: cs, log: slog.New(slog.DiscardHandler),
		metrics: newMetrics(prometheus.NewRegistry(), h), watched: map[addressee]*watched{},
		leftovers: map[leftoverKey]*watched{},
	}
}

// withoutTarget is the addressee of an application's alarms that name no target.
func withoutTarget(application string) addressee {
	return unique.Make(store.Addressee{Application: application})
}

var testApplication = withoutTarget("orders")

// applyRound applies a round of testApplication with the given outcomes.
func (q *quarantine) applyRound(own bool, kinds ...clock.OutcomeKind) {
	r := result{batch: batch{crew: q.crews.all[0]}}
	if own {
		r.quarantined = []*watched{q.watched[testApplication]}
	}
	rings, outcomes := make([]clock.Ring, len(kinds)), make([]clock.Outcome, len(kinds))
	for i, k := range kinds {
		rings[i].Application = testApplication.Value().Application
		outcomes[i] = clock.Outcome{Kind: k, Reason: k.String()}
	}
	r.countOutcomes(rings, outcomes)
	q.applyResult(r)
}

func (q *quarantine) health() health {
	if a := q.watched[testApplication]; a != nil {
		return a.health
	}
	return healthy
}

func TestHealthAfterRounds(t *testing.T) {
	const (
		ok, returned, nacked, doubt   = clock.Confirmed, clock.Returned, clock.Nacked, clock.Doubtful
		refused, unsent, untaken, own = clock.Refused, clock.Unsent, clock.Untaken, true
	)
	type round struct {
		own   bool
		kinds []clock.OutcomeKind
		want  health
	}
	r := func(own bool, want health, kinds ...clock.OutcomeKind) round { return round{own, kinds, want} }
	tests := []struct {
		name   string
		rounds []round
	}{
		{"confirmed rings keep healthy", []round{r(false, healthy, ok, ok)}},
		{"unsent rings are no failure", []round{r(false, healthy, unsent, ok)}},
		{"one ring in doubt makes suspect", []round{r(false, suspect, ok, doubt), r(own, healthy, ok)}},
		{"untaken rings do not hold",
			[]round{r(false, suspect, untaken), r(own, suspect, untaken), r(own, suspect, untaken),
				r(own, suspect, untaken), r(own, healthy, ok)}},
		{"a shared round does not heal",
			[]round{r(false, suspect, nacked), r(false, suspect, ok), r(own, healthy, ok)}},
		{"half confirmed does not heal", []round{r(false, suspect, nacked), r(own, suspect, ok, nacked)}},
		{"an empty round does not heal", []round{r(false, suspect, nacked), r(own, suspect), r(own, suspect, unsent)}},
		{"nacks do not hold",
			[]round{r(false, suspect, nacked), r(own, suspect, nacked), r(own, suspect, nacked),
				r(own, suspect, nacked), r(own, healthy, ok)}},
		{"three rounds in doubt hold",
			[]round{r(false, suspect, doubt), r(own, suspect, doubt, returned), r(own, held, doubt)}},
		{"three returned rounds hold",
			[]round{r(false, suspect, returned), r(own, suspect, returned), r(own, held, returned)}},
		{"shared returns count",
			[]round{r(false, suspect, returned), r(false, suspect, returned), r(false, held, returned)}},
		{"a confirmation restarts the count", []round{
			r(false, suspect, returned), r(own, suspect, returned), r(own, suspect, returned, ok),
			r(own, suspect, returned),
			r(own, suspect, returned), r(own, held, returned),
		}},
		{"a confirmation in a shared round restarts the count", []round{
			r(false, suspect, ok, returned), r(false, suspect, returned), r(false, suspect, returned),
			r(false, held, returned),
		}},
		{"an untaken ring leaves the count as it is", []round{
			r(false, suspect, doubt), r(own, suspect, untaken), r(own, suspect, doubt), r(own, suspect, untaken),
			r(own, held, doubt),
		}},
		{"a nack restarts the count", []round{
			r(false, suspect, returned), r(own, suspect, returned), r(own, suspect, nacked), r(own, suspect, returned),
		}},
		{"a failed probe keeps the application held", []round{
			r(false, suspect, returned), r(own, suspect, returned), r(own, held, returned), r(own, held, returned),
			r(own, held, doubt),
			r(own, held, nacked), r(own, healthy, ok),
		}},
		{"refusals do not hold", []round{
			r(false, suspect, refused, refused, refused, refused), r(own, suspect, refused, refused),
			r(own, suspect, refused),
			r(own, healthy, ok),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q := newQuarantine(absentees{})
			for i, round := range tt.rounds {
				q.applyRound(round.own, round.kinds...)
				if got := q.health(); got != round.want {
					t.Fatalf("after round %d (%v): %s, want %s", i, round.kinds, got, round.want)
				}
			}
		})
	}
}

// Without a confirmation the pause of a suspect application grows up to Config.Probe.
func TestPauseGrowsWithoutConfirmation(t *testing.T) {
	q := newQuarantine(absentees{})
	for i, want := range []int64{50, 100, 200, 400, 800, 1000, 1000} {
		q.applyRound(i > 0, clock.Nacked)
		if got := q.watched[testApplication].pause(q.cfg.Probe).Milliseconds(); got != want {
			t.Errorf("after %d rounds: %d ms, want %d", i+1, got, want)
		}
	}
	q.applyRound(true, clock.Nacked, clock.Confirmed)
	if got := q.watched[testApplication].pause(q.cfg.Probe); got != 0 {
		t.Errorf("after a confirmation: %s", got)
	}
}

// Refusals halve the batches. Confirmed rounds double them again, while more entries are parked.
func TestRefusalsHalveBatches(t *testing.T) {
	q := newQuarantine(absentees{})
	q.applyRound(false, slices.Repeat([]clock.OutcomeKind{clock.Refused}, 40)...)
	a := q.watched[testApplication]
	a.parked = make([]entry, 10)
	var sizes []int
	for n := 20; n > 1; n = a.batchRows {
		q.applyRound(true, slices.Repeat([]clock.OutcomeKind{clock.Refused}, n)...)
		sizes = append(sizes, a.batchRows)
	}
	for q.health() != healthy {
		q.applyRound(true, clock.Confirmed)
		sizes = append(sizes, a.batchRows)
	}
	if got, want := fmt.Sprint(sizes), "[10 5 2 1 2 4 8 16 32 64 128 256 300 300]"; got != want {
		t.Errorf("batches of %s, want %s", got, want)
	}
}

// A receiver that takes a part of a batch gets as many rings the next time, and more by the number of its late
// outcomes. The other rows would be claimed and released again.
func TestBatchOfABusyReceiverHasTheRowsThatItTakes(t *testing.T) {
	q := newQuarantine(absentees{})
	round := func(taken clock.OutcomeKind, number, untaken int) {
		q.applyRound(q.watched[testApplication] != nil,
			append(slices.Repeat([]clock.OutcomeKind{taken}, number),
				slices.Repeat([]clock.OutcomeKind{clock.Untaken}, untaken)...)...)
	}
	late := func(kinds ...clock.OutcomeKind) {
		f := &tally{}
		for _, kind := range kinds {
			f.add(clock.Outcome{Kind: kind})
		}
		q.applyLate(lateTallies{byAddressee: map[addressee]*tally{testApplication: f}, crew: q.crews.all[0]})
	}
	for _, step := range []struct {
		name string
		do   func()
		want int
	}{
		{"it takes 16 of 300", func() { round(clock.Awaited, 16, 284) }, 16},
		{"it takes none", func() { round(clock.Awaited, 0, 16) }, 16},
		{"two late confirms", func() { late(clock.Confirmed, clock.Confirmed) }, 18},
		{"it takes 2 of 18", func() { round(clock.Awaited, 2, 16) }, 2},
		{"a late failure, and a late ring that was not taken", func() { late(clock.Nacked, clock.Untaken) }, 3},
		{"it takes all", func() { round(clock.Awaited, 3, 0) }, 3},
		{"it confirms all", func() {
			q.watched[testApplication].parked = make([]entry, 10)
			round(clock.Confirmed, 3, 0)
		}, 6},
		{"many late confirms", func() { late(slices.Repeat([]clock.OutcomeKind{clock.Confirmed}, 500)...) }, 300},
	} {
		if step.do(); q.watched[testApplication].batchRows != step.want {
			t.Fatalf("%s: the next batch has %d rows, want %d", step.name, q.watched[testApplication].batchRows,
				step.want)
		}
	}
}

// The end of alarms whose receiver the settings have no more says nothing about the application's health. So a held
// application neither waits after it, nor is taken for well.
func TestWithdrawnReceiversTellNothing(t *testing.T) {
	ring := clock.Ring{}
	for name, o := range map[string]clock.Outcome{
		"first": clock.Withdrawn(&ring, "withdrawn"), "second": {Kind: clock.Nacked, Withdrawn: true, Final: true},
	} {
		f := &tally{}
		if f.add(o); *f != (tally{}) {
			t.Errorf("%s try: %+v", name, *f)
		}
		q := newQuarantine(absentees{})
		for range undeliveredBeforeHold + 1 {
			q.applyRound(q.watched[testApplication] != nil, clock.Returned)
		}
		a := q.watched[testApplication]
		nextTry := a.nextTry
		r := result{batch: batch{crew: q.crews.all[0], quarantined: []*watched{a}},
			tallies: map[addressee]*tally{testApplication: f}}
		if q.applyResult(r); q.health() != held || !a.nextTry.Equal(nextTry) {
			t.Errorf("%s try: %s, the next try is later by %s", name, q.health(), a.nextTry.Sub(nextTry))
		}
	}
}

// A receiver that works, and takes a part of a batch, gets two batches at once until its backlog is over. A receiver
// with any other failure gets one.
func TestCrowdedReceiverGetsTwoBatchesAtOnce(t *testing.T) {
	for failure, want := range map[clock.OutcomeKind]int{clock.Untaken: 2, clock.Nacked: 1, clock.Doubtful: 1} {
		q, now, got := newQuarantine(absentees{}), time.Now().Add(time.Second), 0
		q.applyRound(false, clock.Confirmed, clock.Confirmed, failure)
		a := q.watched[testApplication]
		a.parked, a.batchRows = make([]entry, 1000), q.cfg.BatchRows
		q.reviewed = time.Time{}
		for q.review(0, now); ; got++ {
			if _, ok := q.nextRound(q.crews.all[0], now, q.cfg.BatchRows, true); !ok {
				break
			}
		}
		if got != want || a.batches != want {
			t.Errorf("%s: %d batches at once, want %d", failure, got, want)
		}
		q.applyRound(true, clock.Confirmed)
		if got := q.health(); (got == suspect) != (failure == clock.Untaken) {
			t.Errorf("%s: %s with a backlog", failure, got)
		}
		a.parked = nil
		if q.applyRound(true, clock.Confirmed); q.health() != healthy {
			t.Errorf("%s: %s without a backlog", failure, q.health())
		}
	}
}

// A crowded application leaves each second batch to the others: its own comes after theirs.
func TestCrowdedReceiverWaitsForOthersTurns(t *testing.T) {
	q, now := newQuarantine(absentees{}), time.Now().Add(time.Second)
	q.applyRound(false, clock.Confirmed, clock.Untaken)
	crowded, doubtful := q.watched[testApplication], q.add(withoutTarget("other"), suspect, now)
	crowded.parked, crowded.batchRows = make([]entry, 1000), 10
	doubtful.parked, doubtful.failureKind, doubtful.lastRound = make([]entry, 1), silent, q.rounds+1
	q.reviewed = time.Time{}
	q.review(0, now)
	for i, want := range []*watched{crowded, doubtful, crowded} {
		if b, ok := q.nextRound(q.crews.all[0], now, q.cfg.BatchRows, true); !ok || b.quarantined[0] != want {
			t.Fatalf("round %d: %t, of %+v", i, ok, b.quarantined)
		}
	}
}

// The heap keeps the entries that a suspect application cannot park, until it can.
func TestHeapKeepsWhatASuspectApplicationCannotPark(t *testing.T) {
	q, now := newQuarantine(absentees{}), time.Now()
	q.applyRound(false, clock.Confirmed, clock.Untaken)
	a, rows := q.watched[testApplication], make([]store.Due, maxParked+10)
	a.batchRows = maxParked / 2
	for i := range rows {
		rows[i] = store.Due{ID: int64(i + 1), Application: "orders"}
	}
	q.heap.Offer(0, rows)
	admit := func() (parked int) {
		for _, e := range q.heap.pop(nil, 0, 0, len(rows)) {
			switch got := q.admit(e, now); got {
			case admitParked:
				parked++
			case admitLater:
				q.heap.complete([]entry{e}, true)
			default:
				t.Fatalf("admitted as %d", got)
			}
		}
		return parked
	}
	if got := admit(); got != maxParked || admit() != 0 {
		t.Fatalf("%d parked", got)
	}
	if waiting, _ := q.heap.Len(); waiting != 10 || len(q.heap.Offer(0, nil)) > 0 {
		t.Errorf("%d are kept", waiting)
	}
	taken := a.take(maxParked, now)
	q.heap.complete(taken, false)
	if a.crew.parked -= len(taken); !a.suspended {
		t.Error("not suspended")
	}
	q.reviewed = time.Time{}
	if q.review(0, now); admit() != 10 {
		t.Error("the kept entries do not ring")
	}
}

// A recovered application's parked entries are due at once.
func TestRecoveryPutsParkedEntriesBack(t *testing.T) {
	q := newQuarantine(absentees{})
	q.applyRound(false, clock.Nacked)
	q.heap.Offer(0, []store.Due{{ID: 1, Application: "orders"}, {ID: 2, Application: "orders"}})
	for _, e := range q.heap.pop(nil, 0, 0, 10) {
		if got := q.admit(e, time.Now()); got != admitParked {
			t.Fatalf("admitted as %d", got)
		}
	}
	q.applyRound(true, clock.Confirmed)
	if waiting, inFlight := q.heap.Len(); q.health() != healthy || waiting != 2 || inFlight != 0 {
		t.Errorf("%s, %d waiting, %d in flight", q.health(), waiting, inFlight)
	}
}

// Applications in quarantine share a round. Each gets its part of the rows.
func TestRoundDividesRowsAmongApplications(t *testing.T) {
	q := newQuarantine(absentees{})
	now := time.Now()
	for _, name := range []string{"a", "b", "c"} {
		q.add(withoutTarget(name), suspect, now).parked = make([]entry, 150)
		q.crews.all[0].parked += 150
	}
	q.watched[withoutTarget("c")].batchRows = 10
	q.review(0, now)
	b, ok := q.nextRound(q.crews.all[0], now, q.cfg.BatchRows, true)
	if !ok || len(b.quarantined) != 3 || len(b.entries) != 210 || q.crews.all[0].parked != 240 {
		t.Fatalf("%d entries of %d applications, %d are parked", len(b.entries), len(b.quarantined),
			q.crews.all[0].parked)
	}
	if _, ok := q.nextRound(q.crews.all[0], now, q.cfg.BatchRows, true); ok {
		t.Error("an application rings in two rounds at once")
	}
}

// Silent applications share no round with replying ones. A refusing application, which may be to blame for its round,
// rings alone.
func TestSilentAndRefusingApplicationsRingApart(t *testing.T) {
	q := newQuarantine(absentees{})
	now := time.Now()
	for name, m := range map[string]failureKind{"a": replying, "b": replying, "c": silent, "d": silent, "e": refusing, "f": refusing} {
		a := q.add(withoutTarget(name), suspect, now)
		a.parked, a.failureKind = make([]entry, 400), m
	}
	q.review(0, now)
	var rounds []string
	for {
		b, ok := q.nextRound(q.crews.all[0], now, q.cfg.BatchRows, true)
		if !ok {
			break
		}
		names := ""
		for _, a := range b.quarantined {
			names += a.name.Value().Application
		}
		if b.silent != strings.Contains(names, "c") {
			t.Errorf("round of %s: silent %t", names, b.silent)
		}
		rounds = append(rounds, sorted(names))
	}
	slices.Sort(rounds)
	if got := fmt.Sprint(rounds); got != "[ab cd e f]" {
		t.Errorf("rounds %s", got)
	}
	for _, a := range q.watched {
		a.batches = 0
	}
	q.review(0, now.Add(time.Second))
	for range 3 {
		if b, ok := q.nextRound(q.crews.all[0], now.Add(time.Second), q.cfg.BatchRows, false); !ok || b.silent {
			t.Errorf("round %t, silent %t, want rounds that are not silent", ok, b.silent)
		}
	}
}

func sorted(s string) string {
	letters := []byte(s)
	slices.Sort(letters)
	return string(letters)
}

// Parked entries, shown applications and log lines are bounded. When the quarantine is full, further failing
// applications ring with the healthy ones, and further absent applications stay in the heap.
func TestQuarantineIsBounded(t *testing.T) {
	synctest.Test(t, testQuarantineIsBounded) // the bubble's time stands still, so the lines fall into one second
}

func testQuarantineIsBounded(t *testing.T) {
	target, lines := absentees{}, &countingHandler{}
	q := newQuarantine(target)
	q.log = slog.New(lines)
	now := time.Now()
	id := int64(0)
	for i := range maxQuarantined + 1000 {
		name := fmt.Sprint("application", i)
		target[name] = i%2 == 0
		if i%2 == 1 {
			q.applyTally(withoutTarget(name), tally{failed: 1, reason: "no"}, now, false)
		}
		for range 10 {
			id++
			q.heap.Offer(0, []store.Due{{ID: id, Application: name}})
			for _, e := range q.heap.pop(nil, 0, 0, 10) {
				switch q.admit(e, now) {
				case admitLeftOut:
					q.heap.drop([]entry{e})
				case admitLater:
					q.heap.complete([]entry{e}, true)
				case admitShared, admitDeferred:
					q.heap.complete([]entry{e}, false)
				case admitParked:
				}
			}
		}
	}
	q.publish()
	some, all := q.Quarantined()
	if all != maxQuarantined || len(some) != maxShown {
		t.Errorf("%d remembered, %d shown", all, len(some))
	}
	if _, inFlight := q.heap.Len(); inFlight != q.crews.all[0].parked || inFlight > maxParkedAll+maxQuarantined {
		t.Errorf("%d in flight, %d parked", inFlight, q.crews.all[0].parked)
	}
	if lines.n != linesPerSecond {
		t.Errorf("%d lines in a second, want %d", lines.n, linesPerSecond)
	}
	if got := q.admit(newEntry(&store.Due{ID: id + 1, Application: fmt.Sprint("application", maxQuarantined+998)}), now); got != admitDeferred {
		t.Errorf("an absent application beyond the bound: %d, want deferred", got)
	}
	shown := some[0]
	q.applyTally(withoutTarget(some[1].Application), tally{failed: 1, reason: "other"}, now, false)
	q.publish()
	if some, _ = q.Quarantined(); some[0] != shown {
		t.Errorf("%+v is shown instead of %+v", some[0], shown)
	}
}

// One line tells why due alarms of an application wait, until they ring again.
func TestDueAlarmsWithoutReceiverAreLogged(t *testing.T) {
	var log bytes.Buffer
	target := absentees{"orders": true}
	q := newQuarantine(target)
	q.log = slog.New(slog.NewTextHandler(&log, nil))
	now := time.Now()
	for i := range int64(3) {
		q.admit(newEntry(&store.Due{ID: i + 1, Application: "orders"}), now)
	}
	lines := func() int { return strings.Count(log.String(), "due alarms of an application wait") }
	if lines() != 1 ||
		!strings.Contains(log.String(), `level=WARN msg="due alarms of an application wait" application=orders target="" reason="no receiver"`) {
		t.Errorf("logged %s", log.String())
	}
	target["orders"] = false
	q.reviewed = time.Time{}
	q.review(0, now)
	target["orders"] = true
	q.admit(newEntry(&store.Due{ID: 1, Application: "orders"}), now)
	if lines() != 2 {
		t.Errorf("logged %s", log.String())
	}
}

// The applications of one route use up its places in the quarantine and its parked entries. Another route has its own.
func TestRoutesHaveTheirOwnPlacesInQuarantine(t *testing.T) {
	q := newQuarantine(absentees{})
	second := &Route{Target: absentees{}}
	q.crews.all = append(q.crews.all, &crew{Route: second, index: 1, usable: true})
	q.crews.router = func(to store.Addressee) *Route {
		if strings.HasPrefix(to.Application, "second") {
			return second
		}
		return q.crews.all[0].Route
	}
	now, id := time.Now(), int64(0)
	fail := func(name string, entries int) (decision admission) {
		q.applyTally(withoutTarget(name), tally{failed: 1, reason: "no"}, now, false)
		for range entries {
			id++
			decision = q.admit(newEntry(&store.Due{ID: id, Application: name}), now)
		}
		return decision
	}
	for i := range maxQuarantined {
		fail(fmt.Sprint("first", i), 10)
	}
	first, places := q.crews.all[0], maxQuarantined/2
	if first.quarantined != places || len(q.watched) != places {
		t.Errorf("%d applications of the first route are in quarantine, want %d", len(q.watched), places)
	}
	if first.parked < maxParkedAll/2 || first.parked > maxParkedAll/2+maxQuarantined/2 {
		t.Errorf("%d entries of the first route are parked", first.parked)
	}
	if got := fail("first0", 1); got != admitLeftOut {
		t.Errorf("beyond the first route's bound: %d, want left out", got)
	}
	if got := fail("second0", 10); got != admitParked || q.crews.all[1].parked != 10 {
		t.Errorf("second route: %d, want parked; %d are", got, q.crews.all[1].parked)
	}
	q.forget(q.watched[withoutTarget("first0")])
	if q.forget(q.watched[withoutTarget("second0")]); first.quarantined != places-1 ||
		q.crews.all[1].quarantined+q.crews.all[1].parked != 0 {
		t.Errorf("%d of the first route are left, %d of the second", first.quarantined, q.crews.all[1].quarantined)
	}
}

// countingHandler counts log lines.
type countingHandler struct {
	slog.Handler
	n int
}

func (*countingHandler) Enabled(context.Context, slog.Level) bool    { return true }
func (h *countingHandler) Handle(context.Context, slog.Record) error { h.n++; return nil }

// In any sequence of events the parked entries are bounded, in flight, and never lost.
func TestQuarantineLosesNoEntryInRandomWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target := absentees{}
		q := newQuarantine(target)
		next, now := int64(0), time.Now()
		hasMissing := false
		look := func() {
			for range q.heap.Offer(0, nil) {
				hasMissing = true
			}
		}
		actions := map[string]func(*rapid.T){
			"due": func(t *rapid.T) {
				for range rapid.IntRange(1, 700).Draw(t, "rows") {
					next++
					hasMissing = len(q.heap.Offer(0,
						[]store.Due{{ID: next, Application: testApplication.Value().Application}})) > 0 || hasMissing
				}
				for _, e := range q.heap.pop(nil, 0, 0, 10_000) {
					switch q.admit(e, now) {
					case admitLeftOut:
						q.heap.drop([]entry{e})
					case admitLater:
						q.heap.complete([]entry{e}, true)
					case admitShared, admitDeferred:
						q.heap.complete([]entry{e}, false)
					case admitParked:
					}
				}
			},
			"round": func(t *rapid.T) {
				own := q.watched[testApplication] != nil && rapid.Bool().Draw(t, "own")
				q.applyRound(own, rapid.SliceOfN(rapid.SampledFrom(clock.OutcomeKinds()), 1, 4).Draw(t, "kinds")...)
			},
			"care": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
				q.review(0, now)
			},
			"batch": func(*rapid.T) {
				if b, ok := q.nextRound(q.crews.all[0], now, q.cfg.BatchRows, true); ok {
					a, batch := b.quarantined[0], b.entries
					if len(batch) == 0 || len(batch) > a.batchRows || a.health == held && len(batch) > 1 ||
						a.health == absent {
						t.Fatalf("a batch of %d of %+v", len(batch), a)
					}
					q.heap.complete(batch, false)
					a.batches = 0
				}
			},
			"target": func(t *rapid.T) {
				target[testApplication.Value().Application] = rapid.Bool().Draw(t, "absent")
			},
			"": func(t *rapid.T) {
				look()
				a := q.watched[testApplication]
				_, inFlight := q.heap.Len()
				switch {
				case a == nil && inFlight > 0:
					t.Fatalf("%d entries of a healthy application are parked", inFlight)
				case a != nil && (inFlight != len(a.parked) || inFlight != q.crews.all[0].parked || a.free() < 0):
					t.Fatalf("%d in flight, %d parked, counted %d, room %d", inFlight, len(a.parked),
						q.crews.all[0].parked, a.free())
				case len(q.heap.orders.suspended) > 0 != (a != nil && a.suspended):
					t.Fatalf("suspended in the heap: %d; %+v", len(q.heap.orders.suspended), a)
				case a != nil && a.suspended && a.health != suspect:
					t.Fatalf("the entries of an application that is %s are kept", a.health)
				case a != nil && a.health == absent && len(a.parked) > 0:
					t.Fatalf("%d parked of an absent application", len(a.parked))
				}
				if waiting, _ := q.heap.Len(); a == nil && hasMissing &&
					!q.heap.HasRoomFor(0, testApplication.Value(), store.Position{}, false) && waiting < 5000 {
					t.Fatal("the heap has no room for a healthy application's missing rows")
				}
			},
		}
		t.Repeat(actions)
	})
}

func TestHealthNames(t *testing.T) {
	if got := fmt.Sprint(healthy, suspect, held, absent); got != "healthy suspect held absent" {
		t.Error(got)
	}
}
