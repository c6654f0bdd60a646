package client

import (
	"context"
	"encoding/json"
	"time"
)

// ForecastQuery asks how many rings are due in each of the next steps.
type ForecastQuery struct {
	By          string // length of a step: second, minute, hour or day; empty: minute
	Count       int    // steps, 1 to 1000; 0: 60 seconds or minutes, 24 hours, 14 days
	Application string // only alarms of this application; empty: of all applications
	// Applications is how many applications, the largest ones, have numbers of their own: 0 to 20, and 0 with
	// an Application.
	Applications int
}

// Forecast has the number of rings that are due in each step.
type Forecast struct {
	Start time.Time     // begin of the first step, by the database's clock
	Step  time.Duration // length of a step
	Exact bool          // false: the numbers are estimates, because there are many alarms
	Due   []int64       // a number for each step
	// Cut: there are so many alarms that the last number of Due is of a part of its step, and later steps are missing.
	Cut bool
	// Repeats has, of each number of Due, the rings of repeating alarms after their next ring, by their rules.
	Repeats []int64
	// Applications have the most rings of all applications, the largest first. The other rings of Due are of others.
	Applications []ApplicationForecast

	Raw json.RawMessage // the forecast as the service wrote it
}

// ApplicationForecast has the number of rings of one application that are due in each step.
type ApplicationForecast struct {
	Application string  `json:"application"`
	Due         []int64 `json:"due"` // for the steps of the Forecast
}

// UnmarshalJSON reads a forecast of the service.
func (f *Forecast) UnmarshalJSON(b []byte) error {
	var fields struct {
		Start       time.Time `json:"start"`
		StepSeconds int64     `json:"step_seconds"`
		Exact       bool      `json:"exact"`
		Complete    *bool     `json:"complete"` // an older service has none
		Due         []int64   `json:"due"`
		Repeats     []int64   `json:"repeats"`

		Applications []ApplicationForecast `json:"applications"`
	}
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	*f = Forecast{
		Start: fields.Start, Step: time.Duration(fields.StepSeconds) * time.Second, Exact: fields.Exact,
		Cut: fields.Complete != nil && !*fields.Complete, Due: fields.Due, Repeats: make([]int64, len(fields.Due)), Applications: fields.Applications,
		Raw: append(json.RawMessage(nil), b...),
	}
	copy(f.Repeats, fields.Repeats) // an older service has none
	return nil
}

// Forecast counts the rings that are due in the next steps, as the alarms are set now.
func (c *Client) Forecast(ctx context.Context, f ForecastQuery) (*Forecast, error) {
	q := newQuery()
	q.text("by", f.By)
	q.number("count", f.Count)
	q.text("application", f.Application)
	q.number("applications", f.Applications)
	return read[Forecast](ctx, c, q.of("/v1/forecast"))
}
