package client

import (
	"context"
	"encoding/json"
	"time"
)

// StatsQuery asks for the rates and the lateness of some time.
type StatsQuery struct {
	Range       string // hour: steps of 5 s; day: steps of a minute; empty: hour
	Application string // only this application, if it was among the busiest of a node; empty: all applications
}

// Stats are the rates and the lateness of all nodes. Each slice has a value for each step.
type Stats struct {
	Start       time.Time // begin of the first step, by the database's clock
	Step        time.Duration
	Sets        []int64
	Cancels     []int64
	Refused     []int64 // sets and cancels that were refused
	Rings       []int64 // confirmed rings
	FailedTries []int64
	// The latenesses of the confirmed first tries of a step, within 5 %. They are below 0 for a step without rings.
	LatenessP50, LatenessP99, LatenessMax []time.Duration

	Nodes   []string       // names of the nodes with figures
	Missing []MissingStats // living nodes without figures

	Raw json.RawMessage // the figures as the service wrote them
}

// MissingStats says why the figures of a node are missing.
type MissingStats struct {
	Node   string `json:"node"` // empty: all other nodes
	Reason string `json:"reason"`
}

// UnmarshalJSON reads figures of the service.
func (s *Stats) UnmarshalJSON(b []byte) error {
	var fields struct {
		Start       time.Time      `json:"start"`
		StepSeconds int64          `json:"step_seconds"`
		Nodes       []string       `json:"nodes"`
		Missing     []MissingStats `json:"missing"`
		Sets        []int64        `json:"sets"`
		Cancels     []int64        `json:"cancels"`
		Refused     []int64        `json:"refused"`
		Rings       []int64        `json:"rings"`
		FailedTries []int64        `json:"failed_tries"`
		LatenessP50 []*float64     `json:"lateness_p50"`
		LatenessP99 []*float64     `json:"lateness_p99"`
		LatenessMax []*float64     `json:"lateness_max"`
	}
	if err := json.Unmarshal(b, &fields); err != nil {
		return err
	}
	*s = Stats{
		Start: fields.Start, Step: time.Duration(fields.StepSeconds) * time.Second, Sets: fields.Sets,
		Cancels: fields.Cancels, Refused: fields.Refused, Rings: fields.Rings, FailedTries: fields.FailedTries,
		LatenessP50: latenesses(fields.LatenessP50), LatenessP99: latenesses(fields.LatenessP99),
		LatenessMax: latenesses(fields.LatenessMax), Nodes: fields.Nodes, Missing: fields.Missing,
		Raw: append(json.RawMessage(nil), b...),
	}
	return nil
}

// latenesses returns seconds as durations, and no seconds as -1.
func latenesses(seconds []*float64) []time.Duration {
	all := make([]time.Duration, len(seconds))
	for i, s := range seconds {
		if all[i] = -1; s != nil {
			all[i] = time.Duration(*s * float64(time.Second)).Round(time.Millisecond)
		}
	}
	return all
}

// Stats returns the rates and the lateness of the last hour or day.
func (c *Client) Stats(ctx context.Context, s StatsQuery) (*Stats, error) {
	q := newQuery()
	q.text("range", s.Range)
	q.text("application", s.Application)
	return read[Stats](ctx, c, q.of("/v1/stats"))
}
