package ringstream

import "github.com/prometheus/client_golang/prometheus"

// metrics are the metrics of a Journal.
type metrics struct {
	streams *prometheus.CounterVec
	resent  prometheus.Counter
	entries prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		streams: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_ringstream_streams_total",
			Help: "Streams of rings that were opened: new, resumed, or unknown if the client named a ring that this node does not know.",
		}, []string{"resumption"}),
		resent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_ringstream_resent_rings_total",
			Help: "Rings that were made due again because a client resumed its stream without them.",
		}),
		entries: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "clockd_ringstream_journal_entries",
			Help: "Rings that are remembered for clients that resume their streams.",
		}),
	}
	for r := NotAsked; r <= Unknown; r++ {
		m.streams.WithLabelValues(r.String())
	}
	for _, c := range []prometheus.Collector{m.streams, m.resent, m.entries} {
		if err := reg.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) opened(r Resumption) { m.streams.WithLabelValues(r.String()).Inc() }
