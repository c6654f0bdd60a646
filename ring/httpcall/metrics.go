package httpcall

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// MetricNames are the names in the metrics of one target.
type MetricNames struct {
	Prefix  string   // prefix of the names of all metrics: "clockd_webhook_"
	Noun    string   // name of the counted things, in the plural: "requests"
	Label   string   // label that has the class of the reply: "status"
	Classes []string // values of the label, beside none
	Help    string   // text about a class, in the help
}

type metrics struct {
	replies      *prometheus.CounterVec
	replySeconds prometheus.Histogram
}

// noReplyClass is the value of the label for requests that ended without a reply.
const noReplyClass = "none"

func newMetrics(reg prometheus.Registerer, names MetricNames, s *slots) *metrics {
	m := &metrics{
		replies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: names.Prefix + names.Noun + "_total",
			Help: "Requests that ended, by " + names.Help + "; none: without a response.",
		}, []string{names.Label}),
		replySeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: names.Prefix + "reply_seconds", Help: "Time from a request's begin to its reply.",
			Buckets:                     []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300},
			NativeHistogramBucketFactor: 1.1,
		}),
	}
	for _, class := range append([]string{noReplyClass}, names.Classes...) {
		m.replies.WithLabelValues(class)
	}
	count := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: names.Prefix + name, Help: help}, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return float64(value())
		})
	}
	reg.MustRegister(m.replies, m.replySeconds,
		count(names.Noun+"_in_flight", "Requests under way.", func() int { return s.all.requests }),
		count("overdue_"+names.Noun+"_in_flight", "Requests under way whose reply is overdue.",
			func() int { return s.all.overdue }))
	return m
}

func (m *metrics) noReply() { m.replies.WithLabelValues(noReplyClass).Inc() }

func (m *metrics) replied(class string, took time.Duration) {
	m.replySeconds.Observe(took.Seconds())
	m.replies.WithLabelValues(class).Inc()
}
