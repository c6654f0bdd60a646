package preload

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

type metrics struct {
	rows   prometheus.Counter
	swept  prometheus.Counter
	errors prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "clockd_preload_" + name, Help: help})
	}
	m := &metrics{
		rows:   counter("rows_total", "Rows read ahead."),
		swept:  counter("swept_rows_total", "Overdue rows that a sweep read."),
		errors: counter("errors_total", "Reads that failed."),
	}
	reg.MustRegister(m.rows, m.swept, m.errors)
	return m
}

// watch exports how far the loaders have read.
func (m *metrics) watch(reg prometheus.Registerer, loaders []*loader, tm Time) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "clockd_preload_window_seconds",
		Help: "How far ahead of now everything was read, by the loader that is furthest behind; negative: behind now.",
	}, func() float64 {
		now, err := tm.Now()
		if err != nil {
			return 0
		}
		return behind(loaders).Sub(now).Seconds()
	}))
}

// behind returns the earliest watermark of the loaders that have shards.
func behind(loaders []*loader) clock.Instant {
	first := clock.MaxInstant
	for _, l := range loaders {
		if mark, some := l.progress.read(); some {
			first = min(first, mark.Time)
		}
	}
	return first
}
