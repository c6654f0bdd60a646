package stats

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
)

// sketchOf returns the sketch of some latenesses in milliseconds.
func sketchOf(ms []int64) Sketch {
	var l live
	for _, v := range ms {
		l.late(time.Duration(v) * time.Millisecond)
	}
	f := l.finished()
	return f.Lateness
}

func TestQuantilesOfJoinedSketchesAreWithinFivePercent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(0, 90_000_000), 1, 40), 1, 6).Draw(t,
			"latenesses of nodes")
		var all []int64
		var joined Sketch
		for _, part := range parts {
			all = append(all, part...)
			s := sketchOf(part)
			joined.Add(&s)
		}
		slices.Sort(all)
		if whole := sketchOf(all); !slices.Equal(joined.Buckets, whole.Buckets) || joined.Max != whole.Max ||
			joined.Count() != int64(len(all)) {
			t.Fatalf("joined %+v, whole %+v", joined, whole)
		}
		for _, q := range []float64{.01, .5, .9, .99, 1} {
			exact := float64(all[int(math.Ceil(q*float64(len(all))))-1])
			if got := joined.Quantile(q).Seconds() * 1000; math.Abs(got-exact) > exact*.05+1e-6 {
				t.Fatalf("quantile %v is %v ms, want %v ms", q, got, exact)
			}
		}
	})
}

func TestEmptySketchHasNoLateness(t *testing.T) {
	var s, other Sketch
	s.Add(&other)
	if s.Quantile(.5) != 0 || s.Count() != 0 {
		t.Errorf("%+v", s)
	}
}

// databaseClock is a clock that a test sets.
type databaseClock struct {
	mu     sync.Mutex
	behind time.Duration // behind the local clock
	err    error
}

func (c *databaseClock) AtLeast() (clock.Instant, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return clock.Instant(time.Now().Add(-c.behind).UnixMilli()), c.err
}

func (c *databaseClock) set(behind time.Duration, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.behind, c.err = behind, err
}

// begin runs a recorder in a synctest bubble, in the middle of a step.
func begin(t *testing.T) (*Recorder, *databaseClock) {
	t.Helper()
	c := &databaseClock{}
	time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 2*time.Second)))
	return run(t, c), c
}

// run runs a recorder.
func run(t *testing.T, c *databaseClock) *Recorder {
	t.Helper()
	r := NewRecorder(c)
	goRun(t.Context(), t, r.Run)
	synctest.Wait()
	return r
}

// goRun runs a part until ctx ends; the test ends after it.
func goRun(ctx context.Context, t *testing.T, run func(context.Context) error) (ended <-chan struct{}) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := run(ctx); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { <-done })
	return done
}

func set(application string) clock.Op {
	return clock.Op{Set: &clock.Set{Key: clock.Key{Application: application, BusinessID: "x"}}}
}

func cancel(application string) clock.Op {
	return clock.Op{Cancel: &clock.Cancel{Key: clock.Key{Application: application, BusinessID: "x"}}}
}

// last returns the ended steps of a range, and the begin of the first one.
func last(r *Recorder, of Range) (steps []Step, start clock.Instant) {
	_, end := r.known(of)
	first := end - int64(of.Steps)
	return r.steps(of, first, of.Steps), of.begin(first)
}

// total returns the figures of all steps of a range.
func total(r *Recorder, of Range) (sum Step, filled []int) {
	steps, _ := last(r, of)
	for i := range steps {
		if steps[i].Total.Activity() > 0 {
			filled = append(filled, i)
		}
		sum = sum.plus(&steps[i])
	}
	return sum, filled
}

func TestStepsEndByTheDatabasesClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := begin(t)
		r.Op(set("shop"), clock.Create)
		if sum, _ := total(r, Hour); sum.Total.Sets != 0 {
			t.Errorf("the current step is shown: %+v", sum.Total)
		}
		time.Sleep(4 * time.Second) // the step ends after 3 s
		r.Op(cancel("shop"), clock.Keep)
		r.Op(set("shop"), clock.Refuse)
		r.Op(clock.Op{Kick: &clock.Kick{}}, clock.Replace)
		time.Sleep(5 * time.Second)
		sum, filled := total(r, Hour)
		if got := sum.Total; got.Sets != 1 || got.Cancels != 1 || got.Refused != 1 ||
			!slices.Equal(filled, []int{718, 719}) {
			t.Errorf("%+v in the steps %v", got, filled)
		}
		steps, start := last(r, Hour)
		if len(steps) != 720 || int64(start)%5000 != 0 || clock.Instant(time.Now().UnixMilli()).Sub(start) < time.Hour {
			t.Errorf("%d steps from %s", len(steps), start)
		}
		time.Sleep(time.Minute)
		if sum, filled := total(r, Day); sum.Total.Sets != 1 || sum.Applications["shop"].Cancels != 1 ||
			!slices.Equal(filled, []int{1439}) {
			t.Errorf("the day has %+v in the steps %v", sum.Total, filled)
		}
		time.Sleep(time.Hour)
		if sum, _ := total(r, Hour); sum.Total.Activity() != 0 {
			t.Errorf("after an hour: %+v", sum.Total)
		}
		time.Sleep(24 * time.Hour)
		if sum, _ := total(r, Day); sum.Total.Activity() != 0 {
			t.Errorf("after a day: %+v", sum.Total)
		}
	})
}

func TestRingsCountByOutcome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := begin(t)
		now := clock.Instant(time.Now().UnixMilli())
		first := clock.Ring{Key: clock.Key{Application: "shop"}, RingNo: 1, RingAt: now - 100}
		second := first
		second.RingNo = 2
		kinds := []clock.OutcomeKind{clock.Confirmed, clock.Confirmed, clock.Returned, clock.Doubtful, clock.Awaited,
			clock.Unsent}
		outcomes := make([]clock.Outcome, len(kinds))
		for i, k := range kinds {
			outcomes[i].Kind = k
		}
		r.Rung([]clock.Ring{first, second, first, first, first, first}, outcomes, now)
		time.Sleep(5 * time.Second)
		got, _ := total(r, Hour)
		for name, f := range map[string]*Figures{"total": &got.Total, "shop": got.Applications["shop"]} {
			if f.Rings != 2 || f.Failed != 2 || f.Lateness.Count() != 1 || f.Lateness.Max != 100*time.Millisecond {
				t.Errorf("%s: %+v", name, f)
			}
		}
	})
}

func TestOnlyTheBusiestApplicationsAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _ := begin(t)
		for i := range maxLive + 50 {
			for range max(1, 20-i) {
				r.Op(set(fmt.Sprintf("application-%04d", i)), clock.Create)
			}
		}
		r.mu.Lock()
		counted := len(r.applications)
		r.mu.Unlock()
		if counted != maxLive {
			t.Errorf("%d applications are counted", counted)
		}
		time.Sleep(5 * time.Second)
		steps, _ := last(r, Hour)
		newest := steps[len(steps)-1]
		if want := int64(20*21/2 + maxLive + 50 - 20); newest.Total.Sets != want ||
			len(newest.Applications) != MaxApplications || newest.Applications["application-0000"].Sets != 20 ||
			newest.Applications["application-0007"] == nil {
			t.Errorf("%d sets, want %d; applications %v", newest.Total.Sets, want, busiest(newest.Applications))
		}
	})
}

func TestUnknownAndSetBackClocksLoseNoCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, c := begin(t)
		c.set(0, errors.New("unknown"))
		r.Op(set("shop"), clock.Create)
		time.Sleep(time.Minute)
		if sum, _ := total(r, Hour); sum.Total.Sets != 0 {
			t.Errorf("a step ended at an unknown time: %+v", sum.Total)
		}
		c.set(30*time.Second, nil) // set back
		time.Sleep(time.Minute)
		if sum, _ := total(r, Hour); sum.Total.Sets != 1 {
			t.Errorf("%+v", sum.Total)
		}
		c.set(3*time.Hour, nil) // set back far: the history begins anew
		time.Sleep(10 * time.Second)
		r.Op(set("shop"), clock.Create)
		time.Sleep(10 * time.Second)
		if sum, filled := total(r, Hour); sum.Total.Sets != 1 || len(filled) != 1 {
			t.Errorf("%+v in %v", sum.Total, filled)
		}
	})
}

func BenchmarkOp(b *testing.B) {
	r, op := NewRecorder(&databaseClock{}), set("shop")
	b.ReportAllocs()
	for b.Loop() {
		r.Op(op, clock.Create)
	}
}

func BenchmarkRung(b *testing.B) {
	r := NewRecorder(&databaseClock{})
	rings, outcomes := make([]clock.Ring, 300), make([]clock.Outcome, 300)
	for i := range rings {
		rings[i] = clock.Ring{Key: clock.Key{Application: "shop"}, RingNo: 1, RingAt: clock.Instant(1000 - i%50)}
		outcomes[i].Kind = clock.Confirmed
	}
	b.ReportAllocs()
	for b.Loop() {
		r.Rung(rings, outcomes, 1000)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*300), "ns/ring")
}
