package ring

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// metrics of ringing. No label grows with the number of applications.
type metrics struct {
	rings          *prometheus.CounterVec
	ended          *prometheus.CounterVec
	lateness       prometheus.Histogram
	batchRings     prometheus.Histogram
	claimSeconds   prometheus.Histogram
	settleSeconds  prometheus.Histogram
	roundSeconds   prometheus.Histogram
	databaseErrors prometheus.Counter
	applications   *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer, h *Heap) *metrics {
	round := prometheus.ExponentialBuckets(0.0005, 2, 14) // 0.5 ms to 4 s
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "clockd_ring_" + name, Help: help, Buckets: buckets})
	}
	m := &metrics{
		rings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_ring_rings_total", Help: "Tries to ring, by outcome.",
		}, []string{"outcome"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_ring_ended_total", Help: "Alarms that ended without a ring, by state.",
		}, []string{"state"}),
		lateness: histogram("lateness_seconds", "From an alarm's time to its first confirmed ring, tries without failure only.",
			[]float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 3600}),
		batchRings:    histogram("batch_rings", "Rings a claim.", prometheus.ExponentialBuckets(1, 2, 13)),
		claimSeconds:  histogram("claim_seconds", "Time of a claim.", round),
		settleSeconds: histogram("settle_seconds", "Time to write the outcomes and commit.", round),
		roundSeconds:  histogram("round_seconds", "Time of a whole round: claim, deliver, settle.", round),
		databaseErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_ring_database_errors_total", Help: "Batches that the database failed.",
		}),
		applications: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "clockd_ring_unwell_applications", Help: "Applications that do not ring with the others, by health.",
		}, []string{"health"}),
	}
	for _, k := range clock.OutcomeKinds() {
		m.rings.WithLabelValues(k.String())
	}
	reg.MustRegister(m.rings, m.ended, m.lateness, m.batchRings, m.claimSeconds, m.settleSeconds, m.roundSeconds,
		m.databaseErrors, m.applications, heapGauge(h, "entries", "Alarms in memory, waiting for their time.", false),
		heapGauge(h, "in_flight", "Alarms being rung, or due and parked.", true))
	return m
}

func heapGauge(h *Heap, name, help string, flying bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "clockd_ring_heap_" + name, Help: help}, func() float64 {
		waiting, inFlight := h.Len()
		if flying {
			return float64(inFlight)
		}
		return float64(waiting)
	})
}

func (m *metrics) claimed(took time.Duration, c *store.Claim) {
	m.claimSeconds.Observe(took.Seconds())
	m.batchRings.Observe(float64(len(c.Rings)))
}

func (m *metrics) settled(took, round time.Duration) {
	m.settleSeconds.Observe(took.Seconds())
	m.roundSeconds.Observe(round.Seconds())
}

// rung counts tries.
func (m *metrics) rung(rings []clock.Ring, outcomes []clock.Outcome, now clock.Instant) {
	var tries [clock.Untaken + 1]int
	for i := range rings {
		r, k := &rings[i], outcomes[i].Kind
		tries[k]++
		if k == clock.Confirmed && r.RingNo == 1 && r.RetryTimes == 0 && !r.InDoubt {
			m.lateness.Observe(now.Sub(r.RingAt).Seconds())
		}
	}
	for _, k := range clock.OutcomeKinds() {
		if tries[k] > 0 {
			m.rings.WithLabelValues(k.String()).Add(float64(tries[k]))
		}
	}
}

func (m *metrics) unwell(counts map[health]int) {
	for _, h := range []health{suspect, held, absent} {
		m.applications.WithLabelValues(h.String()).Set(float64(counts[h]))
	}
}
