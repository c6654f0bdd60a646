package clockhttp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/ringstream"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/ring/grpc"
	"github.com/clockd/clockd/ring/kafka"
	"github.com/clockd/clockd/ring/rabbit"
	"github.com/clockd/clockd/ring/webhook"
)

// harness is a real server over a real clock.Service, with a client that checks every response against openapi.yaml.
type harness struct {
	t         testing.TB
	server    *Server
	store     *memoryStore
	url       string
	client    *http.Client
	transport *http.Transport
	metrics   *prometheus.Registry
	stop      func() // drains the server and waits for Run; may be called twice
}

// setup holds the values that a test may change before the server starts.
type setup struct {
	cfg     Config
	service clock.ServiceConfig
	deps    Deps
	store   *memoryStore

	defaults func(application string) *clock.Defaults // of the service; nil: no application has any
}

// testForm has the parts that openapi.yaml describes.
var testForm = settings.NewForm(rabbit.Part, webhook.Part, kafka.Part, grpc.Part)

func start(t testing.TB, change ...func(*setup)) *harness {
	t.Helper()
	reg := prometheus.NewRegistry()
	su := &setup{cfg: DefaultConfig(), service: clock.DefaultServiceConfig(), store: newMemoryStore()}
	su.cfg.Listen = "127.0.0.1:0"
	su.deps = Deps{
		Readiness: func() Readiness {
			return Readiness{Ready: true,
				Checks: []Check{{Name: "database", Status: "ok"}}}
		},
		Log: quiet(), Registerer: reg, Gatherer: reg,
	}
	for _, c := range change {
		c(su)
	}
	if su.deps.Alarms == nil {
		su.deps.Alarms = startService(t, su)
	}
	if su.deps.Streams != nil {
		su.deps.Journal = newTestJournal(t, su.deps.Alarms, reg)
	}
	server, err := New(su.cfg, su.deps)
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, server: server, store: su.store, metrics: reg}
	h.serve()
	return h
}

// newTestJournal returns a journal whose resends go to the service, if the alarms are a service.
func newTestJournal(t testing.TB, alarms Alarms, reg prometheus.Registerer) *ringstream.Journal {
	t.Helper()
	resender, ok := alarms.(ringstream.Resender)
	if !ok {
		resender = (*clock.Service)(nil) // without rings there are no resends
	}
	j, err := ringstream.NewJournal(ringstream.Deps{Alarms: resender, Registerer: reg})
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func startService(t testing.TB, su *setup) *clock.Service {
	t.Helper()
	tb, err := clock.NewTimebase(clock.DefaultTimebaseConfig(), clock.TimebaseDeps{Source: su.store})
	if err != nil {
		t.Fatal(err)
	}
	if err := tb.Sample(t.Context()); err != nil {
		t.Fatal(err)
	}
	service, err := clock.NewService(su.service, clock.ServiceDeps{Store: su.store, Time: tb, Listener: su.store, Defaults: su.defaults, Metrics: clock.Metrics{
		Dropped: func(clock.DropReason) { su.store.dropped.Add(1) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	background(t, service.Run)
	background(t, tb.Run)
	return service
}

// background calls run in a goroutine. run's context ends with the test, or when the test calls stop.
func background(t testing.TB, run func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (h *harness) serve() {
	h.t.Helper()
	port, err := Listen(h.t.Context(), h.server.cfg, quiet(), h.metrics)
	if err != nil {
		h.t.Fatal(err)
	}
	h.server.Attach(port)
	h.url = "http://" + port.Addr().String()
	h.stop = background(h.t, h.server.Run)
	h.transport = &http.Transport{}
	h.client = &http.Client{Transport: &contractTransport{t: h.t, next: h.transport}}
	h.t.Cleanup(h.transport.CloseIdleConnections)
}

// reply is a whole response.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// field returns a member of the response's JSON, nil if it has no such member.
func (r *reply) field(path string) any {
	var v any
	d := json.NewDecoder(bytes.NewReader(r.body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		return nil
	}
	for name := range strings.SplitSeq(path, ".") {
		m, _ := v.(map[string]any)
		v = m[name]
	}
	return v
}

// do sends a request. Each header has the form "Name: value".
func (h *harness) do(method, path, body string, headers ...string) *reply {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	resp, err := h.client.Do(r)
	if err != nil {
		h.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatalf("%s %s: read: %v", method, path, err)
	}
	return &reply{status: resp.StatusCode, header: resp.Header, body: b}
}

// expect is do, and fails the test unless the response has this status and this problem code. An empty code means no
// problem.
func (h *harness) expect(status int, code, method, path, body string, headers ...string) *reply {
	h.t.Helper()
	r := h.do(method, path, body, headers...)
	if got, _ := r.field("code").(string); r.status != status || got != code {
		h.t.Errorf("%s %s %.200s: %d %q, want %d %q; %.500s", method, path, body, r.status, got, status, code, r.body)
	}
	return r
}

const alarms = "/v1/applications/shop/alarms"

// contract is openapi.yaml, loaded.
var contract = sync.OnceValue(func() *openapi3.T {
	doc, err := openapi3.NewLoader().LoadFromData(openAPI)
	if err != nil {
		panic(err)
	}
	return doc
})

// pathTemplates map a request's method and escaped path to a path of the contract.
var pathTemplates = []struct {
	re       *regexp.Regexp
	template string
}{
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/alarms/.*/cancel$`),
		"/v1/applications/{application}/alarms/{business_id}/cancel"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/alarms/.*/kick$`),
		"/v1/applications/{application}/alarms/{business_id}/kick"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/alarms/.*/discard$`),
		"/v1/applications/{application}/alarms/{business_id}/discard"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/alarms/.*/pause$`),
		"/v1/applications/{application}/alarms/{business_id}/pause"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/alarms/.*/resume$`),
		"/v1/applications/{application}/alarms/{business_id}/resume"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/alarms/.*/trigger$`),
		"/v1/applications/{application}/alarms/{business_id}/trigger"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/alarms/.*/backfill$`),
		"/v1/applications/{application}/alarms/{business_id}/backfill"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/alarms/.*/end-backfill$`),
		"/v1/applications/{application}/alarms/{business_id}/end-backfill"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/alarms/.*/occurrences$`),
		"/v1/applications/{application}/alarms/{business_id}/occurrences"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/alarms/.*/events$`),
		"/v1/applications/{application}/alarms/{business_id}/events"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/alarms/.*$`),
		"/v1/applications/{application}/alarms/{business_id}"},
	{regexp.MustCompile(`^[A-Z]+ /v1/sessions/[^/]*$`), "/v1/sessions/{session}"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/alarms$`), "/v1/applications/{application}/alarms"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/rings$`), "/v1/applications/{application}/rings"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/settings$`), "/v1/applications/{application}/settings"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/settings/history$`),
		"/v1/applications/{application}/settings/history"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/manifests$`), "/v1/applications/{application}/manifests"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/manifests/[^/]*$`),
		"/v1/applications/{application}/manifests/{label}"},
	{regexp.MustCompile(`^GET /v1/bulk/[^/]*$`), "/v1/bulk/{job}"},
	{regexp.MustCompile(`^POST /v1/bulk/[^/]*/stop$`), "/v1/bulk/{job}/stop"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/kick$`), "/v1/applications/{application}/kick"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/discard$`), "/v1/applications/{application}/discard"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/rings/reserve$`),
		"/v1/applications/{application}/rings/reserve"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/rings/[^/]*/ack$`),
		"/v1/applications/{application}/rings/{message_id}/ack"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/rings/[^/]*/release$`),
		"/v1/applications/{application}/rings/{message_id}/release"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/rings/[^/]*/bury$`),
		"/v1/applications/{application}/rings/{message_id}/bury"},
	{regexp.MustCompile(`^[A-Z]+ /v1/applications/[^/]*/rings/[^/]*/touch$`),
		"/v1/applications/{application}/rings/{message_id}/touch"},
}

func operationOf(r *http.Request) *openapi3.Operation {
	path := r.URL.EscapedPath()
	for _, p := range pathTemplates {
		if p.re.MatchString(r.Method + " " + path) {
			path = p.template
			break
		}
	}
	item := contract().Paths.Value(path)
	if item == nil {
		return nil
	}
	return item.GetOperation(r.Method)
}

// contractTransport validates every response. It validates only the head of a stream.
type contractTransport struct {
	t    testing.TB
	next http.RoundTripper
}

func (c *contractTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	ct := resp.Header.Get("Content-Type")
	stream := ct == ndjsonType || ct == "text/event-stream"
	var body []byte
	if !stream {
		if body, err = io.ReadAll(resp.Body); err != nil {
			return nil, err
		}
		_ = resp.Body.Close()
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
	if err := validate(r, resp, body, stream); err != nil {
		c.t.Errorf("%s %s: response breaks the contract: %v\n%.600s", r.Method, r.URL, err, body)
	}
	return resp, nil
}

func validate(r *http.Request, resp *http.Response, body []byte, stream bool) error {
	op := operationOf(r)
	if op == nil && r.Method == http.MethodOptions { // the methods are in the header Allow
		return nil
	}
	if op == nil { // unknown path or method: the response must still be a problem
		return validateSchema("Problem", body)
	}
	contentType, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	isJSON := err == nil && (contentType == "application/json" || contentType == "application/problem+json")
	err = openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request: r, Route: &routers.Route{Spec: contract(), Operation: op, Method: r.Method},
		},
		Status: resp.StatusCode, Header: resp.Header, Body: io.NopCloser(bytes.NewReader(body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, ExcludeResponseBody: stream || isJSON},
	})
	if err != nil || !isJSON {
		return err
	}
	media := op.Responses.Status(resp.StatusCode).Value.Content[contentType]
	if media == nil {
		return fmt.Errorf("content type %s is not in the contract", contentType)
	}
	name, named := strings.CutPrefix(media.Schema.Ref, schemasOfContract)
	if !named {
		return errors.New("the response has a schema without a name")
	}
	return validateSchema(name, body)
}

const schemasOfContract = "#/components/schemas/"

// validateSchema checks a JSON text against a schema of the contract.
func validateSchema(name string, text []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return contractSchema(name).Validate(v)
}

// contractSchema returns the schema of that name in the contract. It is compiled only once: kin-openapi would compile
// it for each value.
func contractSchema(name string) *jsonschema.Schema {
	compiled.Lock()
	defer compiled.Unlock()
	const document = "https://clockd.example/openapi.json"
	if compiled.compiler == nil {
		text, err := json.Marshal(contract())
		if err != nil {
			panic(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			panic(err)
		}
		compiled.compiler = jsonschema.NewCompiler()
		compiled.compiler.AssertFormat()
		if err := compiled.compiler.AddResource(document, doc); err != nil {
			panic(err)
		}
	}
	return compiled.compiler.MustCompile(document + schemasOfContract + name)
}

// compiled keeps the schemas of the contract.
var compiled struct {
	sync.Mutex
	compiler *jsonschema.Compiler
}

// logs keeps the log's text.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logs) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// newServer returns a server with default settings that serves no connections.
func newServer(tb testing.TB, deps Deps) *Server {
	tb.Helper()
	reg := prometheus.NewRegistry()
	deps.Readiness, deps.Registerer, deps.Gatherer = func() Readiness { return Readiness{} }, reg, reg
	deps.Log = cmp.Or(deps.Log, quiet())
	server, err := New(DefaultConfig(), deps)
	if err != nil {
		tb.Fatal(err)
	}
	return server
}
