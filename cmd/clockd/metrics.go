package main

import (
	"errors"
	"math"
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
	reg.MustRegister(transactions, group, ops)
	return &clock.Metrics{
		Write: func(n int, took time.Duration, err error) {
			transactions.WithLabelValues(writeResult(err)).Observe(took.Seconds())
			group.Observe(float64(n))
		},
		Op: func(op clock.Op, v clock.Verdict, took time.Duration, _ error) {
			ops.WithLabelValues(op.Name(), v.String()).Observe(took.Seconds())
		},
	}
}

// watchQueue exports what waits to be written.
func watchQueue(reg prometheus.Registerer, s *clock.Service) {
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "clockd_clock_queued_ops", Help: "Sets, cancels and answers queued or being written.",
		}, func() float64 {
			ops, _ := s.Queued()
			return float64(ops)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "clockd_clock_queued_bytes", Help: "What they hold in memory.",
		}, func() float64 {
			_, bytes := s.Queued()
			return float64(bytes)
		}),
	)
}

// watchTime exports what this node knows of the database's clock.
func watchTime(reg prometheus.Registerer, tb *clock.Timebase) {
	gauge := func(name, help string, of func(clock.TimeView) time.Duration) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "clockd_clock_database_" + name, Help: help}, func() float64 {
			v, err := tb.View()
			if err != nil {
				return math.NaN()
			}
			return of(v).Seconds()
		}))
	}
	const unknown = " NaN where it is not known: nothing rings then."
	gauge("offset_seconds", "The lower bound of the database's clock that rings go by, less this machine's clock."+unknown,
		func(v clock.TimeView) time.Duration { return v.Offset })
	gauge("uncertainty_seconds", "How much later the database's clock may be than that bound: rings may be late by it."+unknown,
		func(v clock.TimeView) time.Duration { return v.Uncertainty })
	gauge("sample_age_seconds", "Since when the database's clock was not read."+unknown,
		func(v clock.TimeView) time.Duration { return v.Age })
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
