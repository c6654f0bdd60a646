package ring

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// metrics holds the metrics of the Loop. No label grows with the number of applications.
type metrics struct {
	rings          *prometheus.CounterVec
	ended          *prometheus.CounterVec
	lateness       prometheus.Histogram
	batchRings     prometheus.Histogram
	claimSeconds   prometheus.Histogram
	settleSeconds  prometheus.Histogram
	roundSeconds   prometheus.Histogram
	databaseErrors prometheus.Counter
	openLanes      prometheus.Gauge
	laneFailures   *prometheus.CounterVec
	applications   *prometheus.GaugeVec
	batchLimit     *prometheus.GaugeVec
	awaited        prometheus.Gauge
	lateReplies    *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer, h *Heap) *metrics {
	round := prometheus.ExponentialBuckets(0.0005, 2, 14) // 0.5 ms to 4 s
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "clockd_ring_" + name, Help: help,
			Buckets: buckets, NativeHistogramBucketFactor: 1.1})
	}
	m := &metrics{
		rings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_ring_rings_total", Help: "Tries of rings, by outcome.",
		}, []string{"outcome"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_ring_ended_total", Help: "Alarms that expired or died, and repeating alarms that paused because their occurrences failed, by state.",
		}, []string{"state"}),
		lateness: histogram("lateness_seconds",
			"Time from an alarm's due time to its first confirmed ring, without alarms that needed a second try.",
			[]float64{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 3600}),
		batchRings:    histogram("batch_rings", "Number of rings in a claim.", prometheus.ExponentialBuckets(1, 2, 13)),
		claimSeconds:  histogram("claim_seconds", "Time of a claim.", round),
		settleSeconds: histogram("settle_seconds", "Time to write the outcomes of a claim and to commit them.", round),
		roundSeconds:  histogram("round_seconds", "From the begin of a claim to the end of its settlement.", round),
		databaseErrors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_ring_database_errors_total", Help: "Batches that failed because of a database error.",
		}),
		openLanes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "clockd_ring_open_lanes",
			Help: "Open lanes to the target: one per worker, including the workers of the quarantine.",
		}),
		laneFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_ring_lane_failures_total",
			Help: "Lanes to the target that could not be opened (open), also because they await many late replies (full), or ended right after they were opened (lost).",
		}, []string{"reason"}),
		applications: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "clockd_ring_unwell_applications", Help: "Applications in quarantine, by health.",
		}, []string{"health"}),
		batchLimit: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "clockd_ring_batch_limit",
			Help: "Most alarms in a batch, by target. It falls while batches near their time limits.",
		}, []string{"target"}),
		awaited: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "clockd_ring_awaited",
			Help: "Rings whose reply is late and still awaited. They are not published again meanwhile.",
		}),
		lateReplies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_ring_late_replies_total",
			Help: "Awaited rings that have an outcome, by outcome. Each confirmed one needed no copy.",
		}, []string{"outcome"}),
	}
	for _, kind := range clock.OutcomeKinds() {
		m.rings.WithLabelValues(kind.String())
	}
	for _, reason := range []string{laneNotOpened, laneFull, laneLost} {
		m.laneFailures.WithLabelValues(reason)
	}
	reg.MustRegister(m.openLanes, m.laneFailures, m.rings, m.ended, m.lateness, m.batchRings, m.claimSeconds,
		m.settleSeconds, m.roundSeconds,
		m.databaseErrors, m.applications, m.batchLimit, m.awaited, m.lateReplies,
		heapGauge(h, "entries", "Alarms in the heap that wait for their time.", false),
		heapGauge(h, "in_flight", "Alarms in flight: taken from the heap to ring, or parked.", true))
	return m
}

func heapGauge(h *Heap, name, help string, countInFlight bool) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "clockd_ring_heap_" + name, Help: help}, func() float64 {
		waiting, inFlight := h.Len()
		if countInFlight {
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

// rung counts the tries of a claim by outcome, and observes the lateness of first rings. The first one whose trace is
// recorded is an exemplar.
func (m *metrics) rung(rings []clock.Ring, outcomes []clock.Outcome, now clock.Instant) {
	var tries [clock.Untaken + 1]int
	var exemplar *clock.Ring
	for i := range rings {
		r, k := &rings[i], outcomes[i].Kind
		if k == clock.Awaited {
			continue // it counts when its outcome is known
		}
		tries[k]++
		if k != clock.Confirmed || !r.FirstTry() {
			continue
		}
		if exemplar == nil && clock.SampledTrace(r.Traceparent) != "" {
			exemplar = r
			continue
		}
		m.lateness.Observe(now.Sub(r.RingAt).Seconds())
	}
	m.observeWithTrace(exemplar, now)
	for _, k := range clock.OutcomeKinds() {
		if tries[k] > 0 {
			m.rings.WithLabelValues(k.String()).Add(float64(tries[k]))
		}
	}
}

// observeWithTrace observes the lateness of a ring, with its trace. Nil: no ring.
func (m *metrics) observeWithTrace(r *clock.Ring, now clock.Instant) {
	if r == nil {
		return
	}
	if h, can := m.lateness.(prometheus.ExemplarObserver); can {
		h.ObserveWithExemplar(now.Sub(r.RingAt).Seconds(),
			prometheus.Labels{"trace_id": clock.SampledTrace(r.Traceparent)})
	}
}

// lateReplied counts the outcomes of late rings.
func (m *metrics) lateReplied(outcomes []clock.Outcome) {
	for i := range outcomes {
		if k := outcomes[i].Kind; k != clock.Awaited {
			m.lateReplies.WithLabelValues(k.String()).Inc()
		}
	}
}

func (m *metrics) quarantined(counts [healths]int) {
	for _, h := range []health{suspect, held, absent} {
		m.applications.WithLabelValues(h.String()).Set(float64(counts[h]))
	}
}
