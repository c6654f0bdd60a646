package wire

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/clockd/clockd/ring"
)

// ErrTooLate breaks a connection when the write limit of its rings has passed.
var ErrTooLate = errors.New("the write limit had passed")

// errKilled is the error of every write after kill.
var errKilled = errors.New("the connection was given up")

// wire is the net.Conn under a connection. It bounds the time of every write and gathers the writes of a delivery. It
// refuses writes after the write limit, and counts the bytes that the operating system took.
//
// The library writes from several goroutines (publisher, heartbeat, reader), one at a time under its own lock.
// beginDelivery and endDelivery do not take that lock. So mu is a write lock that spans the system call, as in net and
// crypto/tls. Only kill, Close and the deadlines work without it.
type wire struct {
	net.Conn
	timeout time.Duration // for writes outside a delivery

	mu       sync.Mutex
	buf      []byte      // gathered bytes; empty outside a delivery
	gather   bool        // true during a delivery: writes are gathered up to cap(buf)
	limits   ring.Limits // limits of the delivery; zero outside a delivery
	accepted int64       // bytes accepted from the library and the mux
	written  int64       // bytes that the operating system took
	writes   int         // writes since beginDelivery
	broken   error       // the first failure; nothing is written after it
}

func newWire(conn net.Conn, timeout time.Duration, gatherBytes int) *wire {
	return &wire{Conn: conn, timeout: timeout, buf: make([]byte, 0, gatherBytes)}
}

// Write accepts frames. It gathers them during a delivery and sends them at once otherwise.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.broken != nil {
		return 0, w.broken
	}
	w.accepted += int64(len(p))
	if err := w.writeOrGather(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *wire) writeOrGather(p []byte) error {
	if !w.gather {
		return w.send(p)
	}
	if len(w.buf)+len(p) > cap(w.buf) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if len(p) >= cap(w.buf) { // also if gathering is off
		return w.send(p)
	}
	w.buf = append(w.buf, p...)
	return nil
}

// beginDelivery starts a delivery. From now on writes are gathered, and nothing is sent at the write limit or later.
func (w *wire) beginDelivery(limits ring.Limits) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gather, w.limits, w.writes = true, limits, 0
}

// endDelivery sends the gathered bytes and ends the delivery. It returns the number of the delivery's writes. The error
// is the first error of any write of the connection; the connection is closed then.
func (w *wire) endDelivery() (writes int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	err = w.flush()
	w.gather, w.limits = false, ring.Limits{}
	return w.writes, err
}

// mark returns the current position in the stream: the number of accepted bytes. Later writes lie behind it.
func (w *wire) mark() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.accepted
}

// sent returns the position in the stream up to which the operating system took bytes. It stays the same once the wire
// is broken.
func (w *wire) sent() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written
}

// failure returns the error that broke the wire, nil if it is not broken.
func (w *wire) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.broken
}

// kill resets the socket, so that a blocked write or read ends at once. The reset drops the bytes in the operating
// system's buffer: no byte of an abandoned ring may reach the broker later. Any goroutine may call kill, any number of
// times.
func (w *wire) kill() {
	w.reset()
	w.mu.Lock() // the reset has ended any write that held the lock
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
	limits := w.limits
	if limits.WriteBy.IsZero() {
		limits.WriteBy = time.Now().Add(w.timeout)
	}
	if err := w.SetWriteDeadline(limits.WriteBy); err != nil {
		return w.fail(err)
	}
	n, err := ring.WriteWhile(w.Conn, p, func() error {
		if limits.TooLateToWrite() {
			return ErrTooLate
		}
		return nil
	})
	w.written += int64(n)
	w.writes++
	if err != nil {
		return w.fail(err)
	}
	return nil
}

// fail breaks the wire. The reset ends the library's reader, and the reader ends the connection.
func (w *wire) fail(err error) error {
	if w.broken == nil {
		w.broken = err
		w.buf = w.buf[:0]
		w.reset()
	}
	return w.broken
}
