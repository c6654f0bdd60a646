package webhook

import (
	"bytes"
	"crypto/tls"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/targettest"
)

// firstWindow is the window of a new connection of HTTP/2, in bytes (RFC 9113, 6.9.2).
const firstWindow = 65_535

// narrowServer is a server of HTTP/2 that never widens the window of a connection. It answers requests that arrive
// whole. When a body has used up the window, the server calls onUsedUp with the stream of the request.
type narrowServer struct {
	requests atomic.Int32 // requests that have begun
	onUsedUp func(conn *tls.Conn, framer *http2.Framer, stream uint32)
}

// serve serves a connection until its end.
func (s *narrowServer) serve(_ *http.Server, conn *tls.Conn, _ http.Handler) {
	var head bytes.Buffer
	_ = hpack.NewEncoder(&head).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	received := 0
	targettest.ServeFrames(conn, func(framer *http2.Framer, frame http2.Frame) {
		switch f := frame.(type) {
		case *http2.HeadersFrame:
			s.requests.Add(1)
		case *http2.DataFrame:
			if received += int(f.Length); f.StreamEnded() {
				_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: head.Bytes(),
					EndHeaders: true, EndStream: true})
			} else if received == firstWindow {
				s.onUsedUp(conn, framer, f.StreamID)
			}
		}
	})
}

// large returns a ring that rings at most once. The bodies of two such rings do not fit the window.
func large(application string) clock.Ring {
	r := rings(application, 1)[0]
	r.Payload, r.PayloadKind, r.Delivery = []byte(strings.Repeat("a", 40_000)), clock.Text, clock.AtMostOnce
	return r
}

// A ring that rings at most once does not arrive whole, because the body of another application has used up the window
// of the connection. Its alarm is rung and in doubt, and there is no further request, although net/http repeats a
// request that the receiver has reset with some codes.
func TestRingThatDoesNotArriveWholeIsInDoubt(t *testing.T) {
	t.Parallel()
	reset := func(code http2.ErrCode) func(*tls.Conn, *http2.Framer, uint32) {
		return func(_ *tls.Conn, framer *http2.Framer, stream uint32) { _ = framer.WriteRSTStream(stream, code) }
	}
	for _, c := range []struct {
		name     string
		onUsedUp func(conn *tls.Conn, framer *http2.Framer, stream uint32)
		endWait  bool // the wait for the reply ends when the window is used up
	}{
		{"the connection is cut", func(conn *tls.Conn, _ *http2.Framer, _ uint32) { _ = conn.Close() }, false},
		{"the request is reset", reset(http2.ErrCodeCancel), false},
		{"the request is reset as a protocol error", reset(http2.ErrCodeProtocol), false},
		{"the wait is ended", func(*tls.Conn, *http2.Framer, uint32) {}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			usedUp := make(chan struct{}, 100)
			narrow := &narrowServer{onUsedUp: func(conn *tls.Conn, framer *http2.Framer, stream uint32) {
				c.onUsedUp(conn, framer, stream)
				usedUp <- struct{}{}
			}}
			server, trust := secureServer(t, nil, true, func(s *http.Server) {
				s.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){"h2": narrow.serve}
			})
			b := openTarget(t, trust, dialTo(server))
			if c.endWait {
				b.SetPatience(time.Millisecond, time.Minute)
			}
			for _, name := range []string{"other", "shop"} {
				b.point(name, "https://example.com/rings", func(e *Endpoint) { e.Timeout = time.Minute })
			}
			wantKinds(t, b.deliver(large("other")), clock.Confirmed)
			b.waitForSlots() // so the next request uses the same connection
			r := large("shop")
			var o clock.Outcome
			if c.endWait {
				_, late := b.deliverShared(r)
				<-usedUp
				late.End()
				o = late.Outcomes()[0]
			} else {
				o = b.deliver(r)[0]
			}
			if o.Kind != clock.Doubtful || o.Counted == c.endWait {
				t.Errorf("got %+v", o)
			}
			if fate := clock.FateOf(&r, o, r.RungAt); fate.State != clock.Rung || !fate.InDoubt {
				t.Errorf("the alarm is %s, in doubt %t", fate.State, fate.InDoubt)
			}
			b.Close()
			server.Close()
			if n := narrow.requests.Load(); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}
