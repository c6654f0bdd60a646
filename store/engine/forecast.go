package engine

import (
	"context"

	"github.com/clockd/clockd/clock"
)

// forecastEntries is the number of entries of the due index that a forecast reads, at most.
const forecastEntries = 200_000

// Forecast counts the due index, shard by shard, until it has read forecastEntries entries. If the first shard has more
// entries, the forecast ends with the step of the last entry.
func (s *Store) Forecast(ctx context.Context, q clock.ForecastQuery) (f clock.Forecast, err error) {
	if err := q.Validate(); err != nil {
		return f, err
	}
	err = s.read(ctx, "forecast", func(ctx context.Context) (err error) {
		f, err = s.forecast(ctx, &q)
		return err
	})
	return f, err
}

// CountPending counts the due index of one shard by application. It needs no place for a list, so people do not delay it.
func (s *Store) CountPending(ctx context.Context, shard int) (counts map[string]int64, err error) {
	err = s.call(ctx, "count pending alarms", func(ctx context.Context) (err error) {
		counts, err = s.driver.CountPending(ctx, shard)
		return err
	})
	return counts, err
}

func (s *Store) forecast(ctx context.Context, q *clock.ForecastQuery) (clock.Forecast, error) {
	f := clock.Forecast{Due: make([]int64, q.Count), Shards: s.ShardCount()}
	for left := int64(forecastEntries); f.Counted < f.Shards && left > 0; {
		counts, err := s.driver.CountDueByTime(ctx, q, f.Counted, int(left))
		if err != nil {
			return f, err
		}
		for _, c := range counts {
			left -= c.Count
		}
		if left <= 0 && f.Counted > 0 {
			break // not all entries of this shard were read
		}
		if left <= 0 {
			f.Due, f.Cut = f.Due[:counts[len(counts)-1].Number+1], true
		}
		f.Counted++
		for _, c := range counts {
			if q.Application != "" && c.Application == "" {
				continue
			}
			f.Due[c.Number] += c.Count
			if q.Applications > 0 {
				f.Parts.Add(c.Application, int(c.Number), c.Count)
			}
		}
	}
	scale := func(n int64) int64 { return n * int64(f.Shards) / int64(f.Counted) }
	for i := range f.Due {
		f.Due[i] = scale(f.Due[i])
	}
	for _, due := range f.Parts {
		for step := range due {
			due[step] = scale(due[step])
		}
	}
	return f, nil
}
