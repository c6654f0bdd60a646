package main

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// otlpReceiver is the HTTP side of an OpenTelemetry collector: it decodes the requests of exporters and keeps their
// spans.
type otlpReceiver struct {
	*httptest.Server

	mu       sync.Mutex
	spans    []*tracepb.Span
	services map[string]bool // service.name of each resource
}

func startOTLPReceiver(t *testing.T) *otlpReceiver {
	r := &otlpReceiver{services: map[string]bool{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if err := r.take(request); err != nil {
			t.Errorf("export of spans: %v", err)
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/x-protobuf")
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *otlpReceiver) take(request *http.Request) error {
	if request.URL.Path != "/v1/traces" || request.Header.Get("Content-Type") != "application/x-protobuf" {
		return fmt.Errorf("%s with %s", request.URL.Path, request.Header.Get("Content-Type"))
	}
	body := request.Body
	if request.Header.Get("Content-Encoding") == "gzip" {
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return err
		}
		body = unzipped
	}
	b, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	var export collector.ExportTraceServiceRequest
	if err := proto.Unmarshal(b, &export); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range export.GetResourceSpans() {
		for _, a := range rs.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				r.services[a.GetValue().GetStringValue()] = true
			}
		}
		for _, ss := range rs.GetScopeSpans() {
			r.spans = append(r.spans, ss.GetSpans()...)
		}
	}
	return nil
}

// named returns the spans with this name so far.
func (r *otlpReceiver) named(name string) (spans []*tracepb.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.GetName() == name {
			spans = append(spans, s)
		}
	}
	return spans
}

// attributeOf returns an attribute of a span as text, "" if it has none.
func attributeOf(s *tracepb.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			if text := a.GetValue().GetStringValue(); text != "" {
				return text
			}
			return fmt.Sprint(a.GetValue().GetIntValue())
		}
	}
	return ""
}

func TestTracesLeadFromTheSetToTheBatchOfItsRing(t *testing.T) {
	t.Parallel()
	receiver := startOTLPReceiver(t)
	p := start(t, "CLOCKD_DATABASE_URL="+sqliteFile(t), "CLOCKD_OTLP_ENDPOINT="+receiver.URL,
		"OTEL_BSP_SCHEDULE_DELAY=100")
	rings := p.listen("shop")
	const traceID, clientSpan, alarms = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331", 40
	var items []string
	for i := range alarms {
		items = append(items, fmt.Sprintf(`{"business_id":"order-%d","delay":"1s"}`, i))
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/v1/applications/shop/alarms",
		strings.NewReader(`{"set":[`+strings.Join(items, ",")+`]}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Traceparent", "00-"+traceID+"-"+clientSpan+"-01")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatalf("status %d", response.StatusCode)
	}
	eventually(t, "all alarms ring", func() bool { return rings.number() >= alarms })
	published := func() (messages int) {
		for _, s := range receiver.named("publish stream") {
			var n int
			_, _ = fmt.Sscan(attributeOf(s, "messaging.batch.message_count"), &n)
			messages += n
		}
		return messages
	}
	eventually(t, "the spans of all rings arrive", func() bool { return published() >= alarms })

	sets := receiver.named("POST /v1/applications/{application}/alarms")
	if len(sets) != 1 || hex.EncodeToString(sets[0].GetTraceId()) != traceID ||
		hex.EncodeToString(sets[0].GetParentSpanId()) != clientSpan {
		t.Fatalf("the spans of the request are %v", sets)
	}
	if got := attributeOf(sets[0], "http.route"); got != "/v1/applications/{application}/alarms" {
		t.Errorf("http.route is %q", got)
	}
	batches := receiver.named("publish stream")
	if len(batches) >= alarms/2 {
		t.Errorf("%d spans for %d rings: a batch must have one span", len(batches), alarms)
	}
	for _, s := range batches {
		links := s.GetLinks()
		if len(links) != 1 || hex.EncodeToString(links[0].GetSpanId()) != hex.EncodeToString(sets[0].GetSpanId()) ||
			hex.EncodeToString(links[0].GetTraceId()) != traceID {
			t.Errorf("the batch has the links %v, want the span of the set", links)
		}
		if s.GetKind() != tracepb.Span_SPAN_KIND_CLIENT || attributeOf(s, "messaging.operation.type") != "send" ||
			attributeOf(s, "messaging.system") != "stream" ||
			attributeOf(s, "clockd.application") != "shop" ||
			s.GetStatus().GetCode() != tracepb.Status_STATUS_CODE_UNSET ||
			s.GetEndTimeUnixNano() < s.GetStartTimeUnixNano() {
			t.Errorf("the batch has the span %v", s)
		}
	}
	if probes := receiver.named("GET /readyz"); len(probes) > 0 || !receiver.services["clockd"] {
		t.Errorf("%d spans of probes; services %v", len(probes), receiver.services)
	}
	if err := p.terminate(); err != nil {
		t.Error(err)
	}
}

func TestMissingCollectorDelaysNothing(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	p := start(t, "CLOCKD_DATABASE_URL="+sqliteFile(t), "OTEL_EXPORTER_OTLP_ENDPOINT="+gone.URL,
		"OTEL_BSP_SCHEDULE_DELAY=100")
	rings := p.listen("shop")
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "order"), map[string]any{"delay": "0s"})
	eventually(t, "the alarm rings", func() bool { return rings.number() == 1 })
	if err := p.terminate(); err != nil {
		t.Error(err)
	}
}

func TestTracingRefusesWhatItCannotSend(t *testing.T) {
	for _, c := range []struct {
		name, endpoint string
		env            [2]string
		want           string // part of the error; "": none
		on             bool
	}{
		{"off", "", [2]string{}, "", false},
		{"flag", "http://collector:4318", [2]string{}, "", true},
		{"no URL", "collector:4318", [2]string{}, "is not a URL", true},
		{"standard variable", "", [2]string{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318"}, "", true},
		{"variable of traces", "", [2]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://collector:4318/v1/traces"},
			"", true},
		{"grpc", "http://collector:4317", [2]string{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}, "http/protobuf", true},
		{"disabled", "collector", [2]string{"OTEL_SDK_DISABLED", "true"}, "", false},
		{"no exporter", "collector", [2]string{"OTEL_TRACES_EXPORTER", "none"}, "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.env[0] != "" {
				t.Setenv(c.env[0], c.env[1])
			}
			f := tracingFlags{OTLPEndpoint: c.endpoint}
			err := f.faults()
			if f.on() != c.on || (err == nil) != (c.want == "") ||
				err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("on %v, error %v", f.on(), err)
			}
		})
	}
}
