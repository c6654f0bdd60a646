package bench

import (
	"context"
	"fmt"
	"time"
)

// clockOffset is how far the database's clock is ahead of ours: somewhere from low to high.
type clockOffset struct{ low, high time.Duration }

// offsetSamples is how often the clocks are compared: each narrows the offset.
const offsetSamples = 20

// measureOffset compares the clocks. sample returns the database's, in microseconds since the epoch.
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

// value returns the offset to reckon with: 0 where the clocks may be the same one.
func (o clockOffset) value() time.Duration {
	if o.low <= 0 && 0 <= o.high {
		return 0
	}
	return (o.low + o.high) / 2
}

// late returns by how much something that came at local time at is later than due, epoch milliseconds of the database.
func (o clockOffset) late(at time.Time, due int64) time.Duration {
	return at.Add(o.value()).Sub(time.UnixMilli(due))
}
