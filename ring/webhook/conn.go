package webhook

import (
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/clockd/clockd/ring"
)

// errTooLate is the error of a write that would come after ring.Limits.WriteBy.
var errTooLate = errors.New("the time to write the ring was over")

// ringConn is a connection that writes no byte of a ring after the write limit of its batch. A connection of HTTP/1 has one request at a time, and a
// write deadline with it. A connection of HTTP/2 writes several rings at once: it fails as a whole if a single ring is too late. That happens only
// to a process that was stopped, because each call cancels its request some time before the limit.
type ringConn struct {
	net.Conn

	mu      sync.Mutex
	writing map[*ringWrite]struct{} // rings whose requests are being written
}

// Write writes p if no ring that is being written is too late.
func (c *ringConn) Write(p []byte) (int, error) {
	writes, err := c.begin()
	if err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if n == 0 {
		for _, w := range writes {
			w.begun.Add(-1)
		}
	}
	return n, err
}

// begin notes for each ring that is being written that its first byte may leave now.
func (c *ringConn) begin() ([]*ringWrite, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var writes []*ringWrite
	for w := range c.writing {
		if w.limits.TooLateToWrite() {
			return nil, errTooLate
		}
		writes = append(writes, w)
	}
	for _, w := range writes {
		w.begun.Add(1)
	}
	return writes, nil
}

// ringWrite is the write of one ring's request, on whatever connection the HTTP client chooses.
type ringWrite struct {
	limits ring.Limits
	begun  atomic.Int32 // writes in which a byte of the request may have left this process

	mu      sync.Mutex
	conn    *ringConn // connection of the present try; nil: none yet
	shared  bool      // the connection may write other requests at the same time (HTTP/2)
	written bool      // the HTTP client has handed over the whole request; with HTTP/1 it may still be in the client's buffer
}

// use notes that the request goes to conn next.
func (w *ringWrite) use(conn net.Conn) {
	w.end()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written, w.shared = false, false
	if c, ok := conn.(*tls.Conn); ok {
		w.shared = c.ConnectionState().NegotiatedProtocol == "h2"
		conn = c.NetConn()
	}
	w.conn, _ = conn.(*ringConn)
}

// start is called before the first byte of the request is written.
func (w *ringWrite) start() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conn == nil {
		return
	}
	w.conn.mu.Lock()
	defer w.conn.mu.Unlock()
	if w.conn.writing == nil || !w.shared { // the request before was written, or it would not have freed the connection
		w.conn.writing = map[*ringWrite]struct{}{}
	}
	w.conn.writing[w] = struct{}{}
	if !w.shared {
		_ = w.conn.SetWriteDeadline(w.limits.WriteBy) // an error comes again with the write
	}
}

// finish is called when the HTTP client has handed over the request, or when its write failed.
func (w *ringWrite) finish(err error) {
	w.mu.Lock()
	w.written = err == nil
	shared := w.shared
	w.mu.Unlock()
	if shared {
		w.end()
	}
}

// end is called when no further byte of the request will be written to the present connection.
func (w *ringWrite) end() {
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
	if !w.shared {
		_ = w.conn.SetWriteDeadline(time.Time{})
	}
}

// wasWritten reports whether the HTTP client has handed over the whole request.
func (w *ringWrite) wasWritten() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

// connected reports whether the request ever had a connection.
func (w *ringWrite) connected() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.conn != nil
}
