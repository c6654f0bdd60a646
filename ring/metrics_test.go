package ring

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/clockd/clockd/clock"
)

const (
	recordedTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	skippedTrace  = "00-1bf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// confirmedRings returns rings, each a millisecond later than the one before, and their outcomes.
func confirmedRings(count int, traceparent func(i int) string) ([]clock.Ring, []clock.Outcome) {
	rings, outcomes := make([]clock.Ring, count), make([]clock.Outcome, count)
	for i := range rings {
		rings[i] = clock.Ring{RingNo: 1, RingAt: clock.Instant(1000 - i), Traceparent: traceparent(i)}
		outcomes[i] = clock.Outcome{Kind: clock.Confirmed}
	}
	return rings, outcomes
}

func gatheredLateness(t *testing.T, reg *prometheus.Registry) *dto.Histogram {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "clockd_ring_lateness_seconds" {
			return f.GetMetric()[0].GetHistogram()
		}
	}
	t.Fatal("no lateness is gathered")
	return nil
}

func TestLatenessHasClassicAndNativeBucketsAndOneExemplarABatch(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := newMetrics(reg, NewHeap(1, 10))
	rings, outcomes := confirmedRings(10, func(i int) string { return []string{"", skippedTrace, recordedTrace}[i%3] })
	m.rung(rings, outcomes, 1000)
	h := gatheredLateness(t, reg)
	if h.GetSampleCount() != 10 || len(h.GetBucket()) == 0 || len(h.GetPositiveSpan()) == 0 {
		t.Errorf("%d samples, %d classic buckets, %d native spans", h.GetSampleCount(), len(h.GetBucket()),
			len(h.GetPositiveSpan()))
	}
	var traces []string
	for _, b := range h.GetBucket() {
		if e := b.GetExemplar(); e != nil {
			traces = append(traces, e.GetLabel()[0].GetValue())
			if want := 0.002; e.GetValue() != want {
				t.Errorf("the exemplar has %v s, want %v s", e.GetValue(), want)
			}
		}
	}
	if len(traces) != 1 || traces[0] != recordedTrace[3:35] {
		t.Errorf("the exemplars are %q, want the one recorded trace", traces)
	}
}

func BenchmarkRung(b *testing.B) {
	for _, trace := range []string{"", skippedTrace, recordedTrace} {
		name := map[string]string{"": "no trace", skippedTrace: "traces not recorded",
			recordedTrace: "recorded traces"}[trace]
		b.Run(name, func(b *testing.B) {
			m := newMetrics(prometheus.NewRegistry(), NewHeap(1, 10))
			rings, outcomes := confirmedRings(300, func(int) string { return trace })
			for b.Loop() {
				m.rung(rings, outcomes, 1000)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*300), "ns/ring")
		})
	}
}
