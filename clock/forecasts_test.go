package clock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/clockd/clockd/clock/repeat"
)

// ruledStore has repeating alarms by application, and no due alarms.
type ruledStore struct {
	Forecaster
	rules map[string]Rules
	reads []int // limits of the reads of rules
	fail  error
}

func (s *ruledStore) Forecast(_ context.Context, q ForecastQuery) (Forecast, error) {
	return Forecast{Due: slices.Repeat([]int64{1}, q.Count), Counted: 4, Shards: 4}, nil
}

func (s *ruledStore) RepeatingApplications(_ context.Context, after string, limit int) (names []string, err error) {
	for _, name := range slices.Sorted(maps.Keys(s.rules)) {
		if name > after && len(names) < limit {
			names = append(names, name)
		}
	}
	return names, nil
}

func (s *ruledStore) Rules(_ context.Context, application string, limit int) (Rules, error) {
	s.reads = append(s.reads, limit)
	return s.rules[application], s.fail
}

const forecastFrom = 1_800_000_000_000 // a full hour

// ruled returns the rules of alarms that have just rung, with so many in all.
func ruled(t *testing.T, total int64, specs ...repeat.Spec) Rules {
	t.Helper()
	r := Rules{Read: int64(len(specs)), Total: total}
	for i, spec := range specs {
		rule, err := ParseRule(spec)
		if err != nil {
			t.Fatal(err)
		}
		first, _ := rule.First(forecastFrom - 1)
		key := Key{Application: "shop", BusinessID: fmt.Sprint(i)}
		r.Alarms = append(r.Alarms, RuledAlarm{
			Repetition: RepetitionOf(rule, key, 1), Current: first, NextTryTime: Instant(first.At),
		})
	}
	return r
}

func (s *ruledStore) forecast(t *testing.T, q ForecastQuery) Forecast {
	t.Helper()
	f, err := NewForecasts(s).Forecast(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	for i := range f.Due {
		if f.Due[i] != f.Repeats[i]+1 { // and the alarm of the due index
			t.Fatalf("due %v, by rules %v", f.Due, f.Repeats)
		}
	}
	return f
}

func anchored(every time.Duration) repeat.Spec {
	anchor := int64(forecastFrom)
	return repeat.Spec{Every: every.Milliseconds(), Anchor: &anchor}
}

func TestForecastsCountTheOccurrencesOfRules(t *testing.T) {
	s := &ruledStore{rules: map[string]Rules{
		"bank": ruled(t, 1, repeat.Spec{Cron: "*/15 * * * *"}),
		"shop": ruled(t, 2, anchored(30*time.Minute), repeat.Spec{Cron: "0 * * * *", Times: 3}),
	}}
	hours := ForecastQuery{From: forecastFrom, Step: time.Hour, Count: 4}
	// The first occurrence of each alarm is in the due index.
	if f := s.forecast(t, hours); !slices.Equal(f.Repeats, []int64{3 + 1, 4 + 2 + 1, 4 + 2 + 1, 4 + 2}) || !f.Exact() {
		t.Errorf("%+v", f)
	}
	hours.Application = "bank"
	if f := s.forecast(t, hours); !slices.Equal(f.Repeats, []int64{3, 4, 4, 4}) || !f.Exact() {
		t.Errorf("of one application: %+v", f)
	}
	hours.Application = "none"
	if f := s.forecast(t, hours); !slices.Equal(f.Repeats, []int64{0, 0, 0, 0}) || !f.Exact() {
		t.Errorf("of an application without rules: %+v", f)
	}
	s.fail = Unavailable(errors.New("gone"))
	if _, err := NewForecasts(s).Forecast(t.Context(), hours); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without database: %v", err)
	}
}

func TestSomeAlarmsStandForAllInAForecast(t *testing.T) {
	hours := ForecastQuery{From: forecastFrom, Step: time.Hour, Count: 3}
	s := &ruledStore{rules: map[string]Rules{"shop": ruled(t, 50, anchored(time.Minute), anchored(time.Minute))}}
	if f := s.forecast(t, hours); !slices.Equal(f.Repeats, []int64{50 * 59, 50 * 60, 50 * 60}) || f.Exact() {
		t.Errorf("two of 50 were read: %+v", f)
	}
	minutes := slices.Repeat([]repeat.Spec{{Cron: "* * * * *"}}, 400) // more than 200,000 occurrences in 10 hours
	s.rules["shop"] = ruled(t, 400, minutes...)
	f := s.forecast(t, ForecastQuery{From: forecastFrom, Step: time.Hour, Count: 10})
	if !slices.Equal(f.Repeats[:2], []int64{400 * 59, 400 * 60}) || f.Repeats[9] != 400*60 || f.Exact() {
		t.Errorf("400 alarms each minute: %+v", f)
	}
	s.rules["shop"] = ruled(t, 1, repeat.Spec{Cron: "* * * * * *"})
	f = s.forecast(t, ForecastQuery{From: forecastFrom, Step: 24 * time.Hour, Count: 14})
	if f.Repeats[0] != 86_399 || f.Repeats[13] < 86_390 || f.Repeats[13] > 86_400 || f.Exact() {
		t.Errorf("one alarm each second: %+v", f)
	}
	s.rules["shop"] = Rules{Read: 20, Total: 30} // paused ones
	if f := s.forecast(t, hours); !slices.Equal(f.Repeats, []int64{0, 0, 0}) || !f.Exact() {
		t.Errorf("without alarms that ring: %+v", f)
	}
}

func TestApplicationsShareTheWorkOfAForecast(t *testing.T) {
	s := &ruledStore{rules: map[string]Rules{}}
	for i := range forecastApplications + 1 {
		s.rules[fmt.Sprintf("app-%04d", i)] = ruled(t, 1, anchored(30*time.Minute))
	}
	f := s.forecast(t, ForecastQuery{From: forecastFrom, Step: time.Hour, Count: 2})
	if !slices.Equal(f.Repeats, []int64{forecastApplications, 2 * forecastApplications}) || f.Exact() {
		t.Errorf("%+v", f)
	}
	if s.reads[0] != forecastRules/forecastApplications || s.reads[len(s.reads)-1] < 19_000 {
		t.Errorf("the first application may have %d alarms, the last %d", s.reads[0], s.reads[len(s.reads)-1])
	}
}
