package front

import (
	"context"
	"net/http"
	"sync"

	"github.com/clockd/clockd/clock"
)

var _ clock.Flushed = flushed{}

// writeCount numbers the writes of a connection to the kernel, from 1 on. Safe for concurrent use.
type writeCount struct {
	mu    sync.Mutex
	begun uint64        // number of the latest write that has begun
	ended uint64        // highest number of a write that has ended without an error
	next  chan struct{} // closed when ended rises; nil: no one waits
}

// begin returns the number of a write that begins now.
func (c *writeCount) begin() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun++
	return c.begun
}

// end notes that a write has ended without an error.
func (c *writeCount) end(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = max(c.ended, number)
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// latest returns the number of the latest write that has begun.
func (c *writeCount) latest() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.begun
}

// endedAfter reports whether a write after that number has ended without an error. If not, the channel is closed when
// that may have changed.
func (c *writeCount) endedAfter(number uint64) (ended bool, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended > number {
		return true, nil
	}
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return false, c.next
}

// flushed is a moment at which the response to a request was flushed. On HTTP/2 a flush ends when the bytes are in a
// buffer that all streams of the connection share. If the process dies then, they are lost. But when a write of the
// connection to the kernel that began after the flush has ended, it or an earlier one had the bytes.
type flushed struct {
	conn  *conn  // nil: the flush itself wrote the bytes to the kernel
	write uint64 // latest write that had begun
}

// Flushed returns a mark of what the response to r has flushed before the call.
func Flushed(r *http.Request) clock.Flushed {
	c := connOf(r)
	if c == nil || r.ProtoMajor == 1 {
		return flushed{}
	}
	return flushed{c, c.writes.latest()}
}

// Written reports whether the kernel has the bytes for certain.
func (f flushed) Written() bool {
	if f.conn == nil {
		return true
	}
	written, _ := f.conn.writes.endedAfter(f.write)
	return written
}

// Await returns when the kernel has the bytes for certain, or with the error of ctx. It needs a further flush on the
// same connection.
func (f flushed) Await(ctx context.Context) error {
	for f.conn != nil {
		written, changed := f.conn.writes.endedAfter(f.write)
		if written {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
