package main

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// clockMetrics registers the domain's measurements and returns what the domain calls.
func clockMetrics(reg prometheus.Registerer) *clock.Metrics {
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 15) // 0.5 ms to 8 s
	transactions := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "clockd_clock_write_seconds", Help: "Time of a write transaction, by result.", Buckets: buckets,
	}, []string{"result"})
	group := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "clockd_clock_write_ops", Help: "Sets, cancels and answers a write transaction.", Buckets: prometheus.ExponentialBuckets(1, 2, 13),
	})
	ops := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "clockd_clock_op_seconds", Help: "From a set's, cancel's or answer's submission to what became of it, by that.", Buckets: buckets,
	}, []string{"op", "verdict"})
	queuedOps := prometheus.NewGauge(prometheus.GaugeOpts{Name: "clockd_clock_queued_ops", Help: "Sets, cancels and answers queued or being written."})
	queuedBytes := prometheus.NewGauge(prometheus.GaugeOpts{Name: "clockd_clock_queued_bytes", Help: "What they hold in memory."})
	reg.MustRegister(transactions, group, ops, queuedOps, queuedBytes)
	return &clock.Metrics{
		Write: func(n int, took time.Duration, err error) {
			transactions.WithLabelValues(writeResult(err)).Observe(took.Seconds())
			group.Observe(float64(n))
		},
		Op: func(op clock.Op, v clock.Verdict, took time.Duration, _ error) {
			ops.WithLabelValues(op.Name(), v.String()).Observe(took.Seconds())
		},
		Queued: func(n, bytes int) {
			queuedOps.Set(float64(n))
			queuedBytes.Set(float64(bytes))
		},
	}
}

func writeResult(err error) string {
	switch {
	case err == nil:
		return "committed"
	case errors.Is(err, clock.ErrUnconfirmed):
		return "unconfirmed"
	default:
		return "unavailable"
	}
}
