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
	roleControl     = "control"
	roleLane        = "lane"
	roleWakes       = "wakes"
	roleAnswers     = "answers"
	roleCopies      = "answer copies"
	roleIntake      = "intake"
	roleIntakeWhole = "intake of large messages"
	roleDeadLetters = "dead letters"
)

// Results of answers: values of the label result of clockd_rabbit_answers_total. The label kind is the kind of the
// answer.
const (
	resultAccepted  = "accepted"
	resultNotFound  = "not_found"
	resultConflict  = "conflict"  // the ring is answered already, or is not the latest one
	resultInvalid   = "invalid"   // the delay is out of range
	resultRequeued  = "requeued"  // not applied now; it is submitted again
	resultMalformed = "malformed" // the message is no answer; its kind is kindUnknown

	kindUnknown = "unknown"
)

// Results of copies of answers: values of the label result of clockd_rabbit_answer_copies_total.
const (
	resultCopyConfirmed = "confirmed" // the broker has the copy, and the original is acked
	resultCopyFailed    = "failed"    // the copy is not published or not confirmed, and the original is submitted again
)

// Results of the intake: values of the label result of clockd_rabbit_intake_messages_total.
const (
	resultSet          = "set"           // the message is an alarm now
	resultDuplicate    = "duplicate"     // an alarm has the message already
	resultHeld         = "held"          // not stored now; it is submitted again
	resultRefused      = "refused"       // it cannot be an alarm; it goes to the dead letters
	resultOversized    = "oversized"     // larger than a payload; it is delivered again, to be refused as a whole
	resultDeadLetter   = "dead_lettered" // the exchange for dead letters has it, and it is acked
	resultNoDeadLetter = "not_dead_lettered"
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
	answers, answerCopies, intake          *prometheus.CounterVec
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
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_rabbit_answers_total", Help: "Answers to rings received by AMQP, by kind and result.",
		}, []string{"kind", "result"}),
		answerCopies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_rabbit_answer_copies_total",
			Help: "Copies of answers put back to their queue because a requeue would count against a delivery limit, by result.",
		}, []string{"result"}),
	}
	m.intake = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "clockd_rabbit_intake_messages_total",
		Help: "Delayed messages that the intake has consumed, by result. A held message counts each time.",
	}, []string{"result"})
	for _, kind := range []string{kindDial, kindSetup, kindProbe, kindWrite, kindTimeout, kindConnection, kindChannel} {
		m.errors.WithLabelValues(kind)
	}
	for _, result := range []string{resultCopyConfirmed, resultCopyFailed} {
		m.answerCopies.WithLabelValues(result)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{
		m.dials, m.connections, m.errors, m.usable, m.blocked, m.confirmWait, m.writes,
		m.wakesSent, m.wakesDropped, m.wakesReceived, m.answers, m.answerCopies, m.intake,
	} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("rabbit: register metrics: %w", err)
		}
	}
	return m, nil
}
