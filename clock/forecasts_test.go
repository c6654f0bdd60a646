package clock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/clockd/clockd/clock/repeat"
)

// ruledStore has repeating alarms by application, and an alarm of shop that is due in each step.
type ruledStore struct {
	Forecaster
	rules map[string]Rules
	reads []int // limits of the reads of rules
	fail  error
}

func (s *ruledStore) Forecast(_ context.Context, q ForecastQuery) (Forecast, error) {
	f := Forecast{Due: slices.Repeat([]int64{1}, q.Count), Counted: 4, Shards: 4}
	for i := range f.Due {
		f.Parts.Add("shop", i, 1)
	}
	return f, nil
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
	hours.Applications = 1
	largest := []ApplicationForecast{{"bank", []int64{3, 4, 4, 4}}, {"shop", []int64{2, 4, 4, 3}}}
	if f := s.forecast(t, hours); !reflect.DeepEqual(f.Applications, largest[:1]) {
		t.Errorf("the largest application is %+v", f.Applications)
	}
	hours.Applications = MaxForecastApplications
	if f := s.forecast(t, hours); !reflect.DeepEqual(f.Applications, largest) {
		t.Errorf("the applications are %+v", f.Applications)
	}
	parts := Parts{"a": {0: 3, 1: 2}, "b": {1: 3}}
	want := []ApplicationForecast{{"a", []int64{4, 2}}, {"b", []int64{0, 5}}}
	if got := parts.largest(2, []int64{4, 7}); !reflect.DeepEqual(got, want) {
		t.Errorf("with the rest of the rounding: %+v, want %+v", got, want)
	}
	if got := parts.largest(1, []int64{4, 7}); !reflect.DeepEqual(got, []ApplicationForecast{{"a", []int64{3, 2}}}) {
		t.Errorf("without others: %+v", got)
	}
	hours.Applications, hours.Application = 0, "bank"
	if f := s.forecast(t, hours); !slices.Equal(f.Repeats, []int64{3, 4, 4, 4}) || !f.Exact() {
		t.Errorf("of one application: %+v", f)
	}
	triggered := ruled(t, 1, anchored(2*time.Hour))
	triggered.Alarms[0].Current.At += 3_600_000 // its row waits for a triggered ring
	s.rules["till"] = triggered
	hours.Application = "till"
	if f := s.forecast(t, hours); !slices.Equal(f.Repeats, []int64{0, 1, 0, 1}) {
		t.Errorf("of an alarm with a triggered ring: %+v", f)
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
	s.rules["shop"] = Rules{Read: 20, Total: 20} // paused ones
	if f := s.forecast(t, hours); !slices.Equal(f.Repeats, []int64{0, 0, 0}) || !f.Exact() {
		t.Errorf("without alarms that ring: %+v", f)
	}
	s.rules["shop"] = Rules{Read: 20, Total: 30}
	if f := s.forecast(t, hours); !slices.Equal(f.Repeats, []int64{0, 0, 0}) || f.Exact() {
		t.Errorf("with alarms that were not read: %+v", f)
	}
}

func TestTheFirstOccurrencesStandForAllInAForecast(t *testing.T) {
	near := func(what string, got, want int64) {
		t.Helper()
		if got < want*98/100 || got > want*102/100 {
			t.Errorf("%s: %d, want about %d", what, got, want)
		}
	}
	minute, second, day := repeat.Spec{Cron: "* * * * *"}, repeat.Spec{Cron: "* * * * * *"}, repeat.Spec{Cron: "0 9 * * *"}
	days := ForecastQuery{From: forecastFrom, Now: forecastFrom, Step: 24 * time.Hour, Count: 14}
	hours := ForecastQuery{From: forecastFrom, Step: time.Hour, Count: 10}
	minutes := ForecastQuery{From: forecastFrom, Step: time.Minute, Count: 60}
	for _, c := range []struct {
		specs []repeat.Spec
		query ForecastQuery
		last  int64
	}{
		{slices.Repeat([]repeat.Spec{minute}, 400), hours, 400 * 60},
		{[]repeat.Spec{second}, days, 86_400},
		{[]repeat.Spec{second, day}, days, 86_401},
		{append(slices.Repeat([]repeat.Spec{day}, 99), second), days, 86_499},
		{append([]repeat.Spec{second}, slices.Repeat([]repeat.Spec{day}, 99)...), days, 86_499},
		{slices.Repeat([]repeat.Spec{minute}, 10_000), minutes, 10_000},
	} {
		s := &ruledStore{rules: map[string]Rules{"shop": ruled(t, int64(len(c.specs)), c.specs...)}}
		f := s.forecast(t, c.query)
		near(fmt.Sprint(len(c.specs), " alarms, ", c.specs[0].Cron), f.Repeats[c.query.Count-1], c.last)
		if f.Exact() {
			t.Errorf("%d alarms: exact", len(c.specs))
		}
	}
}

func TestOverdueAlarmsCountNoPassedOccurrences(t *testing.T) {
	s := &ruledStore{rules: map[string]Rules{
		"shop": ruled(t, 1, anchored(time.Second)), "till": ruled(t, 1, repeat.Spec{Cron: "* * * * * *", Times: 1_000_000}),
	}}
	hour := ForecastQuery{From: forecastFrom, Now: forecastFrom + 3_000_000, Step: time.Hour, Count: 2}
	if f := s.forecast(t, hour); !slices.Equal(f.Repeats, []int64{2 * 599, 2 * 3600}) || !f.Exact() {
		t.Errorf("%+v", f)
	}
	hour.From, hour.Now = forecastFrom+48*3_600_000, forecastFrom+48*3_600_000 // nobody took the rings for two days
	hour.Step, hour.Count = time.Minute, 5
	if f := s.forecast(t, hour); f.Repeats[4] < 119 || f.Repeats[4] > 121 {
		t.Errorf("two days later: %+v", f)
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
	if s.reads[0] != forecastRules/forecastApplications || s.reads[len(s.reads)-1] < forecastRules-forecastApplications {
		t.Errorf("the first application may have %d alarms, the last %d", s.reads[0], s.reads[len(s.reads)-1])
	}
}
