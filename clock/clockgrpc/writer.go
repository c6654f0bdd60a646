package clockgrpc

import (
	"context"
	"net/http"
	"sync"
	"time"
)

// responseWriter writes the response of a call. Each write has a deadline and counts in the host's memory. It keeps the first error, because
// connect drops the errors of flushes.
type responseWriter struct {
	call  *call
	inner http.ResponseWriter
	conn  *http.ResponseController
	err   error // first error of a write or a flush

	mu      sync.Mutex
	writing bool
	end     context.Context //nolint:containedctx // when it ends, no further byte may be written; nil: never
}

// writeBytes is the size of the parts in which a message is written. Each part has a deadline of its own.
const writeBytes = 256 << 10

// Header returns the header of the response.
func (w *responseWriter) Header() http.Header { return w.inner.Header() }

// WriteHeader sends the status.
func (w *responseWriter) WriteHeader(status int) { w.inner.WriteHeader(status) }

// Write writes a message, or a part of it.
func (w *responseWriter) Write(b []byte) (n int, err error) {
	w.call.s.host.ForceMemory(int64(len(b)))
	defer w.call.s.host.GiveMemory(int64(len(b)))
	for first := true; w.err == nil && (first || n < len(b)); first = false {
		if w.begin() {
			var part int
			part, w.err = w.inner.Write(b[n:min(len(b), n+writeBytes)])
			n += part
		}
	}
	w.endWrite()
	return n, w.err
}

// Flush sends the written bytes to the client.
func (w *responseWriter) Flush() {
	if w.err == nil && w.begin() {
		w.err = w.conn.Flush()
	}
	w.endWrite()
}

// begin begins a write and sets its deadline. It returns false if no further byte may be written.
func (w *responseWriter) begin() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = true
	_ = w.conn.SetWriteDeadline(time.Now().Add(w.call.s.cfg.WriteTimeout)) // only test recorders do not support it
	if w.end != nil {
		w.err = w.end.Err() // after the line above, which may have replaced the deadline of endWith
	}
	return w.err == nil
}

// endWith makes a write fail when ctx ends, until the returned function is called. A nil ctx never ends. It leaves a stream alone that does not
// write, because on HTTP/2 a passed deadline resets the stream.
func (w *responseWriter) endWith(ctx context.Context) (release func()) {
	if ctx == nil {
		return func() {}
	}
	w.mu.Lock()
	w.end = ctx
	w.mu.Unlock()
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.writing {
			_ = w.conn.SetWriteDeadline(time.Unix(1, 0))
		}
	})
	return func() {
		if !stop() {
			<-ended // else it could end a later write
		}
		w.mu.Lock()
		w.end = nil
		w.mu.Unlock()
	}
}

// endWrite ends a write. It clears the deadline of a write to an HTTP/2 stream, because the stream would be reset when it passes, also between two writes. On
// HTTP/1.1 the deadline stays for the bytes that net/http writes after the handler.
func (w *responseWriter) endWrite() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = false
	switch {
	case w.err != nil:
		w.call.s.host.ResetOnClose(w.call.request)
	case w.call.request.ProtoMajor > 1:
		_ = w.conn.SetWriteDeadline(time.Time{})
	}
}
