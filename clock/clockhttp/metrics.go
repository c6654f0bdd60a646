package clockhttp

import (
	"errors"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are the package's measurements.
type metrics struct {
	requests *prometheus.HistogramVec
	problems *prometheus.CounterVec
	items    *prometheus.CounterVec
	streams  *prometheus.GaugeVec
}

// requestBuckets reach from a read to the patience of a set, in seconds.
var requestBuckets = []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 15}

func newMetrics(into prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "clockd_http_request_duration_seconds", Buckets: requestBuckets,
			Help: "Time from a request's head to its answer, by route and status class; streams are not in it.",
		}, []string{"route", "class"}),
		problems: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_http_problems_total", Help: "Failures answered, by code, those of single items included.",
		}, []string{"code"}),
		items: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_http_items_total", Help: "Items of batches and streams answered, by form and status class.",
		}, []string{"form", "class"}),
		streams: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "clockd_http_streams", Help: "Streams that are open, by route.",
		}, []string{"route"}),
	}
	var errs []error
	for _, c := range []prometheus.Collector{m.requests, m.problems, m.items, m.streams} {
		errs = append(errs, into.Register(c))
	}
	return m, errors.Join(errs...)
}

func (m *metrics) countItem(form string, status int) {
	m.items.WithLabelValues(form, classOf(status)).Inc()
}

// openStream marks a request in its context as a stream.
const openStream = "stream"

// open counts a stream until the function that it returns is called.
func (m *metrics) open(c echo.Context, route string) (closed func()) {
	c.Set(openStream, true)
	gauge := m.streams.WithLabelValues(route)
	gauge.Inc()
	return gauge.Dec
}

// observe measures a request that has been answered, unless it was a stream: how long one lasts says nothing.
func (m *metrics) observe(route string, c echo.Context, begun time.Time) {
	if c.Get(openStream) == nil {
		m.requests.WithLabelValues(route, classOf(c.Response().Status)).Observe(time.Since(begun).Seconds())
	}
}

func (s *Server) showMetrics(g prometheus.Gatherer) echo.HandlerFunc {
	show := promhttp.HandlerFor(g, promhttp.HandlerOpts{})
	return func(c echo.Context) error {
		s.limitWrite(c)
		show.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}
