package clock

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// ForecastQuery asks how many alarms are due in each of some steps.
type ForecastQuery struct {
	Now         Instant       // rings of repeating alarms after their next one are counted if they are after it
	From        Instant       // begin of the first step, not after Now
	Step        time.Duration // length of a step, whole milliseconds
	Count       int           // number of steps, 1 to MaxForecastSteps
	Application string        // only alarms of this application; empty: of all applications
	// Applications is how many applications, the ones with the most rings in all steps, have numbers of their own: 0 to
	// MaxForecastApplications, and 0 with an Application.
	Applications int
}

// Bounds of a forecast.
const (
	MaxForecastSteps        = 1000
	MaxForecastApplications = 20 // that have numbers of their own
)

// Until returns the end of the last step.
func (q *ForecastQuery) Until() Instant { return q.From.Add(time.Duration(q.Count) * q.Step) }

// Validate returns an ErrInvalid that names the first offending field, or nil.
func (q *ForecastQuery) Validate() error {
	if q.Count < 1 || q.Count > MaxForecastSteps {
		return invalid(CodeOutOfRange, "count", fmt.Sprintf("count must be from 1 to %d", MaxForecastSteps))
	}
	if most := MaxForecastApplications; q.Applications < 0 || q.Applications > most {
		return invalid(CodeOutOfRange, "applications", fmt.Sprintf("applications must be from 0 to %d", most))
	}
	if q.Application == "" {
		return nil
	}
	if q.Applications > 0 {
		return invalid(CodeInvalidValue, "applications",
			"applications is for a forecast of all applications, without application")
	}
	return ValidateApplication(q.Application)
}

// Forecast has the number of rings that are due in each step, as the alarms are set now.
type Forecast struct {
	// Due has a number for each step that was counted. If Counted is less than Shards, the numbers are estimates: the
	// counts of some shards, multiplied. Alarms are spread evenly over the shards.
	Due     []int64
	Cut     bool // the last number of Due is of a part of its step, and later steps were not counted
	Counted int  // shards that were counted; 0 only without a known step
	Shards  int  // all shards

	// Repeats has, of each number of Due, the rings of repeating alarms after their next ring, by their rules. A store
	// does not count them.
	Repeats        []int64
	RulesEstimated bool // Repeats are estimates: some alarms were counted, and stand for all

	// Parts are the numbers of all applications, if the query asks for Applications. Each number is rounded down, so
	// their sum may be less than Due.
	Parts Parts
	// Applications have the most rings, the largest first; equal ones by name. A store returns none.
	Applications []ApplicationForecast
}

// ApplicationForecast has the rings of one application that are due in each step.
type ApplicationForecast struct {
	Application string
	Due         []int64 // for the steps of the Forecast
}

// Parts has the number of rings by application and number of the step, without zeros.
type Parts map[string]map[int]int64

// Add adds rings of an application to a step.
func (p *Parts) Add(application string, step int, rings int64) {
	if *p == nil {
		*p = Parts{}
	}
	if (*p)[application] == nil {
		(*p)[application] = map[int]int64{}
	}
	(*p)[application][step] += rings
}

// largest returns the applications with the most rings, with their numbers in each step. If these are all applications,
// the largest one of each step gets what rounding has left of its number in due.
func (p *Parts) largest(most int, due []int64) []ApplicationForecast {
	totals := map[string]int64{}
	for application, due := range *p {
		for _, n := range due {
			totals[application] += n
		}
	}
	names := slices.SortedFunc(maps.Keys(totals), func(a, b string) int {
		return cmp.Or(cmp.Compare(totals[b], totals[a]), cmp.Compare(a, b))
	})
	all := make([]ApplicationForecast, 0, most)
	for _, name := range names[:min(most, len(names))] {
		part := make([]int64, len(due))
		for step, n := range (*p)[name] {
			part[step] = n
		}
		all = append(all, ApplicationForecast{Application: name, Due: part})
	}
	if len(names) > len(all) || len(all) == 0 {
		return all
	}
	for step, left := range due {
		largest := all[0].Due
		for _, a := range all {
			if left -= a.Due[step]; a.Due[step] > largest[step] {
				largest = a.Due
			}
		}
		largest[step] += left
	}
	return all
}

// Exact reports whether all numbers were counted.
func (f *Forecast) Exact() bool { return f.Counted == f.Shards && !f.RulesEstimated && !f.Cut }

// PendingCounter counts the alarms that will ring by themselves: scheduled alarms, rings under way, and rings that wait
// for an answer.
type PendingCounter interface {
	// CountPending returns the counts of one shard by application.
	CountPending(ctx context.Context, shard int) (map[string]int64, error)
}

// Forecaster counts alarms by due time: a repeating alarm at its next ring alone. Its work is bounded, however many
// alarms there are.
type Forecaster interface {
	Forecast(ctx context.Context, q ForecastQuery) (Forecast, error)
}
