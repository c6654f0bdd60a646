package grpc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/targettest"
)

// connKey is the key of a request's connection in its context.
type connKey struct{}

// startCutting starts a server that speaks HTTP/2 in plain text, and returns its URL. The function cut closes the
// connection of a request.
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
		b.point("shop", address, func(m *Method) { m.Metadata = map[string]string{name: "key"} })
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

// startResetting starts a server that resets its first call with a code of HTTP/2, and takes the others. It returns its
// URL.
func startResetting(t *testing.T, code http2.ErrCode, calls *atomic.Int32) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer func() { _ = conn.Close() }()
				defer context.AfterFunc(t.Context(), func() { _ = conn.Close() })()
				serveResetting(conn, code, calls)
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		serving.Wait()
	})
	return "http://" + l.Addr().String()
}

// serveResetting serves a connection until its end.
func serveResetting(conn net.Conn, code http2.ErrCode, calls *atomic.Int32) {
	var reply bytes.Buffer
	encoder := hpack.NewEncoder(&reply)
	for _, f := range [][2]string{{":status", "200"}, {"content-type", "application/grpc"}, {"grpc-status", "0"}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	targettest.ServeFrames(conn, func(framer *http2.Framer, frame http2.Frame) {
		f, is := frame.(*http2.DataFrame)
		switch {
		case !is || !f.StreamEnded():
		case calls.Add(1) == 1:
			_ = framer.WriteRSTStream(f.StreamID, code)
		default:
			_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: reply.Bytes(),
				EndHeaders: true, EndStream: true})
		}
	})
}

// net/http repeats calls that the server has reset with some codes. A ring that rings at most once is in doubt instead.
func TestOnlyCallsOfRingsThatMayRepeatAreRepeatedAfterReset(t *testing.T) {
	for _, c := range []struct {
		delivery clock.DeliveryMode
		code     http2.ErrCode
		want     clock.OutcomeKind
		calls    int32
	}{
		{clock.AtLeastOnce, http2.ErrCodeRefusedStream, clock.Confirmed, 2},
		{clock.AtMostOnce, http2.ErrCodeRefusedStream, clock.Doubtful, 1},
		{clock.AtMostOnce, http2.ErrCodeProtocol, clock.Doubtful, 1},
	} {
		t.Run(fmt.Sprint(c.delivery, " ", c.code), func(t *testing.T) {
			var calls atomic.Int32
			b := openTarget(t)
			b.point("shop", startResetting(t, c.code, &calls),
				func(m *Method) { m.Metadata = map[string]string{"idempotency-key": "key"} })
			r := testRing()
			r.Delivery = c.delivery
			if o := b.deliver(r); o.Kind != c.want || o.Counted != (c.want == clock.Doubtful) ||
				calls.Load() != c.calls {
				t.Errorf("%+v after %d calls, want %s after %d", o, calls.Load(), c.want, c.calls)
			}
		})
	}
}
