package ringstream

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// Deadline bounds each write of one response. Begin and End are called around each write, by one goroutine at a time.
type Deadline struct {
	conn    *http.ResponseController
	timeout time.Duration // longest time of one write
	stream  bool          // the response is a stream of HTTP/2, which a passed deadline resets even if nothing is being written

	mu      sync.Mutex
	writing bool
	end     context.Context //nolint:containedctx // when it ends, no further byte may be written
}

// NewDeadline returns the Deadline of the response to a request.
func NewDeadline(w http.ResponseWriter, r *http.Request, timeout time.Duration) *Deadline {
	return &Deadline{conn: http.NewResponseController(w), timeout: timeout, stream: r.ProtoMajor > 1,
		end: context.Background()}
}

// Begin begins a write and sets its deadline. It returns an error if no further byte may be written; see EndWith.
func (d *Deadline) Begin() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing = true
	_ = d.conn.SetWriteDeadline(time.Now().Add(d.timeout)) // only test recorders do not support it
	return d.end.Err()                                     // after the line above, which may have replaced the deadline of EndWith
}

// End ends a write. On HTTP/2 it clears the deadline of a write that has succeeded. On HTTP/1.1 the deadline stays for
// the bytes that net/http writes after the handler.
func (d *Deadline) End(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.writing = false
	if d.stream && err == nil {
		_ = d.conn.SetWriteDeadline(time.Time{})
	}
}

// EndWith makes writes fail when ctx ends, also one that has begun, until release is called. A nil ctx never ends.
func (d *Deadline) EndWith(ctx context.Context) (release func()) {
	if ctx == nil {
		return func() {}
	}
	d.endWith(ctx)
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		d.endWrite()
	})
	return func() {
		if !stop() {
			<-ended // else it could end a later write
		}
		d.endWith(context.Background())
	}
}

func (d *Deadline) endWith(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.end = ctx
}

// endWrite makes the write that has begun fail, if there is one.
func (d *Deadline) endWrite() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.writing {
		_ = d.conn.SetWriteDeadline(time.Unix(1, 0))
	}
}
