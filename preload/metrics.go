package preload

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

type metrics struct {
	rows   prometheus.Counter
	swept  prometheus.Counter
	errors prometheus.Counter

	wakesSent, wakesDropped, wakesReceived prometheus.Counter // in rows
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "clockd_preload_" + name, Help: help})
	}
	m := &metrics{
		rows:   counter("rows_total", "Rows read ahead."),
		swept:  counter("swept_rows_total", "Overdue rows that a sweep read."),
		errors: counter("errors_total", "Reads that failed."),

		wakesSent:     counter("wakes_sent_total", "Alarms due soon of which another node was told."),
		wakesDropped:  counter("wakes_dropped_total", "Alarms of which another node was not told, because too many waited; its sweep finds them."),
		wakesReceived: counter("wakes_received_total", "Alarms due soon of which another node told this one."),
	}
	reg.MustRegister(m.rows, m.swept, m.errors, m.wakesSent, m.wakesDropped, m.wakesReceived)
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
