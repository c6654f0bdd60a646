package clockhttp

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/clockd/clockd/clock"
)

// metrics holds the metrics of this package.
type metrics struct {
	requests *prometheus.HistogramVec
	problems *prometheus.CounterVec
	items    *prometheus.CounterVec
	streams  *prometheus.GaugeVec
}

// requestBuckets range, in seconds, from the duration of a fast read to the longest wait of a set.
var requestBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15}

func newMetrics(into prometheus.Registerer, memory *budget) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "clockd_http_request_duration_seconds", Buckets: requestBuckets, NativeHistogramBucketFactor: 1.1,
			Help: "Time from a request's head to the end of its response, by route and status class. Streams are not measured.",
		}, []string{"route", "class"}),
		problems: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_http_problems_total",
			Help: "Problems in responses, by code. Problems of single items of batches and streams are included.",
		}, []string{"code"}),
		items: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_http_items_total", Help: "Results of items of batches and streams, by form and status class.",
		}, []string{"form", "class"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "clockd_http_streams", Help: "Open streams, by route.",
		}, []string{"route"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.problems, m.items, m.streams} {
		errs = append(errs, into.Register(c))
	}
	for c, name := range classNames {
		errs = append(errs, into.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "clockd_http_memory_bytes", Help: "Memory that requests use of their budget, by class.",
			ConstLabels: prometheus.Labels{"class": name},
		}, func() float64 { return float64(memory.inUse(class(c))) })))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) countItem(form string, status int) {
	m.items.WithLabelValues(form, classOf(status)).Inc()
}

// openStream marks a request in its context as a stream.
const openStream = "stream"

// open counts a stream as open until the caller calls closed.
func (m *metrics) open(c echo.Context, route string) (closed func()) {
	c.Set(openStream, true)
	gauge := m.streams.WithLabelValues(route)
	gauge.Inc()
	return gauge.Dec
}

// observe measures a request after its response, with its trace as exemplar. It skips streams, because the duration of
// a stream says nothing.
func (m *metrics) observe(route string, c echo.Context, begun time.Time) {
	if c.Get(openStream) != nil {
		return
	}
	took := m.requests.WithLabelValues(route, classOf(c.Response().Status))
	trace := clock.SampledTrace(clock.ParseTraceparent(c.Request().Header["Traceparent"]))
	if exemplars, can := took.(prometheus.ExemplarObserver); can && trace != "" {
		exemplars.ObserveWithExemplar(time.Since(begun).Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	took.Observe(time.Since(begun).Seconds())
}

// maxScrapes is the most requests for metrics that run at once. Each holds all metrics until its client has taken them.
const maxScrapes = 16

func (s *Server) showMetrics(g prometheus.Gatherer) echo.HandlerFunc {
	show := promhttp.HandlerFor(g, promhttp.HandlerOpts{EnableOpenMetrics: true})
	var running atomic.Int32
	return func(c echo.Context) error {
		defer running.Add(-1)
		if running.Add(1) > maxScrapes {
			return &clock.Error{Kind: clock.ErrUnavailable, Code: clock.CodeOverloaded, RetryAfter: time.Second,
				Detail: "too many requests for metrics at once; repeat later"}
		}
		s.limitWrite(c, time.Now().Add(s.cfg.WriteTimeout))
		show.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}
