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
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// Alarms is the domain as this package uses it; *clock.Service is one.
type Alarms interface {
	Submit(op clock.Op) *clock.Pending
	Get(ctx context.Context, k clock.Key) (*clock.Alarm, error)
	List(ctx context.Context, q clock.ListQuery) ([]clock.Alarm, error)
	Answer(ctx context.Context, a clock.Answer) *clock.Pending
	KickAll(ctx context.Context, q clock.DeadQuery) (clock.DeadResult, error)
	DiscardAll(ctx context.Context, q clock.DeadQuery) (clock.DeadResult, error)
	MaxPayload() int
}

var _ Alarms = (*clock.Service)(nil)

// Deps are what the server works with.
type Deps struct {
	Alarms     Alarms
	Streams    Streams          // nil: rings go to RabbitMQ
	Nodes      Nodes            // nil: nothing is known of other nodes, and GET /v1/nodes is 503
	Readiness  func() Readiness // must not block
	Log        *slog.Logger
	Registerer prometheus.Registerer // for this package's metrics
	Gatherer   prometheus.Gatherer   // what /metrics shows
}

// Server is the HTTP face.
type Server struct {
	cfg       Config
	alarms    Alarms
	streams   Streams
	readiness func() Readiness
	log       *slog.Logger
	metrics   *metrics
	echo      *echo.Echo
	http      *http.Server
	listener  net.Listener
	bodies    budget

	lookAtNodes Nodes

	stopping context.Context //nolint:containedctx // ends when the server begins to drain
	stop     context.CancelFunc
}

// New returns a Server that does nothing yet.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	m, err := newMetrics(deps.Registerer)
	if err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	s := &Server{
		cfg: cfg, alarms: deps.Alarms, streams: deps.Streams, readiness: deps.Readiness, log: deps.Log, metrics: m, lookAtNodes: deps.Nodes,
	}
	s.bodies.give(cfg.BodyBytes)
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.echo = s.newEcho(deps.Gatherer)
	s.http = &http.Server{
		Handler: s, ReadHeaderTimeout: cfg.ReadHeaderTimeout, IdleTimeout: cfg.IdleTimeout, MaxHeaderBytes: cfg.MaxHeaderBytes,
		ErrorLog: slog.NewLogLogger(deps.Log.Handler(), slog.LevelWarn),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
	}
	return s, nil
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// resetOnClose makes the close of a connection whose client takes nothing drop what it has not taken. Otherwise the kernel
// would go on offering it for minutes, and the client might not learn of the close as long.
func resetOnClose(r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(*net.TCPConn); ok {
		_ = conn.SetLinger(0) // fails on a connection that is broken already
	}
}

func (d *Deps) validate() error {
	if d.Alarms == nil || d.Readiness == nil || d.Log == nil || d.Registerer == nil || d.Gatherer == nil {
		return errors.New("alarms, readiness, log, registerer and gatherer are needed")
	}
	return nil
}

// Listen opens the listener, so that a port that is taken is known before Run. Run does it otherwise.
func (s *Server) Listen(ctx context.Context) error {
	if s.listener != nil {
		return nil
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.cfg.Listen, err)
	}
	s.listener = l
	return nil
}

// Addr returns where the server listens, nil before Listen.
func (s *Server) Addr() net.Addr {
	if s.listener == nil {
		return nil
	}
	return s.listener.Addr()
}

// Run serves until ctx ends, then drains: it takes no more connections, ends streams after what they hold, and
// waits for requests under way, at most Config.DrainTimeout. It may be called once.
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
	s.stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
	defer cancel()
	if err := s.http.Shutdown(ctx); err != nil {
		s.log.Warn("requests were cut because they took too long to drain", "err", err)
		_ = s.http.Close() // of listeners that are closed already
	}
}

// route is one method of one path.
type route struct {
	name   string // in metrics, and as operationId in openapi.yaml
	method string
	path   string // as echo has it
	action string // for alarmPath: what follows the business id, after a slash
	handle echo.HandlerFunc
}

const (
	applicationPath = "/v1/applications/:application"
	alarmsPath      = applicationPath + "/alarms"
	alarmPath       = alarmsPath + "/*"
	ringsPath       = applicationPath + "/rings"
	ringPath        = ringsPath + "/:message_id"
)

func (s *Server) routes(g prometheus.Gatherer) []route {
	return []route{
		{name: "setAlarm", method: http.MethodPut, path: alarmPath, handle: s.set},
		{name: "cancelAlarm", method: http.MethodDelete, path: alarmPath, handle: s.cancel},
		{name: "getAlarm", method: http.MethodGet, path: alarmPath, handle: s.get},
		{name: "batchAlarms", method: http.MethodPost, path: alarmsPath, handle: s.batch},
		{name: "listAlarms", method: http.MethodGet, path: alarmsPath, handle: s.list},
		{name: "kickAlarm", method: http.MethodPost, path: alarmPath, action: "kick", handle: s.kick},
		{name: "discardAlarm", method: http.MethodPost, path: alarmPath, action: "discard", handle: s.discard},
		{name: "kickAlarms", method: http.MethodPost, path: applicationPath + "/kick", handle: s.kickAll},
		{name: "discardAlarms", method: http.MethodPost, path: applicationPath + "/discard", handle: s.discardAll},
		{name: "streamRings", method: http.MethodGet, path: ringsPath, handle: s.rings},
		{name: "ackRing", method: http.MethodPost, path: ringPath + "/ack", handle: s.answerRing(clock.Ack)},
		{name: "releaseRing", method: http.MethodPost, path: ringPath + "/release", handle: s.answerRing(clock.Release)},
		{name: "buryRing", method: http.MethodPost, path: ringPath + "/bury", handle: s.answerRing(clock.Bury)},
		{name: "touchRing", method: http.MethodPost, path: ringPath + "/touch", handle: s.answerRing(clock.Touch)},
		{name: "listNodes", method: http.MethodGet, path: "/v1/nodes", handle: s.nodes},
		{name: "healthz", method: http.MethodGet, path: "/healthz", handle: s.healthz},
		{name: "readyz", method: http.MethodGet, path: "/readyz", handle: s.readyz},
		{name: "metrics", method: http.MethodGet, path: "/metrics", handle: s.showMetrics(g)},
		{name: "openapi", method: http.MethodGet, path: "/openapi.yaml", handle: s.openAPI},
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
		fail := route{name: "none", handle: func(echo.Context) error { return err }}
		_ = s.handler(&fail)(c)
	}
	return e
}

// handler returns the route's handler with what all share: its failure or panic becomes an answer, and it is measured.
func (s *Server) handler(r *route) echo.HandlerFunc {
	name, handle := r.name, r.handle
	return func(c echo.Context) error {
		begun := time.Now()
		s.limitRead(c)
		err := recovered(handle, c)
		if err != nil {
			err = s.answerProblem(c, err)
		}
		s.metrics.observe(name, c, begun)
		return err
	}
}

// limitRead bounds how long the server may read on in a body that the handler leaves.
func (s *Server) limitRead(c echo.Context) {
	if c.Request().ContentLength != 0 {
		_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Now().Add(s.cfg.ReadTimeout))
	}
}

// limitWrite bounds the next write. Only test recorders do not support it.
func (s *Server) limitWrite(c echo.Context) {
	_ = http.NewResponseController(c.Response().Writer).SetWriteDeadline(time.Now().Add(s.cfg.WriteTimeout))
}

// recovered calls the handler and returns its panic as an error.
func recovered(handle echo.HandlerFunc, c echo.Context) (err error) {
	defer func() {
		v := recover()
		if v == http.ErrAbortHandler { //nolint:errorlint // the value itself
			panic(v)
		}
		if v != nil {
			err = &panicError{value: v, stack: debug.Stack()}
		}
	}()
	return handle(c)
}

// writeBytes is how much of an answer is written under one deadline.
const writeBytes = 256 << 10

// answerJSON writes a JSON document, with a line break for who reads it in a terminal.
func (s *Server) answerJSON(c echo.Context, status int, b []byte) error {
	return s.answer(c, status, echo.MIMEApplicationJSON, append(b, '\n'))
}

// answer writes a whole answer. A client that does not take it is no failure of the request.
func (s *Server) answer(c echo.Context, status int, contentType string, b []byte) error {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, contentType)
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(b)))
	h.Set(echo.HeaderCacheControl, "no-store") // a state changes without its ETag
	for first := true; first || len(b) > 0; first = false {
		s.limitWrite(c)
		if first {
			c.Response().WriteHeader(status)
		}
		n := min(len(b), writeBytes)
		if _, err := c.Response().Write(b[:n]); err != nil {
			return nil //nolint:nilerr // see above
		}
		b = b[n:]
	}
	return nil
}
