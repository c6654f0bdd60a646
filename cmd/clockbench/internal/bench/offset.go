package bench

import (
	"context"
	"fmt"
	"time"
)

// clockOffset is the time by which the database's clock is ahead of the local clock. The true offset is between low and
// high.
type clockOffset struct{ low, high time.Duration }

// offsetSamples is the number of clock comparisons. Each may narrow the offset.
const offsetSamples = 20

// measureOffset compares the clocks. sample returns the database's clock in microseconds since the epoch.
func measureOffset(ctx context.Context, sample func(context.Context) (int64, error)) (o clockOffset, err error) {
	for i := range offsetSamples {
		sent := time.Now()
		micros, err := sample(ctx)
		if err != nil {
			return o, fmt.Errorf("read the database's clock: %w", err)
		}
		received := time.Now()
		at := time.UnixMicro(micros)
		low, high := at.Sub(received), at.Sub(sent)
		if i == 0 {
			o = clockOffset{low: low, high: high}
			continue
		}
		o.low, o.high = max(o.low, low), min(o.high, high)
	}
	return o, nil
}

// value returns the assumed offset: 0 if the two clocks may be the same clock, else the middle of the range.
func (o clockOffset) value() time.Duration {
	if o.low <= 0 && 0 <= o.high {
		return 0
	}
	return (o.low + o.high) / 2
}

// late returns the lateness of an event at local time at. due is in epoch milliseconds of the database's clock.
func (o clockOffset) late(at time.Time, due int64) time.Duration {
	return at.Add(o.value()).Sub(time.UnixMilli(due))
}
