package clockhttp

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

const (
	recordedTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	skippedTrace  = "00-1bf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

func init() {
	openapi3filter.RegisterBodyDecoder("application/openmetrics-text", openapi3filter.PlainBodyDecoder)
}

func TestRecordedTracesAreExemplarsOfRequests(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, trace := range []string{recordedTrace, skippedTrace, "garbage"} {
		h.do("GET", "/v1/applications/shop/alarms/unknown", "", "Traceparent: "+trace)
	}
	r := h.do("GET", "/metrics", "", "Accept: application/openmetrics-text; version=1.0.0")
	found := regexp.MustCompile(`clockd_http_request_duration_seconds_bucket\{.*\} \d+ # \{trace_id="(.*)"\}`).FindAllSubmatch(r.body, -1)
	if len(found) != 1 || string(found[0][1]) != recordedTrace[3:35] ||
		!strings.HasPrefix(r.header.Get("Content-Type"), "application/openmetrics-text") {
		t.Errorf("the exemplars are %q, in %s", found, r.header.Get("Content-Type"))
	}
	if plain := h.do("GET", "/metrics", ""); strings.Contains(string(plain.body), "trace_id") ||
		!strings.HasPrefix(plain.header.Get("Content-Type"), "text/plain") {
		t.Errorf("the text format has exemplars, or is %s", plain.header.Get("Content-Type"))
	}
}

func TestRequestsHaveClassicAndNativeHistograms(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.do("GET", "/v1/applications/shop/alarms/unknown", "")
	families, err := h.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var got *dto.Histogram
	for _, f := range families {
		if f.GetName() == "clockd_http_request_duration_seconds" {
			got = f.GetMetric()[0].GetHistogram()
		}
	}
	if len(got.GetBucket()) == 0 || len(got.GetPositiveSpan()) == 0 {
		t.Errorf("classic buckets %d, native spans %d", len(got.GetBucket()), len(got.GetPositiveSpan()))
	}
}

// Each request for metrics holds all metrics until its client has taken them. Few run at once.
func TestUnreadMetricsAreFew(t *testing.T) {
	t.Parallel()
	many := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "many"}, []string{"number"})
	for i := range 1000 { // more than net/http buffers
		many.WithLabelValues(strconv.Itoa(i)).Inc()
	}
	h := start(t, func(su *setup) { su.deps.Registerer.MustRegister(many) })
	c := h.closedConn()
	c.path = "/metrics"
	for range maxScrapes + 5 {
		c.get(0)
	}
	got := map[string]int{}
	for _, a := range c.answers() {
		got[a.status]++
	}
	if got["200"] != maxScrapes || got["503"] != 5 {
		t.Errorf("the responses are %v", got)
	}
}
