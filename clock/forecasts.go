package clock

import (
	"context"
	"math"

	"github.com/clockd/clockd/clock/repeat"
)

// Bounds of the work on rules of one forecast.
const (
	forecastApplications = 500     // applications with repeating alarms, at most
	forecastRules        = 10_000  // repeating alarms that are read, at most, apart from one of each application
	forecastOccurrences  = 200_000 // occurrences that are computed, apart from some of each alarm
	leastOfAlarm         = 10      // occurrences of an alarm that are computed, if there are so many
	applicationsRead     = 100     // names that are read at once
)

// ForecastStore is the part of a store that Forecasts read.
type ForecastStore interface {
	Forecaster
	RepeatingReader
}

// Forecasts count the alarms that are due, and the occurrences of repeating alarms after their next ring.
type Forecasts struct {
	store ForecastStore
	turn  chan struct{} // full while rules are counted: one request after the other, so that they take one processor
}

// NewForecasts returns Forecasts.
func NewForecasts(store ForecastStore) *Forecasts {
	return &Forecasts{store: store, turn: make(chan struct{}, 1)}
}

// Forecast counts the steps of a query. Rules are counted in the steps that the store has counted. Each application
// gets an equal part of the work that is left. If it has more alarms, its first ones stand for all; if an alarm has
// more occurrences, its first ones stand for all.
func (f *Forecasts) Forecast(ctx context.Context, q ForecastQuery) (Forecast, error) {
	forecast, err := f.store.Forecast(ctx, q)
	if err != nil {
		return forecast, err
	}
	select {
	case f.turn <- struct{}{}:
		defer func() { <-f.turn }()
	case <-ctx.Done():
		return forecast, Unavailable(ctx.Err())
	}
	forecast.Repeats = make([]int64, len(forecast.Due))
	names, all, err := f.applications(ctx, q.Application)
	if err != nil {
		return forecast, err
	}
	forecast.RulesEstimated = !all
	rules, occurrences := forecastRules, forecastOccurrences
	for i, name := range names {
		share := len(names) - i
		read, err := f.store.Rules(ctx, name, max(1, rules/share))
		if err != nil {
			return forecast, err
		}
		steps := repeat.Steps{
			From: int64(q.From), Length: q.Step.Milliseconds(), Counts: make([]int64, len(forecast.Due)),
		}
		used, estimated := countRules(&read, &q, &steps, occurrences/share)
		rules, occurrences = max(0, rules-int(read.Read)), max(0, occurrences-used)
		forecast.RulesEstimated = forecast.RulesEstimated || estimated
		for i, n := range steps.Counts {
			forecast.Due[i] += n
			forecast.Repeats[i] += n
			if n > 0 && q.Applications > 0 {
				forecast.Parts.Add(name, i, n)
			}
		}
	}
	forecast.Applications = forecast.Parts.largest(q.Applications, forecast.Due)
	forecast.Parts = nil
	return forecast, nil
}

// applications returns the names of the applications whose rules count, and whether these are all.
func (f *Forecasts) applications(ctx context.Context, application string) (names []string, all bool, err error) {
	if application != "" {
		return []string{application}, true, nil
	}
	for len(names) < forecastApplications {
		after := ""
		if len(names) > 0 {
			after = names[len(names)-1]
		}
		more, err := f.store.RepeatingApplications(ctx, after, applicationsRead)
		if err != nil {
			return nil, false, err
		}
		if names = append(names, more...); len(more) < applicationsRead {
			return names, true, nil
		}
	}
	return names, false, nil
}

// countRules counts the occurrences of an application's alarms after their next rings. It computes about that many, and
// returns how many. Each alarm gets an equal part of the work that is left. estimated: the counts are estimates.
func countRules(rules *Rules, q *ForecastQuery, steps *repeat.Steps, most int) (used int, estimated bool) {
	alarms := rules.Alarms
	own := repeat.Steps{From: steps.From, Length: steps.Length, Counts: make([]int64, len(steps.Counts))}
	for i := range alarms {
		a, share := &alarms[i], max(leastOfAlarm, (most-used)/(len(alarms)-i))
		clear(own.Counts)
		after := int64(max(a.NextTryTime, q.Now))
		read, until, exact := a.Rule.CountRings(a.Alarm, a.Current, after, &own, share)
		if used += read; !exact {
			estimated = true
			extend(&own, after, until)
		}
		for i, n := range own.Counts {
			steps.Counts[i] += n
		}
	}
	if rules.Read == rules.Total {
		return used, estimated
	}
	factor := float64(rules.Total) / float64(rules.Read)
	for i, n := range steps.Counts { // the alarms that were read stand for all
		steps.Counts[i] = int64(math.Round(factor * float64(n)))
	}
	return used, true
}

// extend lets the rings that were counted from one instant until another go on alike, until the end of the steps.
func extend(steps *repeat.Steps, from, until int64) {
	from = max(from, steps.From)
	if until <= from {
		return
	}
	sum := int64(0)
	for _, n := range steps.Counts {
		sum += n
	}
	pace, rest := float64(sum)/float64(until-from), 0.0
	for i := range steps.Counts {
		begin := max(until, steps.From+int64(i)*steps.Length)
		rest += pace * float64(max(0, steps.From+int64(i+1)*steps.Length-begin))
		steps.Counts[i] += int64(rest)
		rest -= math.Floor(rest)
	}
}
