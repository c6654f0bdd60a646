package bench

import (
	"math"
	"slices"
	"time"
)

// spread holds percentiles and the maximum of durations.
type spread struct{ P50, P99, P999, Max time.Duration }

// spreadOf sorts the durations in place and returns their spread; zero for none.
func spreadOf(all []time.Duration) spread {
	slices.Sort(all)
	return spread{
		P50: percentile(all, 0.5), P99: percentile(all, 0.99), P999: percentile(all, 0.999), Max: percentile(all, 1),
	}
}

// samples holds the results of several rounds.
type samples []float64

// median returns the middle result. For an even number it returns the mean of the two middle results; 0 for none.
func (s samples) median() float64 {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile returns the smallest of the sorted durations such that at least the share q of them is not larger.
func percentile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[rank(q, len(sorted))-1]
}

// rank returns the position of the q percentile among n ascending values, counted from 1.
func rank(q float64, n int) int {
	const dust = 1e-9 // absorbs rounding: 0.99 * 100 is a little more than 99
	return max(int(math.Ceil(q*float64(n)-dust)), 1)
}
