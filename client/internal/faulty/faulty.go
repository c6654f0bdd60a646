// Package faulty stands before a clockd and spoils requests, for the tests of the clients.
package faulty

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
)

// Fault handles a request instead of the service, or spoils its response.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// Server spoils its first requests, one fault each, and passes the others on to a service.
type Server struct {
	URL string

	next   http.Handler
	server *httptest.Server
	idle   func()

	mu     sync.Mutex
	faults []Fault
	asked  []string
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// Conn returns the connection of a request that a fault got.
func Conn(r *http.Request) net.Conn {
	conn, _ := r.Context().Value(connKey{}).(net.Conn) // each request of a Server has one
	return conn
}

// Start returns a server before the service at a URL.
func Start(service string, faults ...Fault) (*Server, error) {
	target, err := url.Parse(service)
	if err != nil {
		return nil, err
	}
	silent := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // the faults are on purpose
	transport := &http.Transport{}
	s := &Server{
		idle: transport.CloseIdleConnections, faults: slices.Clone(faults),
		next: &httputil.ReverseProxy{
			Transport: transport, FlushInterval: -1, ErrorLog: silent,
			Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		},
	}
	s.server = httptest.NewUnstartedServer(s)
	s.server.Config.ErrorLog = silent
	s.server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	s.server.Start()
	s.URL = s.server.URL
	return s, nil
}

// Close cuts all connections, and waits for the requests.
func (s *Server) Close() {
	s.server.CloseClientConnections()
	s.server.Close()
	s.idle()
}

// ServeHTTP handles a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	handle := Fault(func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) })
	if len(s.faults) > 0 {
		handle, s.faults = s.faults[0], s.faults[1:]
	}
	s.mu.Unlock()
	handle(w, r, s.next)
}

// Asked returns the method and the path of each request.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Cut closes the connection before the service sees the request.
func Cut(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// Lose lets the service answer, and closes the connection in place of the response.
func Lose(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// Half sends the first half of the service's response, then closes the connection.
func Half(w http.ResponseWriter, r *http.Request, next http.Handler) {
	recorded := httptest.NewRecorder()
	next.ServeHTTP(recorded, r)
	w.Header().Set("Content-Length", recorded.Header().Get("Content-Length"))
	w.WriteHeader(recorded.Code)
	_, _ = w.Write(recorded.Body.Bytes()[:recorded.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// Stall does not answer until the client leaves.
func Stall(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body) // the server notices a client that leaves only after the body
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// Respond returns a fault that sends a status, headers in pairs, and a body.
func Respond(status int, body string, headers ...string) Fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for pair := range slices.Chunk(headers, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// ErrCut is the error of a writer that ends a stream on purpose.
var ErrCut = errors.New("cut by the test")

// Events returns a fault that passes a stream of events on, event by event, through a function. The stream ends with
// its first error.
func Events(pass func(to io.Writer, event []byte) error) Fault {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(&eventTap{ResponseWriter: w, pass: pass}, r)
	}
}

// eventTap passes a stream of events on, event by event.
type eventTap struct {
	http.ResponseWriter
	rest []byte
	pass func(to io.Writer, event []byte) error
}

// Unwrap gives the controller of the response its flush.
func (w *eventTap) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *eventTap) Write(p []byte) (int, error) {
	w.rest = append(w.rest, p...)
	for {
		event, rest, whole := bytes.Cut(w.rest, []byte("\n\n"))
		if !whole {
			return len(p), nil
		}
		w.rest = rest
		if err := w.pass(w.ResponseWriter, append(bytes.Clone(event), "\n\n"...)); err != nil {
			return 0, err
		}
	}
}

// IsRing reports whether an event of a stream is a ring.
func IsRing(event []byte) bool { return bytes.HasPrefix(event, []byte("event: ring")) }

// HalfRing returns a fault that cuts a stream of events in its first ring.
func HalfRing() Fault {
	return Events(func(to io.Writer, event []byte) error {
		if !IsRing(event) {
			_, err := to.Write(event)
			return err
		}
		_, _ = to.Write(event[:len(event)-3]) // all but the end of the object and the blank line
		return ErrCut
	})
}

// Copies returns a fault that sends each ring of a stream of events twice.
func Copies() Fault {
	return Events(func(to io.Writer, event []byte) error {
		if IsRing(event) {
			event = append(bytes.Clone(event), event...)
		}
		_, err := to.Write(event)
		return err
	})
}
