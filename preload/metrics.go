package preload

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// Kinds of reads of the due index: values of the label read of clockd_preload_pages_total.
const (
	readAhead   = "ahead"   // alarms from the watermark on
	readBehind  = "behind"  // alarms of applications that are behind
	readBacklog = "backlog" // alarms in gaps: due before the node had their shard
	readSweep   = "sweep"   // overdue alarms that other reads and wake-ups missed
	readCheck   = "check"   // whether any alarm is overdue, once for all loaders; if not, they need no sweep
	readRecent  = "recent"  // the same as sweep, recent ones only, when a sweep does not reach them behind a backlog
)

type metrics struct {
	rows   prometheus.Counter // without sweeps
	swept  prometheus.Counter
	errors prometheus.Counter
	pages  *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "clockd_preload_" + name, Help: help})
	}
	m := &metrics{
		rows:   counter("rows_total", "Rows that loaders read, without the rows of sweeps."),
		swept:  counter("swept_rows_total", "Overdue rows that sweeps read."),
		errors: counter("errors_total", "Failed reads of due alarms."),
		pages: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_preload_pages_total", Help: "Pages read from the due index, by the kind of read.",
		}, []string{"read"}),
	}
	for _, kind := range []string{readAhead, readBehind, readBacklog, readSweep, readCheck, readRecent} {
		m.pages.WithLabelValues(kind)
	}
	reg.MustRegister(m.rows, m.swept, m.errors, m.pages)
	return m
}

// page counts a page and its rows.
func (m *metrics) page(kind string, rows int) {
	m.pages.WithLabelValues(kind).Inc()
	if kind == readSweep || kind == readCheck || kind == readRecent {
		m.swept.Add(float64(rows))
	} else {
		m.rows.Add(float64(rows))
	}
}

// watch registers the gauges of how far the loaders have read.
func (m *metrics) watch(reg prometheus.Registerer, loaders []*loader, tm Time) {
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "clockd_preload_window_seconds",
		Help: "How far ahead of now the slowest loader's watermark is. Negative: behind now.",
	}, func() float64 {
		now, err := tm.AtLeast()
		if err != nil {
			return 0
		}
		return furthestBehind(loaders).Sub(now).Seconds()
	}), prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "clockd_preload_backlog_shards",
		Help: "Shards whose backlog from before this node had them is not read to its end yet.",
	}, func() float64 {
		unread := 0
		for _, l := range loaders {
			unread += l.progress.shardsWithGaps()
		}
		return float64(unread)
	}))
}

// furthestBehind returns the earliest watermark of the loaders that have shards.
func furthestBehind(loaders []*loader) clock.Instant {
	first := clock.MaxInstant
	for _, l := range loaders {
		if watermark, hasShards := l.progress.currentWatermark(); hasShards {
			first = min(first, watermark.Time)
		}
	}
	return first
}
