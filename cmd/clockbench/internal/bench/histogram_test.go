package bench

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

func TestHistogramBucketsSurviveJSON(t *testing.T) {
	for _, test := range []struct {
		all  []time.Duration
		want string
	}{
		{nil, `{"max_us":0,"buckets_us":null}`},
		{[]time.Duration{-time.Second, 0, 999}, `{"max_us":0,"buckets_us":[[0,3]]}`},
		{[]time.Duration{31 * time.Microsecond, 32 * time.Microsecond, 33 * time.Microsecond},
			`{"max_us":33,"buckets_us":[[31,1],[33,2]]}`},
		{[]time.Duration{time.Second, time.Second + time.Microsecond, time.Millisecond},
			`{"max_us":1000001,"buckets_us":[[1023,1],[1015807,2]]}`},
	} {
		h := histogramOf(test.all)
		got, err := json.Marshal(h)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != test.want {
			t.Errorf("%v: got %s, want %s", test.all, got, test.want)
		}
		var again Histogram
		if err := json.Unmarshal(got, &again); err != nil || !reflect.DeepEqual(again, h) {
			t.Errorf("%v: read again as %+v, %v", test.all, again, err)
		}
	}
}

// The percentiles of a histogram exceed the exact percentiles by at most a bucket's width.
func TestHistogramPercentilesAreWithinABucket(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	all := make([]time.Duration, 5000)
	for i := range all {
		all[i] = time.Duration(random.ExpFloat64() * float64(20*time.Millisecond)).Truncate(time.Microsecond)
	}
	h := histogramOf(all)
	exact := spreadOf(all) // sorts
	if h.count() != len(all) || h.percentile(1) != exact.Max {
		t.Errorf("%d of %d are counted, the last %s, want %s", h.count(), len(all), h.percentile(1), exact.Max)
	}
	for _, q := range []float64{0, 0.01, 0.5, 0.9, 0.99, 0.999, 0.9999, 1} {
		got, want := h.percentile(q), percentile(all, q)
		if got < want || got > want+want/16+time.Microsecond {
			t.Errorf("percentile %g: got %s, want %s", q, got, want)
		}
	}
	if got := new(Histogram).percentile(0.5); got != 0 {
		t.Errorf("percentile of none: %s", got)
	}
}
