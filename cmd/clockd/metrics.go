package main

import (
	"errors"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/stats"
)

// clockMetrics registers the domain's metrics, and returns the functions that the domain calls. Ops count in recorder,
// too.
func clockMetrics(
	reg prometheus.Registerer, recorder *stats.Recorder, occurrences countOccurrences,
) clock.Metrics {
	buckets := prometheus.ExponentialBuckets(0.0005, 2, 15) // 0.5 ms to 8 s
	transactions := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "clockd_clock_write_seconds", Help: "Duration of a write transaction, by result.", Buckets: buckets,
		NativeHistogramBucketFactor: 1.1,
	}, []string{"result"})
	group := prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "clockd_clock_write_ops", Help: "Sets, cancels and answers in a write transaction.",
		Buckets: prometheus.ExponentialBuckets(1, 2, 13), NativeHistogramBucketFactor: 1.1,
	})
	ops := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "clockd_clock_op_seconds",
		Help: "Time from the submission of a set, cancel, answer, kick, discard, pause or resume to its verdict, by operation and verdict.", Buckets: buckets, NativeHistogramBucketFactor: 1.1,
	}, []string{"op", "verdict"})
	dropped := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clockd_clock_dropped_ops_total",
		Help: "Sets, cancels and answers that were refused before they were written, by reason.",
	}, []string{"reason"})
	for _, why := range clock.DropReasons {
		dropped.WithLabelValues(string(why))
	}
	reg.MustRegister(transactions, group, ops, dropped)
	return clock.Metrics{
		Write: func(n int, took time.Duration, err error) {
			transactions.WithLabelValues(writeResult(err)).Observe(took.Seconds())
			group.Observe(float64(n))
		},
		Op: func(op clock.Op, v clock.Verdict, took time.Duration, _ error) {
			ops.WithLabelValues(op.Name(), v.String()).Observe(took.Seconds())
			recorder.Op(op, v)
		},
		Occurrences: occurrences,
		Dropped:     func(why clock.DropReason) { dropped.WithLabelValues(string(why)).Inc() },
	}
}

// countOccurrences counts ended occurrences of repeating alarms, for the domain and the ring loop.
type countOccurrences func(clock.OccurrenceCounts)

func newCountOccurrences(reg prometheus.Registerer) countOccurrences {
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clockd_clock_occurrences_total",
		Help: "Occurrences of repeating alarms, by their end: rung, missed, outside_window (missed, and older than missed_window), skipped (by an unfinished ring) or failed.",
	}, []string{"end"})
	rung, missed, outside := ended.WithLabelValues("rung"), ended.WithLabelValues("missed"), ended.WithLabelValues("outside_window")
	skipped, failed := ended.WithLabelValues("skipped"), ended.WithLabelValues("failed")
	reg.MustRegister(ended)
	return func(n clock.OccurrenceCounts) {
		rung.Add(float64(n.Rung))
		missed.Add(float64(n.Missed))
		outside.Add(float64(n.Outside))
		skipped.Add(float64(n.Skipped))
		failed.Add(float64(n.Failed))
	}
}

// registerQueueMetrics exports the size of the queue of writes.
func registerQueueMetrics(reg prometheus.Registerer, service *clock.Service) {
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "clockd_clock_queued_ops", Help: "Sets, cancels and answers that are queued or being written.",
		}, func() float64 {
			ops, _ := service.Undecided()
			return float64(ops)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "clockd_clock_queued_bytes",
			Help: "Bytes in memory of the sets, cancels and answers that are queued or being written.",
		}, func() float64 {
			_, bytes := service.Undecided()
			return float64(bytes)
		}),
	)
}

// registerTimeMetrics exports this node's view of the database's clock.
func registerTimeMetrics(reg prometheus.Registerer, timebase *clock.Timebase) {
	gauge := func(name, help string, value func(clock.TimeView) time.Duration) {
		reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "clockd_clock_database_" + name, Help: help}, func() float64 {
			v, err := timebase.View()
			if err != nil {
				return math.NaN()
			}
			return value(v).Seconds()
		}))
	}
	const unknown = " NaN while the database's clock is unknown: nothing rings then."
	gauge("offset_seconds", "This node's lower bound of the database's clock, less this machine's clock."+unknown,
		func(v clock.TimeView) time.Duration { return v.Offset })
	gauge("uncertainty_seconds",
		"How far the database's clock may be ahead of this node's lower bound, while it keeps time. Rings may be late by this."+unknown,
		func(v clock.TimeView) time.Duration { return v.Uncertainty })
	gauge("sample_age_seconds", "Time since the database's clock was read."+unknown,
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
