package rabbit

import (
	"errors"
	"net"
	"sync"
	"time"
)

// errTooLate breaks a connection on which a ring would be written after its limit.
var errTooLate = errors.New("the time to write had passed")

// errKilled is what a write meets after kill.
var errKilled = errors.New("the connection was given up")

// wire is the net.Conn under a connection. It bounds every write in time, gathers the writes of a delivery, refuses
// those that come too late, and knows which bytes have left the process.
//
// The library writes from several goroutines (publisher, heartbeat, reader), one at a time under a lock of its own; a
// delivery's begin and end come in beside them. So mu is a write lock, held over the system call as in net and
// crypto/tls. Only kill, Close and the deadlines go past it.
type wire struct {
	net.Conn
	timeout time.Duration // for writes outside a delivery

	mu       sync.Mutex
	buf      []byte    // gathered, in a delivery only
	gather   bool      // in a delivery: collect up to cap(buf)
	limit    time.Time // in a delivery: when writing ends; else zero
	accepted int64     // bytes taken from the library
	written  int64     // bytes that the operating system took
	writes   int       // sent since begin
	broken   error     // the first failure; nothing is written after it
}

func newWire(conn net.Conn, timeout time.Duration, gatherBytes int) *wire {
	return &wire{Conn: conn, timeout: timeout, buf: make([]byte, 0, gatherBytes)}
}

// Write takes frames from the library: collects them in a delivery, sends them otherwise.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return 0, w.broken
	}
	w.accepted += int64(len(p))
	if err := w.take(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *wire) take(p []byte) error {
	if !w.gather {
		return w.send(p)
	}
	if len(w.buf)+len(p) > cap(w.buf) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(p) >= cap(w.buf) { // also where gathering is off
		return w.send(p)
	}
	w.buf = append(w.buf, p...)
	return nil
}

// begin starts a delivery: what is written from now on is gathered, and never sent at limit or later.
func (w *wire) begin(limit time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gather, w.limit, w.writes = true, limit, 0
}

// end sends what is gathered and ends the delivery. It returns how many writes the delivery took. Its error is the first
// that any write of the connection had; the connection is closed then.
func (w *wire) end() (writes int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err = w.flush()
	w.gather, w.limit = false, time.Time{}
	return w.writes, err
}

// mark returns a place in the stream: all that is written later lies behind it.
func (w *wire) mark() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accepted
}

// sent returns the place up to which bytes have left. On a broken wire it does not move any more.
func (w *wire) sent() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

// failure returns what broke the wire, nil while it can be written to.
func (w *wire) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// kill closes the socket so that a blocked write or read ends at once. What waits in the operating system's buffer is
// dropped (a reset): nothing of a ring that is given up shall be handed over later. Any goroutine, any number of times.
func (w *wire) kill() {
	w.reset()
	w.mu.Lock() // a write that was on its way has ended by the close
	defer w.mu.Unlock()
	_ = w.fail(errKilled)
}

func (w *wire) reset() {
	if tcp, ok := w.Conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed socket
	}
	_ = w.Close()
}

func (w *wire) flush() error {
	if w.broken != nil || len(w.buf) == 0 {
		return w.broken
	}
	p := w.buf
	w.buf = w.buf[:0]
	return w.send(p)
}

// send is the only place that writes to the socket.
func (w *wire) send(p []byte) error {
	deadline := w.limit
	if deadline.IsZero() {
		deadline = time.Now().Add(w.timeout)
	}
	if err := w.SetWriteDeadline(deadline); err != nil {
		return w.fail(err)
	}
	n, err := writeUntil(w.Conn, p, deadline)
	w.written += int64(n)
	w.writes++
	if err != nil {
		return w.fail(err)
	}
	return nil
}

// fail breaks the wire. Closing the socket ends the library's reader, and that its connection.
func (w *wire) fail(err error) error {
	if w.broken == nil {
		w.broken = err
		w.buf = w.buf[:0]
		w.reset()
	}
	return w.broken
}
