package clockhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"

	"github.com/clockd/clockd/clock"
)

// Alarms is the part of the domain that this package uses. *clock.Service implements it.
type Alarms interface {
	Submit(ctx context.Context, op clock.Op) *clock.Pending
	Get(ctx context.Context, k clock.Key) (*clock.Alarm, error)
	List(ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool) error
	Answer(ctx context.Context, a clock.Answer) *clock.Pending
	KickAll(ctx context.Context, q clock.DeadQuery) (clock.DeadResult, error)
	DiscardAll(ctx context.Context, q clock.DeadQuery) (clock.DeadResult, error)
	MaxPayload() int
}

var _ Alarms = (*clock.Service)(nil)

// Deps holds the parts that the server calls.
type Deps struct {
	Alarms     Alarms
	Streams    Streams          // source of streams of rings; nil: no application rings to a stream
	Pulls      Pulls            // source of the rings that workers reserve; nil: none can be reserved
	Settings   Settings         // settings of applications; nil: they cannot be read
	Nodes      Nodes            // reader of the nodes; nil: GET /v1/nodes is 503
	Readiness  func() Readiness // state for /readyz; must not block
	Log        *slog.Logger
	Registerer prometheus.Registerer // registry of this package's metrics
	Gatherer   prometheus.Gatherer   // source of the metrics that /metrics shows
}

// Server serves the HTTP interface.
type Server struct {
	cfg       Config
	alarms    Alarms
	streams   Streams
	pulls     Pulls
	readiness func() Readiness
	log       *slog.Logger
	metrics   *metrics
	echo      *echo.Echo
	http      *http.Server
	listener  net.Listener
	memory    *budget
	guard     guard

	settings  Settings
	readNodes Nodes
	nodeReads singleflight.Group // calls of readNodes; concurrent requests share one call

	http2Requests atomic.Int64 // running requests of HTTP/2

	bodiesUntil atomic.Pointer[time.Time] // time at which unfinished bodies are cut; nil before the server stops

	stopping context.Context //nolint:containedctx // context that ends when the server begins to drain
	stop     context.CancelFunc
}

// New returns a Server. It opens no listener and starts no goroutine.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	memory := newBudget(cfg)
	m, err := newMetrics(deps.Registerer, memory)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	s := &Server{
		cfg: cfg, alarms: deps.Alarms, streams: deps.Streams, pulls: deps.Pulls, readiness: deps.Readiness, log: deps.Log, metrics: m, readNodes: deps.Nodes, settings: deps.Settings,
		guard: newGuard(cfg), memory: memory,
	}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.echo = s.newEcho(deps.Gatherer)
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: cfg.ReadHeaderTimeout, IdleTimeout: cfg.IdleTimeout, MaxHeaderBytes: cfg.MaxHeaderBytes,
		ErrorLog: slog.NewLogLogger(deps.Log.Handler(), slog.LevelWarn),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
	}
	serveHTTP2(s.http, cfg)
	return s, nil
}

// connKey is the key of a request's connection in the request's context.
type connKey struct{}

// resetOnClose makes Close drop the bytes that the client has not taken. Use it for a client that does not read. Without it,
// the kernel offers these bytes for minutes, and meanwhile the client may not learn that the connection is closed. It does nothing on HTTP/2,
// where other requests share the connection.
func resetOnClose(r *http.Request) {
	if r.ProtoMajor > 1 {
		return
	}
	if conn, ok := r.Context().Value(connKey{}).(*limitedConn); ok {
		_ = conn.SetLinger(0) // fails only on a broken connection
	}
}

func (d *Deps) validate() error {
	if d.Alarms == nil || d.Readiness == nil || d.Log == nil || d.Registerer == nil || d.Gatherer == nil {
		return errors.New("alarms, readiness, log, registerer and gatherer must not be nil")
	}
	return nil
}

// Listen opens the listener. Call it before Run to find an occupied port early. Otherwise Run calls it.
func (s *Server) Listen(ctx context.Context) error {
	if s.listener != nil {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.cfg.Listen, err)
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return errors.Join(fmt.Errorf("listen on %s: not a TCP listener", s.cfg.Listen), l.Close())
	}
	s.listener = newLimitedListener(tcp, s.cfg, s.metrics.refused)
	return nil
}

// Addr returns the address of the listener, nil before Listen.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Run serves until ctx ends, then drains. While it drains, it accepts no connections, ends each stream after the items that
// the stream holds, and waits for running requests, at most Config.DrainTimeout. Call it only once.
func (s *Server) Run(ctx context.Context) error {
	defer s.stop()
	if err := s.Listen(ctx); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	select {
	case err := <-served:
		return fmt.Errorf("serve on %s: %w", s.cfg.Listen, err)
	case <-ctx.Done():
	}
	s.drain(ctx)
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve on %s: %w", s.cfg.Listen, err)
	}
	return nil
}

func (s *Server) drain(ctx context.Context) {
	end := time.Now().Add(s.cfg.DrainBody)
	s.bodiesUntil.Store(&end)
	s.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.log.Warn("requests were cut because they took too long to drain", "err", err)
		_ = s.http.Close() // fails only because the listeners are already closed
	}
}

// route is one method of one path.
type route struct {
	name   string // name in metrics, and operationId in openapi.yaml
	method string
	path   string // path pattern in echo's syntax
	action string // action after the business id, for POSTs to alarmPath; empty elsewhere
	access access
	handle echo.HandlerFunc
	refuse func(http.ResponseWriter, *http.Request, int, *clock.Error) // writes failures; nil: as problem+json
}

const (
	applicationPath = "/v1/applications/:application"
	alarmsPath      = applicationPath + "/alarms"
	alarmPath       = alarmsPath + "/*"
	settingsPath    = applicationPath + "/settings"
	ringsPath       = applicationPath + "/rings"
	ringPath        = ringsPath + "/:message_id"
)

func (s *Server) routes(g prometheus.Gatherer) []route {
	return []route{
		{name: "setAlarm", method: http.MethodPut, path: alarmPath, handle: s.set},
		{name: "cancelAlarm", method: http.MethodDelete, path: alarmPath, handle: s.cancel},
		{name: "getAlarm", method: http.MethodGet, path: alarmPath, access: reads, handle: s.get},
		{name: "batchAlarms", method: http.MethodPost, path: alarmsPath, handle: s.batch},
		{name: "listAlarms", method: http.MethodGet, path: alarmsPath, access: reads, handle: s.list},
		{name: "getSettings", method: http.MethodGet, path: settingsPath, access: reads, handle: s.getSettings},
		{name: "listSettings", method: http.MethodGet, path: settingsPath + "/history", access: reads, handle: s.listSettings},
		{name: "kickAlarm", method: http.MethodPost, path: alarmPath, action: "kick", handle: s.kick},
		{name: "discardAlarm", method: http.MethodPost, path: alarmPath, action: "discard", handle: s.discard},
		{name: "kickAlarms", method: http.MethodPost, path: applicationPath + "/kick", handle: s.kickAll},
		{name: "discardAlarms", method: http.MethodPost, path: applicationPath + "/discard", handle: s.discardAll},
		{name: "streamRings", method: http.MethodGet, path: ringsPath, handle: s.rings},
		{name: "reserveRings", method: http.MethodPost, path: ringsPath + "/reserve", handle: s.reserve},
		{name: "ackRing", method: http.MethodPost, path: ringPath + "/ack", handle: s.answerRing(clock.Ack)},
		{name: "releaseRing", method: http.MethodPost, path: ringPath + "/release", handle: s.answerRing(clock.Release)},
		{name: "buryRing", method: http.MethodPost, path: ringPath + "/bury", handle: s.answerRing(clock.Bury)},
		{name: "touchRing", method: http.MethodPost, path: ringPath + "/touch", handle: s.answerRing(clock.Touch)},
		{name: "listNodes", method: http.MethodGet, path: "/v1/nodes", access: reads, handle: s.nodes},
		{name: "healthz", method: http.MethodGet, path: "/healthz", access: anyone, handle: s.healthz},
		{name: "readyz", method: http.MethodGet, path: "/readyz", access: anyone, handle: s.readyz},
		{name: "metrics", method: http.MethodGet, path: "/metrics", access: anyone, handle: s.showMetrics(g)},
		{name: "openapi", method: http.MethodGet, path: "/openapi.yaml", access: reads, handle: s.openAPI},
		{name: "openapi30", method: http.MethodGet, path: "/openapi-3.0.yaml", access: reads, handle: s.openAPI30},
	}
}

func (s *Server) newEcho(g prometheus.Gatherer) *echo.Echo {
	e := echo.New()
	e.IPExtractor = echo.ExtractIPDirect() // the default trusts X-Forwarded-For
	e.Logger.SetOutput(io.Discard)
	actions := map[string]echo.HandlerFunc{}
	for _, r := range s.routes(g) {
		if r.action != "" {
			actions[r.action] = s.handler(&r)
			continue
		}
		e.Add(r.method, r.path, s.handler(&r))
	}
	e.POST(alarmPath, s.alarmAction(actions))
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		fail := route{name: "none", access: anyone, handle: func(echo.Context) error { return err }}
		_ = s.handler(&fail)(c)
	}
	return e
}

// handler wraps the route's handler for all routes alike: it checks the guard, turns a failure or a panic into a response, and
// measures the request.
func (s *Server) handler(r *route) echo.HandlerFunc {
	name, access, handle, refuse := r.name, r.access, r.handle, r.refuse
	return func(c echo.Context) error {
		begun := time.Now()
		s.limitRead(c)
		err := s.admit(access, c)
		if err == nil {
			err = recovered(handle, c)
		}
		switch {
		case err == nil:
		case refuse != nil:
			s.refuse(c, err, refuse)
			err = nil
		default:
			err = s.respondProblem(c, err)
		}
		s.metrics.observe(name, c, begun)
		return err
	}
}

// limitRead bounds the time in which the server reads the part of a body that the handler does not read.
func (s *Server) limitRead(c echo.Context) {
	if c.Request().ContentLength != 0 {
		_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Now().Add(s.cfg.ReadTimeout))
	}
}

// limitWrite gives the next write Config.WriteTimeout, and ends it at until at the latest. Only test recorders do not support it.
func (s *Server) limitWrite(c echo.Context, until time.Time) {
	deadline := time.Now().Add(s.cfg.WriteTimeout)
	if until.Before(deadline) {
		deadline = until
	}
	_ = http.NewResponseController(c.Response().Writer).SetWriteDeadline(deadline)
}

// recovered calls the handler and turns its panic into an error.
func recovered(handle echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		v := recover()
		if v == http.ErrAbortHandler { //nolint:errorlint // net/http compares the value itself
			panic(v)
		}
		if v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	return handle(c)
}

// writeBytes is the size of the parts in which a response is written. Each part has a deadline of its own.
const writeBytes = 256 << 10

// respondJSON writes a JSON document and a line break, which helps readers at a terminal. Its memory is counted but never
// refused, because the document may describe a committed change.
func (s *Server) respondJSON(c echo.Context, status int, b []byte) error {
	s.memory.force(responses, int64(cap(b)))
	defer s.memory.give(responses, int64(cap(b)))
	return s.respond(c, status, echo.MIMEApplicationJSON, append(b, '\n'))
}

// respond writes a whole response. The request does not fail when the client does not take the response.
func (s *Server) respond(c echo.Context, status int, contentType string, b []byte) error {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, contentType)
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(b)))
	h.Set(echo.HeaderCacheControl, "no-store") // the ETag is the generation, and a state changes without a new generation
	until := time.Now().Add(s.cfg.BodyTimeout)
	for first := true; first || len(b) > 0; first = false {
		s.limitWrite(c, until)
		if first {
			c.Response().WriteHeader(status)
		}
		n := min(len(b), writeBytes)
		if _, err := c.Response().Write(b[:n]); err != nil {
			resetOnClose(c.Request())
			return nil //nolint:nilerr // see above
		}
		b = b[n:]
	}
	return nil
}
