package clockgrpc_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockgrpc"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/ringstream"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/preload"
	"github.com/clockd/clockd/preload/lease"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/stream"
	"github.com/clockd/clockd/ring/webhook"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// service is a whole clockd in this process: SQLite, the ring loop, and the stream as its target.
type service struct {
	t       *testing.T
	addr    string
	server  *clockhttp.Server
	store   store.Store
	metrics *prometheus.Registry
	running []component // in the order of their start
	web     *http.Client
}

// component is a running part of the service.
type component struct {
	end  context.CancelFunc
	done chan error
}

// setup holds the values that a test may change before the server starts.
type setup struct {
	web     clockhttp.Config
	streams clockgrpc.Streams // nil: none
	failing bool              // see failingAlarms
	access  front.Access      // nil: everyone may do everything
	unready bool              // the node cannot process sets
	blocked []clock.Blocker   // reasons why alarms do not ring

	elsewhere func(application string) error // nil: the answer of the server of clockhttp
}

// failingAlarms fails requests for some business ids, and passes the others on.
type failingAlarms struct{ clockgrpc.Alarms }

func (f failingAlarms) Submit(ctx context.Context, op clock.Op) *clock.Pending {
	switch op.Key().BusinessID {
	case "unavailable":
		return clock.Decided(op,
			clock.Decision{Verdict: clock.Refuse, Err: clock.Unavailable(errors.New("no database"))})
	case "unexpected":
		return clock.Decided(op, clock.Decision{Verdict: clock.Refuse, Err: errors.New("a bug")})
	case "late":
		<-ctx.Done()
		return clock.Decided(op, clock.Decision{Verdict: clock.Refuse, Err: fmt.Errorf("a driver: %w", ctx.Err())})
	case "panic":
		panic("a bug")
	}
	return f.Alarms.Submit(ctx, op)
}

// start starts a service on a new SQLite file. change may change its setup.
func start(t *testing.T, change ...func(*setup)) *service {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	s := &service{t: t, metrics: prometheus.NewRegistry(), web: &http.Client{Transport: &http.Transport{}}}
	cfg := sqlite.DefaultConfig()
	cfg.URL, cfg.Shards = "sqlite:"+filepath.Join(t.TempDir(), "clockd.db"), 4
	var err error
	if s.store, err = sqlite.New(cfg, sqlite.Deps{Log: log, Registerer: s.metrics}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.web.CloseIdleConnections()
		if err := s.stop(); err != nil {
			t.Errorf("stop the service: %v", err)
		}
	})
	if err := errors.Join(s.store.Migrate(t.Context()), s.store.Check(t.Context()), s.wire(log, change)); err != nil {
		t.Fatal(err)
	}
	return s
}

// wire joins the parts as cmd/clockd does, and starts them.
func (s *service) wire(log *slog.Logger, change []func(*setup)) error {
	streams := stream.New()
	tb, err := clock.NewTimebase(clock.DefaultTimebaseConfig(), clock.TimebaseDeps{Source: s.store, Log: log})
	if err != nil {
		return err
	}
	if err := tb.Sample(s.t.Context()); err != nil {
		return err
	}
	reads, preloading := preload.NewReads(s.store), preload.DefaultConfig()
	heap := ring.NewHeap(preloading.Loaders, 10_000)
	leases := lease.DefaultConfig()
	leases.Name, leases.Incarnation, leases.Streams = "test", "test-1", true
	keeper, err := lease.New(leases, lease.Deps{
		Leaser: s.store, Time: tb, Streams: streams, Address: func() string { return s.addr }, Log: log,
		Registerer: s.metrics,
	})
	if err != nil {
		return err
	}
	preloader, err := preload.New(preloading,
		preload.Deps{Loader: reads, Heap: heap, Time: tb, Ownership: keeper, Log: log, Registerer: s.metrics})
	if err != nil {
		return err
	}
	loop, err := ring.New(ring.DefaultConfig(), ring.Deps{
		Heap: heap, Database: s.store, Time: tb, Feeder: preloader, Timer: ring.PreciseTimer, Log: log,
		Registerer: s.metrics,
		Routes:     []*ring.Route{{Name: "stream", Target: streams, HoldsClaims: true, SeparateReplies: true}},
	})
	if err != nil {
		return err
	}
	alarms, err := clock.NewService(clock.DefaultServiceConfig(), clock.ServiceDeps{
		Store: s.store, Prober: s.store, Time: tb, Listener: preloader, Log: log, Defaults: defaultsOf,
		OwnReceiver: func(set *clock.Set) (clock.OwnPlace, error) {
			return clock.OwnPlace{Fields: set.Receiver, Number: clock.OwnNumber("")}, nil
		},
	})
	if err != nil {
		return err
	}
	if err := s.serve(log, alarms, streams, change); err != nil {
		return err
	}
	for _, run := range []func(context.Context) error{tb.Run, loop.Run, reads.Run, preloader.Run, alarms.Run, s.server.Run, keeper.Run} {
		s.run(run)
	}
	return nil
}

// defaultsOf lets alarms of the application hooked name webhooks.
func defaultsOf(application string) *clock.Defaults {
	if application != "hooked" {
		return nil
	}
	return &clock.Defaults{Allowed: []clock.TargetKind{clock.TargetWebhook}}
}

// serve starts the server with both interfaces.
func (s *service) serve(
	log *slog.Logger, alarms *clock.Service, streams *stream.Target, change []func(*setup),
) (err error) {
	su := setup{web: clockhttp.DefaultConfig(), streams: streams}
	su.web.Listen = "127.0.0.1:0"
	for _, c := range change {
		c(&su)
	}
	web := su.web
	journal, err := ringstream.NewJournal(ringstream.Deps{Alarms: alarms, Registerer: s.metrics})
	if err != nil {
		return err
	}
	s.server, err = clockhttp.New(web, clockhttp.Deps{
		Alarms: alarms, Streams: su.streams, Journal: journal,
		Readiness: func() clockhttp.Readiness { return clockhttp.Readiness{Ready: !su.unready} },
		Access:    su.access, Log: log, Registerer: s.metrics, Gatherer: s.metrics,
	})
	if err != nil {
		return err
	}
	rpcAlarms := clockgrpc.Alarms(alarms)
	if su.failing {
		rpcAlarms = failingAlarms{alarms}
	}
	elsewhere := s.server.RingsElsewhere
	if su.elsewhere != nil {
		elsewhere = su.elsewhere
	}
	editor := settings.NewEditor(settings.EditorDeps{
		Form: settings.NewForm(webhook.Part), Stored: s.store, DefaultTarget: clock.TargetStream,
		Now: func(context.Context) (clock.Instant, error) { return settingsTime, nil },
	})
	rpc, err := clockgrpc.New(clockgrpc.Config{
		WriteTimeout: web.WriteTimeout, Heartbeat: web.Heartbeat, BatchBytes: clockhttp.BatchBytes,
		BatchItems: clockhttp.BatchItems,
	}, clockgrpc.Deps{Alarms: rpcAlarms, Streams: su.streams, Journal: journal, Front: s.server.Front(),
		Settings: appliedSettings{editor}, RingsElsewhere: elsewhere, Ready: s.server.Ready,
		Blockers: func(*clock.Alarm) []clock.Blocker { return su.blocked }})
	if err != nil {
		return err
	}
	for _, p := range rpc.Procedures() {
		s.server.Mount(p)
	}
	port, err := clockhttp.Listen(s.t.Context(), web, log, s.metrics)
	if err != nil {
		return err
	}
	s.server.Attach(port)
	s.addr = port.Addr().String()
	return nil
}

// settingsTime is the time of all changes of settings.
const settingsTime = clock.Instant(1_900_000_000_123)

// appliedSettings are settings of which this process applies version 7.
type appliedSettings struct{ *settings.Editor }

func (appliedSettings) Applied(string) settings.Applied {
	return settings.Applied{Version: 7, Target: clock.TargetStream}
}

func (s *service) run(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	c := component{end: cancel, done: make(chan error, 1)}
	go func() { c.done <- run(ctx) }()
	s.running = append(s.running, c)
}

// endServer stops the server alone, and waits until it has drained.
func (s *service) endServer() {
	c := s.running[len(s.running)-2]
	c.end()
	c.done <- <-c.done // for stop
}

// stop stops the parts in the reverse order and closes the store.
func (s *service) stop() error {
	var errs []error
	for i := len(s.running) - 1; i >= 0; i-- {
		s.running[i].end()
		errs = append(errs, <-s.running[i].done)
	}
	s.running = nil
	return errors.Join(append(errs, s.store.Close())...)
}

// grpc returns a connection of the gRPC client of Google. It speaks HTTP/2 without TLS.
func (s *service) grpc(options ...grpc.DialOption) *grpc.ClientConn {
	s.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+s.addr,
		append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// procedure returns the path of a procedure.
func procedure(name string) string {
	if strings.HasSuffix(name, "Settings") {
		return "/clockd.v1.ApplicationService/" + name
	}
	return "/clockd.v1.AlarmService/" + name
}

// caller calls a procedure with one request and one response, in one of the protocols.
type caller struct {
	name string
	call func(ctx context.Context, name string, request, response proto.Message) *failure
}

// callers returns a caller of each protocol.
func (s *service) callers() []caller {
	conn := s.grpc()
	return []caller{
		{"grpc", func(ctx context.Context, name string, request, response proto.Message) *failure {
			return grpcFailure(s.t, conn.Invoke(ctx, procedure(name), request, response))
		}},
		{"connect json over HTTP/1.1", s.postJSON},
	}
}

// failure is the error of a call.
type failure struct {
	code    codes.Code
	text    string
	problem *clockdv1.Problem // nil: none
}

func (f *failure) String() string {
	if f == nil {
		return "no failure"
	}
	return fmt.Sprintf("%v %q %v", f.code, f.text, f.problem)
}

func grpcFailure(t *testing.T, err error) *failure {
	if err == nil {
		return nil
	}
	st := status.Convert(err)
	f := &failure{code: st.Code(), text: st.Message()}
	for _, detail := range st.Details() {
		p, is := detail.(*clockdv1.Problem)
		if !is {
			t.Errorf("unknown detail %v", detail)
		}
		f.problem = p
	}
	return f
}

// do sends a request over HTTP/1.1.
func (s *service) do(ctx context.Context, path, contentType, body string, header ...string) (int, http.Header, []byte) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+path, bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	for i := 0; i+1 < len(header); i += 2 {
		if r.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			r.Host = header[i+1]
		}
	}
	response, err := s.web.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.ProtoMajor != 1 {
		s.t.Errorf("response over %s", response.Proto)
	}
	b, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, response.Header, b
}

// postJSON calls a procedure as curl does.
func (s *service) postJSON(ctx context.Context, name string, request, response proto.Message) *failure {
	s.t.Helper()
	b, err := protojson.Marshal(request)
	if err != nil {
		s.t.Fatal(err)
	}
	httpStatus, _, body := s.do(ctx, procedure(name), "application/json", string(b))
	if httpStatus != http.StatusOK {
		return connectFailure(s.t, body)
	}
	if err := protojson.Unmarshal(body, response); err != nil {
		s.t.Fatalf("%s: %v", body, err)
	}
	return nil
}

// connectFailure reads an error of the Connect protocol.
func connectFailure(t *testing.T, body []byte) *failure {
	t.Helper()
	var e struct {
		Code    string
		Message string
		Details []struct {
			Type  string
			Value string
		}
	}
	if err := json.Unmarshal(body, &e); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	f := &failure{text: e.Message}
	if err := f.code.UnmarshalJSON([]byte(`"` + strings.ToUpper(e.Code) + `"`)); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for _, detail := range e.Details {
		b, err := base64.RawStdEncoding.DecodeString(detail.Value)
		f.problem = new(clockdv1.Problem)
		if err = errors.Join(err, proto.Unmarshal(b, f.problem)); err != nil || detail.Type != "clockd.v1.Problem" {
			t.Fatalf("%s: %v", body, err)
		}
	}
	return f
}

// alarm returns a spec that rings after the delay.
func alarm(id string, delay time.Duration) *clockdv1.AlarmSpec {
	return &clockdv1.AlarmSpec{BusinessId: id, Ring: &clockdv1.AlarmSpec_Delay{Delay: durationpb.New(delay)}}
}

// withAuthority makes a gRPC client name another host.
func withAuthority(host string) grpc.DialOption { return grpc.WithAuthority(host) }

// compressed makes a gRPC client compress its request.
var compressed = grpc.UseCompressor(gzip.Name)

// memory returns the memory in bytes that requests of the class use.
func (s *service) memory(class string) float64 {
	s.t.Helper()
	families, err := s.metrics.Gather()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "clockd_http_memory_bytes" && m.GetLabel()[0].GetValue() == class {
				return m.GetGauge().GetValue()
			}
		}
	}
	s.t.Fatalf("no memory of the class %s", class)
	return 0
}
