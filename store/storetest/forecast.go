package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

func (f *fixture) forecast(q clock.ForecastQuery) clock.Forecast {
	f.t.Helper()
	got, err := f.Forecast(f.t.Context(), q)
	ok(f.t, err, "forecast")
	return got
}

// testForecast counts due alarms in steps. Paused and finished alarms are not due.
func testForecast(t *testing.T, f *fixture) {
	f.set(t0, set("before", t0+999), set("a", t0+1000), set("b", t0+1999), set("c", t0+2000), set("d", t0+3999),
		set("after", t0+4000))
	f.set(t0, set("a", t0+1000, inApplication("other")), set("b", t0+3000, inApplication("other")),
		set("paused", t0+1000), set("cancelled", t0+1000))
	f.set(t0, pause("paused"), cancel("cancelled"))
	q := clock.ForecastQuery{From: t0 + 1000, Step: time.Second, Count: 3}
	same(t, "due", f.forecast(q),
		clock.Forecast{Due: []int64{3, 1, 2}, Counted: f.ShardCount(), Shards: f.ShardCount()})
	q.Applications = 1
	same(t, "due by application", f.forecast(q).Parts, clock.Parts{app: {0: 2, 1: 1, 2: 1}, "other": {0: 1, 2: 1}})
	q.Applications, q.Application = 0, app
	same(t, "due of an application", f.forecast(q).Due, []int64{2, 1, 1})
	q.Application = "unknown"
	same(t, "due of an unknown application", f.forecast(q).Due, []int64{0, 0, 0})
	q = clock.ForecastQuery{From: t0 + 100_000, Step: time.Millisecond, Count: clock.MaxForecastSteps}
	same(t, "sum without alarms", f.forecast(q).Due, make([]int64, clock.MaxForecastSteps))
	for _, wrong := range []clock.ForecastQuery{
		{Step: time.Second}, {Step: time.Second, Count: clock.MaxForecastSteps + 1},
		{Step: time.Second, Count: 1, Application: "a b"}, {Step: time.Second, Count: 1, Applications: clock.MaxForecastApplications + 1},
		{Step: time.Second, Count: 1, Applications: 1, Application: app},
	} {
		if _, err := f.Forecast(t.Context(), wrong); err == nil {
			t.Errorf("%+v is accepted", wrong)
		}
	}
}

// testCountPending counts the alarms that will ring, by application. Paused and finished alarms will not.
func testCountPending(t *testing.T, f *fixture) {
	counts := func() map[string]int64 {
		t.Helper()
		sum := map[string]int64{}
		for _, shard := range store.AllShards(f.ShardCount()) {
			got, err := f.CountPending(t.Context(), shard)
			ok(t, err, "count pending alarms")
			for application, n := range got {
				sum[application] += n
			}
		}
		return sum
	}
	same(t, "pending alarms of a new database", counts(), map[string]int64{})
	f.set(t0, set("paused", t0+1000), set("cancelled", t0+1000), set("late", clock.MaxInstant))
	f.set(t0, pause("paused"), cancel("cancelled"))
	for i := range 40 {
		f.set(t0, set(fmt.Sprint(i), t0+1000, inApplication("Other")))
	}
	for _, state := range []string{"doubtful", "ringing", "claimed", "rung", "expired", "dead"} {
		f.arrange(state, state)
	}
	same(t, "pending alarms", counts(), map[string]int64{app: 4, "Other": 40})
}

// testForecastOfMany counts more alarms than a forecast reads. The numbers of some shards stand for all.
func testForecastOfMany(t *testing.T, f *fixture) {
	f.insertRows(220_000, int(clock.Scheduled), "1000 * (n % 10)", "NULL")
	q := clock.ForecastQuery{From: 0, Step: time.Second, Count: 10, Application: "plan"}
	got := f.forecast(q)
	if got.Counted < 16 || got.Counted >= got.Shards {
		t.Errorf("%d of %d shards were counted", got.Counted, got.Shards)
	}
	for i, n := range got.Due {
		if n < 19_800 || n > 24_200 {
			t.Errorf("step %d has about %d alarms, want 22,000", i, n)
		}
	}
	q.Application, q.Applications = "", 1
	for step, n := range f.forecast(q).Parts["plan"] {
		if n != got.Due[step] {
			t.Errorf("step %d has %d alarms of the application, want %d", step, n, got.Due[step])
		}
	}
}
