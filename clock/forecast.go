package clock

import (
	"context"
	"fmt"
	"time"
)

// ForecastQuery asks how many alarms are due in each of some steps.
type ForecastQuery struct {
	Now         Instant       // rings of repeating alarms after their next one are counted if they are after it
	From        Instant       // begin of the first step, not after Now
	Step        time.Duration // length of a step, whole milliseconds
	Count       int           // number of steps, 1 to MaxForecastSteps
	Application string        // only alarms of this application; empty: of all applications
}

// MaxForecastSteps is the most steps of a forecast.
const MaxForecastSteps = 1000

// Until returns the end of the last step.
func (q *ForecastQuery) Until() Instant { return q.From.Add(time.Duration(q.Count) * q.Step) }

// Validate returns an ErrInvalid that names the first offending field, or nil.
func (q *ForecastQuery) Validate() error {
	if q.Count < 1 || q.Count > MaxForecastSteps {
		return invalid(CodeOutOfRange, "count", fmt.Sprintf("count must be from 1 to %d", MaxForecastSteps))
	}
	if q.Application == "" {
		return nil
	}
	return ValidateApplication(q.Application)
}

// Forecast has the number of rings that are due in each step, as the alarms are set now.
type Forecast struct {
	// Due has a number for each step that was counted; the steps at the end may be missing. If Counted is less than
	// Shards, the numbers are estimates: the counts of some shards, multiplied. Alarms are spread evenly over the
	// shards.
	Due     []int64
	Counted int // shards that were counted; 0 only without a known step
	Shards  int // all shards

	// Repeats has, of each number of Due, the rings of repeating alarms after their next ring, by their rules. A store
	// does not count them.
	Repeats        []int64
	RulesEstimated bool // Repeats are estimates: some alarms were counted, and stand for all
}

// Exact reports whether all numbers were counted.
func (f *Forecast) Exact() bool { return f.Counted == f.Shards && !f.RulesEstimated }

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
