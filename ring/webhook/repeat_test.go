package webhook

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/clockd/clockd/clock"
)

// A request that a receiver may have got is not repeated, whatever headers and method its endpoint has.
func TestRequestThatMayHaveArrivedIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, name string }{
		{"POST", "Idempotency-Key"}, {"POST", "x-idempotency-key"}, {"GET", "x-key"}, {"GET", "Idempotency-Key"},
		{"DELETE", "x-key"}, {"PUT", "x-key"},
	} {
		name := c.name
		b := openTarget(t)
		var requests atomic.Int32
		keys := make(chan string, 100)
		b.raw("shop", func(_ int, conn net.Conn) {
			in := bufio.NewReader(conn)
			for n := 1; ; n++ {
				r, err := http.ReadRequest(in)
				if err != nil {
					return
				}
				requests.Add(1)
				keys <- r.Header.Get(name)
				if _, _ = io.Copy(io.Discard, r.Body); n == 2 {
					return // the connection was used before, and ends without a response
				}
				_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
			}
		})
		e := b.endpoints.get("shop")
		b.point("shop", e.URL, func(e *Endpoint) { e.Method, e.Headers = c.method, map[string]string{name: "key"} })
		wantKinds(t, b.deliver(rings("shop", 1)...), clock.Confirmed)
		b.waitForSlots()
		if got := b.deliver(rings("shop", 1)...)[0]; got.Kind != clock.Doubtful || !got.Counted {
			t.Errorf("%v: got %+v", c, got)
		}
		if requests.Load() != 2 {
			t.Errorf("%v: %d requests, want 2", c, requests.Load())
		}
		if key := <-keys; key != "key" {
			t.Errorf("%v: the receiver got the key %q", c, key)
		}
	}
}
