package client_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/clockd/clockd/client"
)

// faultyServer stands before the real service. It spoils the first requests, one fault each, and passes the others on.
type faultyServer struct {
	next http.Handler

	mu     sync.Mutex
	faults []fault
	asked  []string // method and path of each request
}

// fault handles a request instead of the service, or spoils its response.
type fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

func (f *faultyServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	f.asked = append(f.asked, r.Method+" "+r.URL.Path)
	handle := fault(func(w http.ResponseWriter, r *http.Request, next http.Handler) { next.ServeHTTP(w, r) })
	if len(f.faults) > 0 {
		handle, f.faults = f.faults[0], f.faults[1:]
	}
	f.mu.Unlock()
	handle(w, r, f.next)
}

// tries returns the number of requests.
func (f *faultyServer) tries() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

// faulty returns a client whose first tries meet these faults, and the server.
func faulty(t *testing.T, faults []fault, options ...client.Option) (*client.Client, *faultyServer) {
	t.Helper()
	target, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite:  func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}
	f := &faultyServer{next: proxy, faults: slices.Clone(faults)}
	server := httptest.NewUnstartedServer(f)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // the faults are on purpose
	server.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, conn)
	}
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	return dial(t, server.URL, options...), f
}

// cut closes the connection before the service sees the request.
func cut(http.ResponseWriter, *http.Request, http.Handler) { panic(http.ErrAbortHandler) }

// lose lets the service answer, and closes the connection in place of the response.
func lose(_ http.ResponseWriter, r *http.Request, next http.Handler) {
	next.ServeHTTP(httptest.NewRecorder(), r)
	panic(http.ErrAbortHandler)
}

// half sends the first half of the service's response, then closes the connection.
func half(w http.ResponseWriter, r *http.Request, next http.Handler) {
	recorded := httptest.NewRecorder()
	next.ServeHTTP(recorded, r)
	w.Header().Set("Content-Length", recorded.Header().Get("Content-Length"))
	w.WriteHeader(recorded.Code)
	_, _ = w.Write(recorded.Body.Bytes()[:recorded.Body.Len()/2])
	_ = http.NewResponseController(w).Flush()
	panic(http.ErrAbortHandler)
}

// stall does not answer until the client leaves.
func stall(_ http.ResponseWriter, r *http.Request, _ http.Handler) {
	_, _ = io.Copy(io.Discard, r.Body) // the server notices a client that leaves only after the body
	<-r.Context().Done()
	panic(http.ErrAbortHandler)
}

// respond sends a status, headers in pairs, and a body.
func respond(status int, body string, headers ...string) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) {
		for pair := range slices.Chunk(headers, 2) {
			w.Header().Set(pair[0], pair[1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// busy is the response of a service without room.
func busy(code, retryAfter string) fault {
	return respond(503, `{"title":"x","status":503,"code":"`+code+`","detail":"busy"}`, "Content-Type",
		"application/problem+json", "Retry-After", retryAfter)
}

func times(n int, f fault) []fault { return slices.Repeat([]fault{f}, n) }

// manyBytes is longer than any response that the client reads.
var manyBytes = strings.Repeat("x", 17<<20)
