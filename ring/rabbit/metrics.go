package rabbit

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Kinds of errors: values of the label kind of clockd_rabbit_errors_total.
const (
	kindDial       = "dial"            // a connection could not be opened
	kindSetup      = "setup"           // a declaration, or the opening of a channel, failed
	kindProbe      = "probe"           // the broker did not confirm a probe
	kindWrite      = "write"           // a write failed or was too late
	kindTimeout    = "confirm_timeout" // a confirm was missing at the reply limit
	kindConnection = "connection_lost" // the connection ended during a delivery
	kindChannel    = "channel_closed"  // the broker closed a channel during a delivery
)

// Roles of connections.
const (
	roleControl = "control"
	roleLane    = "lane"
	roleWakes   = "wakes"
)

type metrics struct {
	dials       *prometheus.CounterVec
	connections *prometheus.GaugeVec
	errors      *prometheus.CounterVec
	usable      prometheus.Gauge
	blocked     prometheus.Gauge
	confirmWait prometheus.Histogram
	writes      prometheus.Counter

	wakesSent, wakesDropped, wakesReceived prometheus.Counter
}

// newMetrics returns the metrics, registered with reg. With a nil reg they count without being registered.
func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		dials: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_rabbit_dials_total",
			Help: "Attempts to connect to a host of the broker, reconnects included.",
		}, []string{"role", "host"}),
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "clockd_rabbit_connections", Help: "Open connections to a host of the broker.",
		}, []string{"role", "host"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_rabbit_errors_total", Help: "Errors in the communication with the broker.",
		}, []string{"kind"}),
		usable: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "clockd_rabbit_usable", Help: "1 if rings can be handed over to the broker, else 0.",
		}),
		blocked: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "clockd_rabbit_blocked_connections",
			Help: "Connections that the broker blocks because of a memory or disk alarm.",
		}),
		confirmWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:                        "clockd_rabbit_confirm_wait_seconds",
			Help:                        "Time from the last write of a delivery until all its messages are confirmed or given up.",
			Buckets:                     prometheus.ExponentialBuckets(0.0005, 2, 13), // to 2 s
			NativeHistogramBucketFactor: 1.1,
		}),
		writes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_rabbit_delivery_writes_total",
			Help: "Writes to the socket in deliveries. One write carries many messages.",
		}),
		wakesSent: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_rabbit_wakes_sent_total",
			Help: "Wake-ups written to the broker, for the node that owns the shard.",
		}),
		wakesDropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_rabbit_wakes_dropped_total",
			Help: "Wake-ups dropped because the broker was unreachable or slow. The sweep finds their alarms.",
		}),
		wakesReceived: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_rabbit_wakes_received_total", Help: "Wake-ups received for shards of this node.",
		}),
	}
	for _, kind := range []string{kindDial, kindSetup, kindProbe, kindWrite, kindTimeout, kindConnection, kindChannel} {
		m.errors.WithLabelValues(kind)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.dials, m.connections, m.errors, m.usable, m.blocked, m.confirmWait, m.writes,
		m.wakesSent, m.wakesDropped, m.wakesReceived,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("rabbit: register metrics: %w", err)
		}
	}
	return m, nil
}
