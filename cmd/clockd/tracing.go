package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// tracingFlags say where traces go. OpenTelemetry's own environment variables hold too.
type tracingFlags struct {
	OTLPEndpoint string `name:"otlp-endpoint" env:"CLOCKD_OTLP_ENDPOINT" placeholder:"URL" help:"http://host:4318 of an OpenTelemetry collector that gets traces. OTEL_EXPORTER_OTLP_ENDPOINT does the same."`
}

// tracesPath is the path of traces below an OTLP endpoint.
const tracesPath = "/v1/traces"

// on reports whether traces are sent.
func (f tracingFlags) on() bool {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return false
	}
	return cmp.Or(f.OTLPEndpoint, os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
		os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")) != ""
}

// faults returns the faults of the configuration of traces, or nil. It is not named Validate: the parser would call it and stop at its error.
func (f tracingFlags) faults() error {
	if !f.on() {
		return nil
	}
	var errs []error
	if u, err := url.Parse(f.OTLPEndpoint); f.OTLPEndpoint != "" &&
		(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		errs = append(errs, fmt.Errorf("OTLP endpoint %q is not a URL like http://collector:4318", f.OTLPEndpoint))
	}
	protocol := cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"),
		"http/protobuf")
	if protocol != "http/protobuf" {
		errs = append(errs,
			fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL is %q, but traces are sent by http/protobuf alone: use that port of the collector, by default 4318", protocol))
	}
	return errors.Join(errs...)
}

// tracing makes spans: one for each request, and one for each batch of rings. It makes no span for an alarm: the span of a batch has links to the
// contexts of the sets.
type tracing struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
}

// newTracing returns nil if no traces are sent. The collector is reached in the background: without it, spans are dropped.
func newTracing(cfg *config, self *identity, log *slog.Logger) (*tracing, error) {
	if !cfg.tracingFlags.on() {
		return nil, nil //nolint:nilnil // off is no failure
	}
	var options []otlptracehttp.Option
	if cfg.OTLPEndpoint != "" {
		options = append(options, otlptracehttp.WithEndpointURL(strings.TrimSuffix(cfg.OTLPEndpoint, "/")+tracesPath))
	}
	exporter, err := otlptracehttp.New(context.Background(), options...)
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	described, err := resource.New(context.Background(), resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "clockd"), attribute.String("service.version", version),
		attribute.String("service.instance.id", self.incarnation), attribute.String("clockd.node", cfg.Node),
	), resource.WithFromEnv()) // the last one wins: OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES
	if err != nil {
		return nil, fmt.Errorf("traces: %w", err)
	}
	otel.SetLogger(logr.FromSlogHandler(log.Handler()))
	otel.SetErrorHandler(traceErrors{log: log, sometimes: rate.NewLimiter(rate.Every(time.Minute), 1)})
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	return &tracing{provider: provider, tracer: provider.Tracer("github.com/clockd/clockd")}, nil
}

// traceErrors logs why traces were not sent, at most once a minute.
type traceErrors struct {
	log       *slog.Logger
	sometimes *rate.Limiter
}

// Handle logs an error of the exporter.
func (e traceErrors) Handle(err error) {
	if e.sometimes.Allow() {
		e.log.Warn("could not send traces", "err", err)
	}
}

// closeLimit is the most time for the last spans when the process stops, so that a missing collector does not delay the stop.
const closeLimit = time.Second

// Close sends the last spans.
func (t *tracing) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, closeLimit)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
	return nil
}

// wrap returns a handler with a span for each request. The request then carries the context of this span, so an alarm that it sets stores that
// context in its traceparent. A request whose trace is not recorded keeps its own header. A nil tracing changes nothing.
func (t *tracing) wrap(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	w3c := propagation.TraceContext{}
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if trace.SpanContextFromContext(r.Context()).IsSampled() {
			w3c.Inject(r.Context(), propagation.HeaderCarrier(r.Header))
		}
		next.ServeHTTP(w, r)
		if _, route, found := strings.Cut(r.Pattern, " "); found {
			trace.SpanFromContext(r.Context()).SetAttributes(attribute.String("http.route", route))
		}
	})
	return otelhttp.NewHandler(inner, "", otelhttp.WithTracerProvider(t.provider), otelhttp.WithPropagators(w3c),
		otelhttp.WithMeterProvider(noop.NewMeterProvider()), otelhttp.WithFilter(traced))
}

// untraced are the ends of paths of requests without a span. Requests that take rings have none: streams last for hours, and nothing stands
// between a ring and its connection, whose write errors decide the ring's outcome.
var untraced = []string{"/healthz", "/readyz", "/metrics", "/rings", "/rings/reserve", "/StreamRings"}

// traced reports whether a request has a span.
func traced(r *http.Request) bool {
	return !slices.ContainsFunc(untraced, func(end string) bool { return strings.HasSuffix(r.URL.Path, end) })
}

// messagingSystems has the names of OpenTelemetry's conventions where they differ from the names of the targets.
var messagingSystems = map[clock.TargetKind]string{clock.TargetAMQP: "rabbitmq"}

// delivered makes the span of a delivery, after OpenTelemetry's conventions for messaging. It is not the parent of the consumer's span: a ring
// carries the context of its set. Late outcomes make no span, because the span of their delivery has ended. A nil tracing does nothing.
func (t *tracing) delivered(d ring.Delivery) {
	if t == nil || d.Late {
		return
	}
	links := setLinks(d.Rings)
	_, span := t.tracer.Start(context.Background(), "publish "+d.Target.String(), trace.WithTimestamp(d.Begun),
		trace.WithSpanKind(trace.SpanKindClient),
		trace.WithNewRoot(), trace.WithLinks(links...), trace.WithAttributes(
			attribute.String("messaging.system", cmp.Or(messagingSystems[d.Target], d.Target.String())),
			attribute.String("messaging.operation.name", "publish"),
			attribute.String("messaging.operation.type", "send"),
			attribute.Int("messaging.batch.message_count", len(d.Rings)),
		))
	if span.IsRecording() {
		describeOutcomes(span, &d)
	}
	span.End(trace.WithTimestamp(d.Ended))
}

// setLinks returns a link to each different recorded context of the rings' sets.
func setLinks(rings []clock.Ring) (links []trace.Link) {
	seen := map[string]bool{}
	for i := range rings {
		parent := rings[i].Traceparent
		if clock.SampledTrace(parent) == "" || seen[parent] {
			continue
		}
		seen[parent] = true
		set := propagation.TraceContext{}.Extract(context.Background(), propagation.MapCarrier{"traceparent": parent})
		links = append(links, trace.Link{SpanContext: trace.SpanContextFromContext(set)})
	}
	return links
}

// describeOutcomes adds the application, if there is only one, and the outcomes other than confirmed.
func describeOutcomes(span trace.Span, d *ring.Delivery) {
	counts, reason, single := map[clock.OutcomeKind]int{}, "", true
	for i := range d.Outcomes {
		o := &d.Outcomes[i]
		counts[o.Kind]++
		if o.Kind != clock.Confirmed {
			reason = cmp.Or(reason, o.Reason)
		}
		single = single && d.Rings[i].Application == d.Rings[0].Application
	}
	if single {
		span.SetAttributes(attribute.String("clockd.application", d.Rings[0].Application))
	}
	for kind, n := range counts {
		if kind == clock.Confirmed {
			continue
		}
		span.SetAttributes(attribute.Int("clockd.rings."+kind.String(), n))
		if kind != clock.Awaited {
			span.SetAttributes(attribute.String("error.type", kind.String()))
			span.SetStatus(codes.Error, reason)
		}
	}
}
