package grpc

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/clockd/clockd/clock"
)

// connKey is the key of a request's connection in its context.
type connKey struct{}

// startCutting starts a server that speaks HTTP/2 in plain text, and returns its URL. The function cut closes the connection of a request.
func startCutting(t *testing.T, handle func(w http.ResponseWriter, r *http.Request, cut func())) string {
	t.Helper()
	return startHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		handle(w, r, func() { _ = r.Context().Value(connKey{}).(net.Conn).Close() })
	}, func(s *httptest.Server) {
		s.Config.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn)
		}
	})
}

// replyOK writes the reply of a server that has taken the call.
func replyOK(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/grpc")
	w.Header().Set("Grpc-Status", "0")
}

// A call that a server may have got is not repeated, whatever metadata its method has.
func TestCallWithAnIdempotencyKeyIsNotRepeated(t *testing.T) {
	for _, name := range []string{"idempotency-key", "x-idempotency-key"} {
		b := openTarget(t)
		var calls atomic.Int32
		keys := make(chan string, 100)
		address := startCutting(t, func(w http.ResponseWriter, r *http.Request, cut func()) {
			n := calls.Add(1)
			keys <- r.Header.Get(name)
			_, _ = io.Copy(io.Discard, r.Body)
			if replyOK(w); n == 2 {
				cut() // the connection was used before, and ends without a response
			}
		})
		b.point("shop", address, func(m *clock.GRPC) { m.Metadata = map[string]string{name: "key"} })
		if o := b.deliver(testRing()); o.Kind != clock.Confirmed {
			t.Errorf("%s: %+v", name, o)
		}
		if o := b.deliver(testRing()); o.Kind != clock.Doubtful || !o.Counted {
			t.Errorf("%s: %+v", name, o)
		}
		if calls.Load() != 2 {
			t.Errorf("%s: %d calls, want 2", name, calls.Load())
		}
		if key := <-keys; key != "key" {
			t.Errorf("%s: the server got the key %q", name, key)
		}
	}
}
