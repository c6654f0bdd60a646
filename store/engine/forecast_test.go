package engine

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// dueDriver has the due entries of each shard, in the order of time.
type dueDriver struct {
	Driver
	shards [][]DueCount
}

func (d *dueDriver) CountDueByTime(
	_ context.Context, _ *clock.ForecastQuery, shard, limit int,
) (found []DueCount, _ error) {
	for _, c := range d.shards[shard] {
		c.Count = min(c.Count, int64(limit))
		if limit -= int(c.Count); c.Count > 0 {
			found = append(found, c)
		}
	}
	return found, nil
}

func TestForecastsSayWhereTheyEnd(t *testing.T) {
	hours := clock.ForecastQuery{Step: time.Hour, Count: 3, Applications: 2}
	for name, c := range map[string]struct {
		shards [][]DueCount
		query  clock.ForecastQuery
		want   clock.Forecast
	}{
		"all": {
			[][]DueCount{{{0, "a", 1}, {0, "b", 2}}, {{2, "a", 3}}}, hours,
			clock.Forecast{
				Due: []int64{3, 0, 3}, Counted: 2, Shards: 2, Parts: clock.Parts{"a": {0: 1, 2: 3}, "b": {0: 2}},
			},
		},
		"one of two shards": {
			[][]DueCount{{{0, "a", 5}, {2, "b", 7}}, {{1, "b", forecastEntries}}}, hours,
			clock.Forecast{
				Due: []int64{10, 0, 14}, Counted: 1, Shards: 2, Parts: clock.Parts{"a": {0: 10}, "b": {2: 14}},
			},
		},
		"a part of the first step": {
			[][]DueCount{{{0, "a", forecastEntries + 5}, {1, "b", 7}}, {}}, hours,
			clock.Forecast{
				Due: []int64{2 * forecastEntries}, Cut: true, Counted: 1, Shards: 2,
				Parts: clock.Parts{"a": {0: 2 * forecastEntries}},
			},
		},
		"a part of the second step, of one application": {
			[][]DueCount{{{0, "", 7}, {1, "", forecastEntries - 9}, {1, "a", 5}}},
			clock.ForecastQuery{Step: time.Hour, Count: 3, Application: "a"},
			clock.Forecast{Due: []int64{0, 2}, Cut: true, Counted: 1, Shards: 1},
		},
	} {
		s := &Store{driver: &dueDriver{shards: c.shards}}
		s.known.Store(&known{shards: len(c.shards)})
		got, err := s.forecast(t.Context(), &c.query)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
}
