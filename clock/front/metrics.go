package front

import (
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

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

func newMetrics(into prometheus.Registerer, memory *Memory) (*metrics, error) {
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
		}, func() float64 { return float64(memory.InUse(Class(c))) })))
	}
	return m, errors.Join(errs...)
}

// CountItem counts the result of an item of a batch or a stream in this form.
func (f *Front) CountItem(form string, status int) {
	f.metrics.items.WithLabelValues(form, classOf(status)).Inc()
}

// OpenStream counts a stream of the route as open until the caller calls closed.
func (f *Front) OpenStream(route string) (closed func()) {
	gauge := f.metrics.streams.WithLabelValues(route)
	gauge.Inc()
	return gauge.Dec
}

// Observe measures a request after its response, with its trace as exemplar. Streams are not observed, because the
// duration of a stream says nothing.
func (f *Front) Observe(route string, r *http.Request, status int, begun time.Time) {
	took := f.metrics.requests.WithLabelValues(route, classOf(status))
	trace := clock.SampledTrace(clock.ParseTraceparent(r.Header["Traceparent"]))
	if exemplars, can := took.(prometheus.ExemplarObserver); can && trace != "" {
		exemplars.ObserveWithExemplar(time.Since(begun).Seconds(), prometheus.Labels{"trace_id": trace})
		return
	}
	took.Observe(time.Since(begun).Seconds())
}

// classes are the status classes of responses, as metrics name them.
var classes = [...]string{"1xx", "2xx", "3xx", "4xx", "5xx"}

func classOf(status int) string {
	if status < 100 || status > 599 {
		return classes[http.StatusInternalServerError/100-1]
	}
	return classes[status/100-1]
}
