package bench

import (
	"maps"
	"math/bits"
	"slices"
	"time"
)

// Histogram counts durations in buckets whose width grows with the duration: the end of a bucket is at most a sixteenth more
// than what it counts.
type Histogram struct {
	Max     int64    `json:"max_us"`
	Buckets []bucket `json:"buckets_us"` // none empty, in rising order
}

// bucket is the longest duration that is counted in it, in microseconds, and how many are.
type bucket [2]int64

// bucketBits is how many binary digits of a duration a bucket tells apart.
const bucketBits = 5

// bucketEnd returns the longest duration of the bucket that counts one, in microseconds.
func bucketEnd(us int64) int64 {
	blurred := max(bits.Len64(uint64(us))-bucketBits, 0)
	return (us>>blurred+1)<<blurred - 1
}

// histogramOf counts all; what is below zero counts as zero.
func histogramOf(all []time.Duration) (h Histogram) {
	counts := make(map[int64]int64)
	for _, d := range all {
		us := max(d.Microseconds(), 0)
		h.Max = max(h.Max, us)
		counts[bucketEnd(us)]++
	}
	for _, end := range slices.Sorted(maps.Keys(counts)) {
		h.Buckets = append(h.Buckets, bucket{end, counts[end]})
	}
	return h
}

// count returns how many durations were counted.
func (h *Histogram) count() (n int) {
	for _, b := range h.Buckets {
		n += int(b[1])
	}
	return n
}

// percentile returns the end of the bucket of the duration that percentile would return; 0 for none.
func (h *Histogram) percentile(q float64) time.Duration {
	left := int64(rank(q, h.count()))
	for _, b := range h.Buckets {
		if left -= b[1]; left <= 0 {
			return time.Duration(min(b[0], h.Max)) * time.Microsecond
		}
	}
	return 0
}
