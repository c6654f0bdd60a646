package stats

import (
	"math"
	"slices"
	"time"
)

// The buckets of a Sketch. Bucket 0 has latenesses below 1 ms. Bucket i has those from growth^(i-1) ms up to growth^i
// ms, exclusive. The last one has all greater ones, from about two days on.
const (
	buckets = 200
	growth  = 1.1
)

// Sketch is a histogram of latenesses, without its empty buckets. The zero value is empty.
type Sketch struct {
	Buckets []Bucket // ascending by Index
	Max     time.Duration
}

// Bucket is the number of latenesses in one bucket.
type Bucket struct {
	Index int16
	Count int64
}

// bucketOf returns the index of a lateness's bucket.
func bucketOf(lateness time.Duration) int {
	ms := float64(lateness) / float64(time.Millisecond)
	if ms < 1 {
		return 0
	}
	return min(1+int(math.Log(ms)/math.Log(growth)), buckets-1)
}

// Count returns the number of latenesses.
func (s *Sketch) Count() (n int64) {
	for _, b := range s.Buckets {
		n += b.Count
	}
	return n
}

// Quantile returns the lateness that the part q of all latenesses does not exceed, within 5 %; 0 for an empty sketch.
func (s *Sketch) Quantile(q float64) time.Duration {
	rank := int64(math.Ceil(q * float64(s.Count())))
	for _, b := range s.Buckets {
		if rank -= b.Count; rank <= 0 {
			return min(s.Max, middleOf(int(b.Index)))
		}
	}
	return s.Max
}

// middleOf returns the value whose relative distance to both bounds of a bucket is the same.
func middleOf(index int) time.Duration {
	if index == 0 {
		return 0
	}
	low := math.Pow(growth, float64(index-1))
	return time.Duration(2 * low * growth / (1 + growth) * float64(time.Millisecond))
}

// Add adds the latenesses of other.
func (s *Sketch) Add(other *Sketch) {
	s.Max = max(s.Max, other.Max)
	if len(other.Buckets) == 0 {
		return
	}
	sum := make([]Bucket, 0, len(s.Buckets)+len(other.Buckets))
	mine, theirs := s.Buckets, other.Buckets
	for len(mine) > 0 && len(theirs) > 0 {
		switch a, b := mine[0], theirs[0]; {
		case a.Index < b.Index:
			sum, mine = append(sum, a), mine[1:]
		case a.Index > b.Index:
			sum, theirs = append(sum, b), theirs[1:]
		default:
			sum, mine, theirs = append(sum, Bucket{a.Index, a.Count + b.Count}), mine[1:], theirs[1:]
		}
	}
	s.Buckets = slices.Clip(append(append(sum, mine...), theirs...))
}
