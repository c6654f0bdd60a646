package webhook

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	replies      *prometheus.CounterVec
	replySeconds prometheus.Histogram
}

// noReplyClass is the value of the label status for requests that ended without a response.
const noReplyClass = "none"

func newMetrics(reg prometheus.Registerer, s *slots) *metrics {
	m := &metrics{
		replies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_webhook_requests_total", Help: "Requests that ended, by the class of their response's status (2xx); none: without a response.",
		}, []string{"status"}),
		replySeconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "clockd_webhook_reply_seconds", Help: "Time from a request's begin to the head of its response.",
			Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, NativeHistogramBucketFactor: 1.1,
		}),
	}
	for _, class := range []string{"1xx", "2xx", "3xx", "4xx", "5xx", noReplyClass} {
		m.replies.WithLabelValues(class)
	}
	count := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			s.mu.Lock()
			defer s.mu.Unlock()
			return float64(value())
		})
	}
	reg.MustRegister(m.replies, m.replySeconds,
		count("clockd_webhook_requests_in_flight", "Requests under way.", func() int { return s.taken }),
		count("clockd_webhook_doubted_requests_in_flight", "Requests under way of applications whose receivers are slow, or not known yet.", func() int { return s.doubted }))
	return m
}

func (m *metrics) noReply() { m.replies.WithLabelValues(noReplyClass).Inc() }

func (m *metrics) replied(status int, took time.Duration) {
	m.replySeconds.Observe(took.Seconds())
	class := "5xx" // a status beyond 599 is as bad
	if status < 600 {
		class = strconv.Itoa(status/100) + "xx"
	}
	m.replies.WithLabelValues(class).Inc()
}
