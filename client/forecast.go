package client

import (
	"context"
	"encoding/json"
	"time"
)

// ForecastQuery asks how many alarms are due in each of the next steps.
type ForecastQuery struct {
	By          string // length of a step: second, minute, hour or day; empty: minute
	Count       int    // steps, 1 to 1000; 0: 60 seconds or minutes, 24 hours, 14 days
	Application string // only alarms of this application; empty: of all applications
}

// Forecast has the number of alarms that are due in each step.
type Forecast struct {
	Start time.Time     // begin of the first step, by the database's clock
	Step  time.Duration // length of a step
	Exact bool          // false: the numbers are estimates, because there are many alarms
	Due   []int64       // a number for each step; the steps at the end may be missing, because there are many alarms

	Raw json.RawMessage // the forecast as the service wrote it
}

// UnmarshalJSON reads a forecast of the service.
func (f *Forecast) UnmarshalJSON(b []byte) error {
	var fields struct {
		Start       time.Time `json:"start"`
		StepSeconds int64     `json:"step_seconds"`
		Exact       bool      `json:"exact"`
		Due         []int64   `json:"due"`
	}
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	*f = Forecast{
		Start: fields.Start, Step: time.Duration(fields.StepSeconds) * time.Second, Exact: fields.Exact,
		Due: fields.Due, Raw: append(json.RawMessage(nil), b...),
	}
	return nil
}

// Forecast counts the alarms that are due in the next steps, as they are set now. A repeating alarm counts at its next
// ring alone.
func (c *Client) Forecast(ctx context.Context, f ForecastQuery) (*Forecast, error) {
	q := newQuery()
	q.text("by", f.By)
	q.number("count", f.Count)
	q.text("application", f.Application)
	return read[Forecast](ctx, c, q.of("/v1/forecast"))
}
