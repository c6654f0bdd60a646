package bench

import (
	"testing"
	"time"
)

func TestSpreadHasPercentilesAndMaximum(t *testing.T) {
	thousand := make([]time.Duration, 1000)
	for i := range thousand {
		thousand[i] = time.Duration(len(thousand) - i) // 1000 down to 1
	}
	for _, test := range []struct {
		all  []time.Duration
		want spread
	}{
		{nil, spread{}},
		{[]time.Duration{7}, spread{7, 7, 7, 7}},
		{[]time.Duration{2, 1}, spread{1, 2, 2, 2}},
		{thousand[:100], spread{950, 999, 1000, 1000}},
		{thousand, spread{500, 990, 999, 1000}},
	} {
		all := append([]time.Duration(nil), test.all...)
		if got := spreadOf(all); got != test.want {
			t.Errorf("of %d: got %v, want %v", len(all), got, test.want)
		}
	}
}

func TestMedianOfOddAndEvenCounts(t *testing.T) {
	for _, test := range []struct {
		samples samples
		want    float64
	}{{nil, 0}, {samples{3}, 3}, {samples{3, 1}, 2}, {samples{9, 1, 2}, 2}} {
		if got := test.samples.median(); got != test.want {
			t.Errorf("%v: got %g, want %g", test.samples, got, test.want)
		}
	}
}
