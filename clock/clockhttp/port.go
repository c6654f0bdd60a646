package clockhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// Port is the listener of the HTTP interface with its connections. It serves requests from the beginning, while the
// node starts: probes learn why the node waits, and other requests are refused. Server.Attach hands all further
// requests to the server, also on open connections.
type Port struct {
	cfg        Config
	http       *http.Server
	listener   net.Listener
	handler    atomic.Pointer[http.Handler] // nil: the node starts
	waitsFor   atomic.Pointer[Check]        // nil: nothing is known
	requestIDs *requestIDs
	brief      briefResponses

	ended chan struct{} // closed when the listener accepts no more connections
	err   error         // the reason, once ended is closed
}

// Listen opens the port. Close must be called, unless Run of an attached server has ended.
func Listen(ctx context.Context, cfg Config, log *slog.Logger, into prometheus.Registerer) (*Port, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	refused := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "clockd_http_connections_refused_total",
		Help: "Connections closed at once, because too many were open in total or from one address.",
	})
	if err := into.Register(refused); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen)
	if op, is := errors.AsType[*net.OpError](err); is {
		err = op.Err // the OpError repeats the address
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listen on %s: not a TCP listener", cfg.Listen), l.Close())
	}
	p := &Port{cfg: cfg, listener: newLimitedListener(tcp, cfg, refused), requestIDs: newRequestIDs(),
		brief: briefResponses{writeTimeout: cfg.WriteTimeout}, ended: make(chan struct{})}
	p.http = &http.Server{
		Handler: p, ReadHeaderTimeout: cfg.ReadHeaderTimeout, IdleTimeout: cfg.IdleTimeout,
		MaxHeaderBytes: cfg.MaxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		},
	}
	serveHTTP2(p.http, cfg)
	go p.serve()
	return p, nil
}

func (p *Port) serve() {
	defer close(p.ended)
	p.err = fmt.Errorf("serve on %s: %w", p.cfg.Listen, p.http.Serve(p.listener))
}

// Addr returns the address of the listener.
func (p *Port) Addr() net.Addr { return p.listener.Addr() }

// Close ends the listener and all connections.
func (p *Port) Close() {
	_ = p.http.Close() // fails only because the listener is already closed
	<-p.ended
}

// drain accepts no more connections, and waits for running requests until ctx ends. Then it cuts them and returns an
// error.
func (p *Port) drain(ctx context.Context) error {
	err := p.http.Shutdown(ctx)
	p.Close()
	return err
}

// WaitsFor says what the starting node waits for.
func (p *Port) WaitsFor(c Check) { p.waitsFor.Store(&c) }

// ServeHTTP serves a request.
func (p *Port) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if conn, ok := r.Context().Value(connKey{}).(*limitedConn); ok && r.ProtoMajor > 1 {
		defer conn.streams.serve()()
	}
	if h := p.handler.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	p.requestIDs.identify(w, r)
	if r.ContentLength != 0 && r.ProtoMajor == 1 {
		w.Header().Set(echo.HeaderConnection, "close") // so that net/http does not read the body
	}
	probe := r.Method == http.MethodGet || r.Method == http.MethodHead
	switch {
	case probe && r.URL.Path == "/healthz":
		p.brief.respond(w, r, http.StatusOK, echo.MIMETextPlainCharsetUTF8, healthy)
	case probe && r.URL.Path == "/readyz":
		readiness := p.starting()
		p.brief.respond(w, r, http.StatusServiceUnavailable, echo.MIMEApplicationJSON,
			append(readiness.append(nil), '\n'))
	default:
		p.brief.refuse(w, r, problemOf(&clock.Error{
			Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second,
			Detail: "the node is starting; /readyz says what it waits for",
		}))
	}
}

func (p *Port) starting() Readiness {
	r := Readiness{Checks: []Check{{Name: "process", Status: "failing", Detail: "starting"}}}
	if c := p.waitsFor.Load(); c != nil {
		r.Checks = append(r.Checks, *c)
	}
	return r
}

// briefResponses writes small responses whose memory does not count. A client of HTTP/2 may not read. Then a body waits
// for the stream's window, and the headers wait for the connection. So only some responses have a body, some more have
// headers alone, and the others end their streams without waiting.
type briefResponses struct {
	writeTimeout time.Duration
	waiting      atomic.Int64 // responses that their clients have not taken
}

// maxBrief is the number of brief responses that may wait for their clients with a body. As many may wait without a
// body.
const maxBrief = 128

func (b *briefResponses) respond(w http.ResponseWriter, r *http.Request, status int, contentType string, body []byte) {
	waiting := b.waiting.Add(1)
	defer b.waiting.Add(-1)
	if waiting > 2*maxBrief {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set(echo.HeaderCacheControl, "no-store")
	if waiting > maxBrief {
		w.WriteHeader(status)
	} else {
		w.Header().Set(echo.HeaderContentType, contentType)
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}
	flushWithin(w, r, b.writeTimeout)
}

func (b *briefResponses) refuse(w http.ResponseWriter, r *http.Request, p *problem) {
	w.Header().Set("Retry-After", strconv.FormatInt(p.retrySeconds(), 10))
	b.respond(w, r, p.Status, problemJSON, append(p.append(nil, requestID(r)), '\n'))
}
