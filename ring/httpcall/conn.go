package httpcall

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http/httptrace"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/ring"
)

// ErrTooLate is the error of a write that would come after ring.Limits.WriteBy.
var ErrTooLate = errors.New("the time to write the ring was over")

// ringConn is a connection that writes no byte of a ring after the write limit of its batch. A connection of HTTP/1 has
// one request at a time. A connection of HTTP/2 may write several rings at once: it fails as a whole if a single ring
// is too late. That happens only to a process that was stopped, and if the receiver reads nothing, because each call
// cancels its request some time before the limit. A write that the receiver does not read ends at the limit too, and
// the connection with it. Connections to other hosts go on.
type ringConn struct {
	net.Conn

	http2 bool // the connection in plain text speaks HTTP/2 (DialHTTP2)

	mu       sync.Mutex
	writing  map[*RequestWrite]struct{} // rings whose requests are being written
	deadline time.Time                  // write deadline that the HTTP client has set; zero: none
	limit    time.Time                  // earliest write limit of the rings in the present write; zero: none
}

// Write writes p as long as no ring that is being written is too late. It ends at the first write limit of these rings.
func (c *ringConn) Write(p []byte) (int, error) {
	var writes []*RequestWrite
	n, err := ring.WriteWhile(c.Conn, p, func() (err error) {
		writes, err = c.begin(writes)
		return err
	})
	c.setLimit(time.Time{})
	if n == 0 {
		for _, w := range writes {
			w.begun.Add(-1)
		}
	}
	return n, err
}

// SetWriteDeadline sets the deadline of the HTTP client. The write limit of a ring that is being written comes first if
// it is earlier.
func (c *ringConn) SetWriteDeadline(deadline time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.deadline = deadline
	return c.Conn.SetWriteDeadline(earlier(c.deadline, c.limit))
}

// setLimit sets the write limit of the present write.
func (c *ringConn) setLimit(limit time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.applyLimit(limit)
}

// applyLimit does the work of setLimit. The caller holds mu.
func (c *ringConn) applyLimit(limit time.Time) {
	if c.limit.Equal(limit) {
		return
	}
	c.limit = limit
	_ = c.Conn.SetWriteDeadline(earlier(c.deadline, c.limit)) // an error comes again with the write
}

// earlier returns the earlier of two deadlines. Zero is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// begin notes for each ring that is being written that a byte of it may leave now, once for each call of Write: noted
// has the rings that the call has noted before. The write gets the earliest limit of the rings. After an error no
// further byte may leave. The result has all noted rings.
func (c *ringConn) begin(noted []*RequestWrite) ([]*RequestWrite, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var limit time.Time
	for w := range c.writing {
		if w.limits.TooLateToWrite() {
			return noted, ErrTooLate
		}
		limit = earlier(limit, w.limits.WriteBy)
	}
	c.applyLimit(limit)
	for w := range c.writing {
		if !slices.Contains(noted, w) {
			noted = append(noted, w)
			w.begun.Add(1)
		}
	}
	return noted, nil
}

// RequestWrite is the write of one ring's request, on whatever connection the HTTP client chooses.
type RequestWrite struct {
	limits   ring.Limits
	onRepeat func()       // called before the HTTP client repeats a request of which a byte may have left; nil: it may repeat it
	begun    atomic.Int32 // writes in which a byte of the request may have left this process

	mu      sync.Mutex
	conn    *ringConn // connection of the present try; nil: none yet
	http2   bool      // the connection speaks HTTP/2
	started bool      // start was called for the present try
	written bool      // the HTTP client has handed over the whole request; with HTTP/1 it may still be in the client's buffer
}

// trace follows the write of the request. GotConn comes before any byte of it, and again when the client tries another
// connection.
func (w *RequestWrite) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if w.onRepeat != nil && w.begun.Load() > 0 {
				w.onRepeat()
			}
			w.Use(info.Conn, speaksHTTP2(info.Conn))
		},
		WroteHeaderField: func(string, []string) { w.start() },
		WroteRequest:     func(info httptrace.WroteRequestInfo) { w.finish(info.Err) },
	}
}

// speaksHTTP2 reports whether a connection of Target.Dial, DialHTTP2 or DialTLS speaks HTTP/2.
func speaksHTTP2(conn net.Conn) bool {
	switch c := conn.(type) {
	case *tls.Conn:
		return c.ConnectionState().NegotiatedProtocol == "h2"
	case *ringConn:
		return c.http2
	}
	return false
}

// Use notes that the request goes to conn next. A transport of net/http calls it by itself; the user of a
// http.ClientConn calls it.
func (w *RequestWrite) Use(conn net.Conn, http2 bool) {
	w.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written, w.http2, w.started = false, http2, false
	if c, ok := conn.(*tls.Conn); ok {
		conn = c.NetConn()
	}
	w.conn, _ = conn.(*ringConn)
}

// start is called before the first byte of the request is written, and before each header.
func (w *RequestWrite) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil || w.started {
		return
	}
	w.started = true
	w.conn.mu.Lock()
	defer w.conn.mu.Unlock()
	if w.conn.writing == nil {
		w.conn.writing = map[*RequestWrite]struct{}{}
	}
	if !w.http2 { // the request before was written, or it would not have freed the connection
		clear(w.conn.writing)
	}
	w.conn.writing[w] = struct{}{}
}

// finish is called when the HTTP client has handed over the request, or when its write failed.
func (w *RequestWrite) finish(err error) {
	w.mu.Lock()
	w.written = err == nil
	http2 := w.http2
	w.mu.Unlock()
	if http2 {
		w.end()
	}
}

// leave is called at the end of the request.
func (w *RequestWrite) leave() { w.end() }

// end is called when no further byte of the request will be written to the present connection.
func (w *RequestWrite) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil {
		return
	}
	w.conn.mu.Lock()
	defer w.conn.mu.Unlock()
	if _, writing := w.conn.writing[w]; !writing {
		return
	}
	delete(w.conn.writing, w)
}

// WasWritten reports whether the HTTP client has handed over the whole request.
func (w *RequestWrite) WasWritten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

// connected reports whether the request ever had a connection.
func (w *RequestWrite) connected() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conn != nil
}
