package bench

import (
	"maps"
	"math/bits"
	"slices"
	"time"
)

// Histogram counts durations in buckets. The width of a bucket grows with the duration: the end of a bucket is at most
// a sixteenth larger than the durations that it counts.
type Histogram struct {
	Max     int64    `json:"max_us"`
	Buckets []bucket `json:"buckets_us"` // without empty buckets, in ascending order
}

// bucket holds the end of the bucket, its longest duration in microseconds, and the number of durations in it.
type bucket [2]int64

// bucketBits is the number of leading binary digits of a duration that select its bucket.
const bucketBits = 5

// bucketEnd returns the end of the bucket of a duration. Both are in microseconds.
func bucketEnd(us int64) int64 {
	blurred := max(bits.Len64(uint64(us))-bucketBits, 0)
	return (us>>blurred+1)<<blurred - 1
}

// histogramOf counts all durations. A negative duration counts as zero.
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

// count returns the number of counted durations.
func (h *Histogram) count() (n int) {
	for _, b := range h.Buckets {
		n += int(b[1])
	}
	return n
}

// percentile returns the end of the bucket that contains the q percentile, at most the maximum; 0 for an empty
// histogram.
func (h *Histogram) percentile(q float64) time.Duration {
	left := int64(rank(q, h.count()))
	for _, b := range h.Buckets {
		if left -= b[1]; left <= 0 {
			return time.Duration(min(b[0], h.Max)) * time.Microsecond
		}
	}
	return 0
}
