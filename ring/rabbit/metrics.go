package rabbit

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Kinds of errors, the label of clockd_rabbit_errors_total.
const (
	kindDial       = "dial"            // a connection could not be opened
	kindSetup      = "setup"           // exchange or channel could not be had
	kindProbe      = "probe"           // the broker did not confirm a probe
	kindWrite      = "write"           // a write failed, or came too late
	kindTimeout    = "confirm_timeout" // a confirm was missing at the deadline
	kindConnection = "connection_lost" // the connection ended under a delivery
	kindChannel    = "channel_closed"  // the broker closed a channel under a delivery
)

// Roles of connections.
const (
	roleControl = "control"
	roleLane    = "lane"
	roleWakes   = "wakes"
	roleAnswers = "answers"
)

// Results of answers, a label of clockd_rabbit_answers_total; the other is the answer's kind.
const (
	resultAccepted  = "accepted"
	resultNotFound  = "not_found"
	resultConflict  = "conflict"  // answered already, or not the ring that is waited for
	resultInvalid   = "invalid"   // a delay out of range
	resultRequeued  = "requeued"  // could not be applied now: comes again
	resultMalformed = "malformed" // no answer at all, of kindUnknown

	kindUnknown = "unknown"
)

type metrics struct {
	dials       *prometheus.CounterVec
	errors      *prometheus.CounterVec
	usable      prometheus.Gauge
	blocked     prometheus.Gauge
	confirmWait prometheus.Histogram
	writes      prometheus.Counter

	wakesSent, wakesDropped, wakesReceived prometheus.Counter
	answers                                *prometheus.CounterVec
}

// newMetrics registers the metrics; with a nil registerer they count unseen.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_rabbit_dials_total", Help: "Connections to the broker that were begun: the first ones and reconnects.",
		}, []string{"role"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_rabbit_errors_total", Help: "Failures in talking to the broker.",
		}, []string{"kind"}),
		usable: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "clockd_rabbit_usable", Help: "1 when rings can be handed over, else 0.",
		}),
		blocked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "clockd_rabbit_blocked_connections", Help: "Connections that the broker does not read from (memory or disk alarm).",
		}),
		confirmWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "clockd_rabbit_confirm_wait_seconds", Help: "From the last write of a delivery until all its messages are confirmed or given up.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 13), // to 2 s
		}),
		writes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_rabbit_delivery_writes_total", Help: "Writes to the socket in deliveries; many messages share one.",
		}),
		wakesSent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_rabbit_wakes_sent_total", Help: "Wake-ups that were written to the broker, for the node that has the shard.",
		}),
		wakesDropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_rabbit_wakes_dropped_total", Help: "Wake-ups that were given up because the broker was away or slow; the sweep finds their alarms.",
		}),
		wakesReceived: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_rabbit_wakes_received_total", Help: "Wake-ups that arrived for shards of this node.",
		}),
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_rabbit_answers_total", Help: "Answers to rings that came by AMQP, and what became of them.",
		}, []string{"kind", "result"}),
	}
	for _, kind := range []string{kindDial, kindSetup, kindProbe, kindWrite, kindTimeout, kindConnection, kindChannel} {
		m.errors.WithLabelValues(kind)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.dials, m.errors, m.usable, m.blocked, m.confirmWait, m.writes,
		m.wakesSent, m.wakesDropped, m.wakesReceived, m.answers,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("rabbit: register metrics: %w", err)
		}
	}
	return m, nil
}
