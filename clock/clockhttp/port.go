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
	"github.com/clockd/clockd/clock/front"
)

// Port is the listener of the HTTP interface with its connections. It serves requests from the beginning, while the
// node starts: probes learn why the node waits, and other requests are refused. Server.Attach hands all further
// requests to the server, also on open connections.
type Port struct {
	cfg        Config
	http       *http.Server
	listener   net.Listener
	certs      *front.Certificates          // nil without TLS
	metrics    *metricsPort                 // nil: Config.MetricsListen is empty
	handler    atomic.Pointer[http.Handler] // nil: the node starts
	waitsFor   atomic.Pointer[Check]        // nil: nothing is known
	requestIDs *front.RequestIDs
	brief      briefResponses

	ended chan struct{} // closed when the listener accepts no more connections
	err   error         // the reason, once ended is closed
}

// Listen opens the port. Close must be called, unless Run of an attached server has ended.
func Listen(ctx context.Context, cfg Config, log *slog.Logger, into prometheus.Registerer) (*Port, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	certs, err := front.NewCertificates(cfg.TLS, log, into)
	if err != nil {
		return nil, err
	}
	l, err := front.Listen(ctx, cfg.Config, certs, into)
	if err != nil {
		return nil, err
	}
	p := &Port{cfg: cfg, listener: l, certs: certs, requestIDs: front.NewRequestIDs(),
		brief: briefResponses{writeTimeout: cfg.WriteTimeout}, ended: make(chan struct{})}
	if cfg.MetricsListen != "" {
		if p.metrics, err = listenMetrics(ctx, cfg, p, log); err != nil {
			return nil, errors.Join(err, l.Close())
		}
	}
	p.http = front.NewServer(cfg.Config, p, log)
	go p.serve()
	return p, nil
}

func (p *Port) serve() {
	defer close(p.ended)
	p.err = fmt.Errorf("serve on %s: %w", p.cfg.Listen, p.http.Serve(p.listener))
}

// Addr returns the address of the listener.
func (p *Port) Addr() net.Addr { return p.listener.Addr() }

// MetricsAddr returns the address of the metrics port, nil without one.
func (p *Port) MetricsAddr() net.Addr {
	if p.metrics == nil {
		return nil
	}
	return p.metrics.listener.Addr()
}

// Certificates returns the certificates of the port, nil if it speaks plain HTTP.
func (p *Port) Certificates() *front.Certificates { return p.certs }

// Close ends the listener and all connections.
func (p *Port) Close() {
	_ = p.http.Close() // fails only because the listener is already closed
	<-p.ended
	if p.metrics != nil {
		p.metrics.close()
	}
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
	if h := p.handler.Load(); h != nil {
		(*h).ServeHTTP(w, r)
		return
	}
	p.requestIDs.Identify(w, r)
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
		p.brief.refuse(w, r, front.ProblemOf(&clock.Error{
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
	front.FlushWithin(w, r, b.writeTimeout)
}

func (b *briefResponses) refuse(w http.ResponseWriter, r *http.Request, p *front.Problem) {
	w.Header().Set("Retry-After", strconv.FormatInt(p.RetrySeconds(), 10))
	b.respond(w, r, p.Status, problemJSON, append(appendProblem(nil, p, front.RequestID(r)), '\n'))
}
