package ring

import (
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"
	"unique"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// absentees is a target that accepts all but some applications; it is never delivered to.
type absentees map[string]bool

func (absentees) Usable() error            { return nil }
func (a absentees) Accepts(n string) bool  { return !a[n] }
func (absentees) Changed() <-chan struct{} { return nil }
func (absentees) Lane() Lane               { return nil }

func newWard(target Target) *ward {
	h := NewHeap(1, 10_000)
	return &ward{
		cfg: DefaultConfig(), heap: h, target: target, log: slog.New(slog.DiscardHandler),
		metrics: newMetrics(prometheus.NewRegistry(), h), applications: map[unique.Handle[string]]*application{},
	}
}

var testApplication = unique.Make("orders")

// round has the ward judge a round of the application with those outcomes.
func (w *ward) round(own bool, kinds ...clock.OutcomeKind) {
	r := result{}
	if own {
		r.own = w.applications[testApplication]
	}
	rings, outcomes := make([]clock.Ring, len(kinds)), make([]clock.Outcome, len(kinds))
	for i, k := range kinds {
		rings[i].Application = testApplication.Value()
		outcomes[i] = clock.Outcome{Kind: k, Reason: k.String()}
	}
	r.note(rings, outcomes)
	w.judge(r)
}

func (w *ward) health() health {
	if a := w.applications[testApplication]; a != nil {
		return a.health
	}
	return healthy
}

func TestHealth(t *testing.T) {
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
		{"all confirmed", []round{r(false, healthy, ok, ok)}},
		{"unsent is nobody's fault", []round{r(false, healthy, unsent, ok)}},
		{"one in doubt", []round{r(false, suspect, ok, doubt), r(own, healthy, ok)}},
		{"untaken", []round{r(false, suspect, untaken), r(own, suspect, untaken), r(own, suspect, untaken), r(own, suspect, untaken), r(own, healthy, ok)}},
		{"a shared round does not heal", []round{r(false, suspect, nacked), r(false, suspect, ok), r(own, healthy, ok)}},
		{"half confirmed does not heal", []round{r(false, suspect, nacked), r(own, suspect, ok, nacked)}},
		{"an empty round does not heal", []round{r(false, suspect, nacked), r(own, suspect), r(own, suspect, unsent)}},
		{"nacks do not hold", []round{r(false, suspect, nacked), r(own, suspect, nacked), r(own, suspect, nacked), r(own, suspect, nacked), r(own, healthy, ok)}},
		{"three in doubt hold", []round{r(false, suspect, doubt), r(own, suspect, doubt, returned), r(own, held, doubt)}},
		{"three returns hold", []round{r(false, suspect, returned), r(own, suspect, returned), r(own, held, returned)}},
		{"shared returns count", []round{r(false, suspect, returned), r(false, suspect, returned), r(false, held, returned)}},
		{"a confirmation starts the count anew", []round{
			r(false, suspect, returned), r(own, suspect, returned), r(own, suspect, returned, ok), r(own, suspect, returned),
			r(own, suspect, returned), r(own, held, returned),
		}},
		{"so it does in a shared round", []round{
			r(false, suspect, ok, returned), r(false, suspect, returned), r(false, suspect, returned), r(false, held, returned),
		}},
		{"a nack starts the count anew", []round{
			r(false, suspect, returned), r(own, suspect, returned), r(own, suspect, nacked), r(own, suspect, returned),
		}},
		{"a probe that fails", []round{
			r(false, suspect, returned), r(own, suspect, returned), r(own, held, returned), r(own, held, returned), r(own, held, doubt),
			r(own, held, nacked), r(own, healthy, ok),
		}},
		{"refused in halves", []round{
			r(false, suspect, refused, refused, refused, refused), r(own, suspect, refused, refused), r(own, suspect, refused),
			r(own, healthy, ok),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWard(absentees{})
			for i, round := range tt.rounds {
				w.round(round.own, round.kinds...)
				if got := w.health(); got != round.want {
					t.Fatalf("after round %d (%v): %s, want %s", i, round.kinds, got, round.want)
				}
			}
		})
	}
}

// TestHealthPause: a suspect of which nothing gets through is tried less and less often, down to once a probe.
func TestHealthPause(t *testing.T) {
	w := newWard(absentees{})
	for i, want := range []int64{50, 100, 200, 400, 800, 1000, 1000} {
		w.round(i > 0, clock.Nacked)
		if got := w.applications[testApplication].pause(w.cfg.Probe).Milliseconds(); got != want {
			t.Errorf("after %d rounds: %d ms, want %d", i+1, got, want)
		}
	}
	w.round(true, clock.Nacked, clock.Confirmed)
	if got := w.applications[testApplication].pause(w.cfg.Probe); got != 0 {
		t.Errorf("after a confirmation: %s", got)
	}
}

// TestHealthBatches: batches are halved while several are refused, and doubled again while more is parked.
func TestHealthBatches(t *testing.T) {
	w := newWard(absentees{})
	w.round(false, slices.Repeat([]clock.OutcomeKind{clock.Refused}, 40)...)
	a := w.applications[testApplication]
	a.parked = make([]entry, 10)
	var sizes []int
	for n := 20; n > 1; n = a.batch {
		w.round(true, slices.Repeat([]clock.OutcomeKind{clock.Refused}, n)...)
		sizes = append(sizes, a.batch)
	}
	for w.health() != healthy {
		w.round(true, clock.Confirmed)
		sizes = append(sizes, a.batch)
	}
	if got, want := fmt.Sprint(sizes), "[10 5 2 1 2 4 8 16 32 64 128 256 300 300]"; got != want {
		t.Errorf("batches of %s, want %s", got, want)
	}
}

// TestHealthRecovers: what was parked is due at once, and nothing is left out any more.
func TestHealthRecovers(t *testing.T) {
	w := newWard(absentees{})
	w.round(false, clock.Nacked)
	w.heap.Offer(0, []store.Due{{ID: 1, Application: "orders"}, {ID: 2, Application: "orders"}})
	for _, e := range w.heap.pop(nil, 0, 10) {
		if shared, letGo := w.admit(e); shared || letGo {
			t.Fatalf("shared %t, let go %t", shared, letGo)
		}
	}
	w.round(true, clock.Confirmed)
	if waiting, inFlight := w.heap.Len(); w.health() != healthy || waiting != 2 || inFlight != 0 {
		t.Errorf("%s, %d waiting, %d in flight", w.health(), waiting, inFlight)
	}
}

// TestHealthTurns: who rings in batches of their own take turns.
func TestHealthTurns(t *testing.T) {
	w := newWard(absentees{})
	now := time.Now()
	for _, name := range []string{"a", "b", "c"} {
		w.remember(unique.Make(name), suspect).parked = make([]entry, 100)
	}
	got := map[string]int{}
	for i := range 9 {
		now = now.Add(time.Second)
		w.care(0, now)
		a := w.next(now)
		got[a.name.Value()]++
		if i%3 == 2 && (got["a"] != got["b"] || got["b"] != got["c"]) {
			t.Fatalf("after %d batches: %v", i+1, got)
		}
	}
}

// TestHealthWalk walks at random: what is parked is bounded, is in flight, and is never lost.
func TestHealthWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		target := absentees{}
		w := newWard(target)
		next, now := int64(0), time.Now()
		behind := false
		look := func() {
			for range w.heap.Offer(0, nil) {
				behind = true
			}
		}
		actions := map[string]func(*rapid.T){
			"due": func(t *rapid.T) {
				for range rapid.IntRange(1, 700).Draw(t, "rows") {
					next++
					behind = len(w.heap.Offer(0, []store.Due{{ID: next, Application: testApplication.Value()}})) > 0 || behind
				}
				for _, e := range w.heap.pop(nil, 0, 10_000) {
					if shared, letGo := w.admit(e); letGo {
						w.heap.letGo([]entry{e})
					} else if shared {
						w.heap.land([]entry{e}, false)
					}
				}
			},
			"round": func(t *rapid.T) {
				own := w.applications[testApplication] != nil && rapid.Bool().Draw(t, "own")
				w.round(own, rapid.SliceOfN(rapid.SampledFrom(clock.OutcomeKinds()), 1, 4).Draw(t, "kinds")...)
			},
			"care": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 3000).Draw(t, "ms")) * time.Millisecond)
				w.care(0, now)
			},
			"batch": func(*rapid.T) {
				if a := w.next(now); a != nil {
					batch := a.take()
					if len(batch) == 0 || len(batch) > a.batch || a.health == held && len(batch) > 1 || a.health == absent {
						t.Fatalf("a batch of %d of %+v", len(batch), a)
					}
					w.heap.land(batch, false)
					a.busy = false
				}
			},
			"target": func(t *rapid.T) {
				target[testApplication.Value()] = rapid.Bool().Draw(t, "absent")
			},
			"": func(t *rapid.T) {
				look()
				a := w.applications[testApplication]
				_, flying := w.heap.Len()
				switch {
				case a == nil && flying > 0:
					t.Fatalf("%d are parked of a healthy application", flying)
				case a != nil && (flying != len(a.parked) || a.room() < 0):
					t.Fatalf("%d in flight, %d parked, room %d", flying, len(a.parked), a.room())
				case a != nil && a.health == absent && len(a.parked) > 0:
					t.Fatalf("%d parked of an absent application", len(a.parked))
				}
				if waiting, _ := w.heap.Len(); a == nil && behind && !w.heap.Wants(0, testApplication.Value(), store.Position{}) && waiting < 5000 {
					t.Fatal("what was left out of a healthy application is not wanted")
				}
			},
		}
		t.Repeat(actions)
	})
}

func TestHealthStrings(t *testing.T) {
	if got := fmt.Sprint(healthy, suspect, held, absent); got != "healthy suspect held absent" {
		t.Error(got)
	}
}
