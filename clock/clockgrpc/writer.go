package clockgrpc

import (
	"net/http"

	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/ringstream"
)

// responseWriter writes the response of a call. Each write has a deadline and counts in the memory of responses. It
// keeps the first error, because connect drops the errors of flushes.
type responseWriter struct {
	call     *call
	inner    http.ResponseWriter
	conn     *http.ResponseController
	deadline *ringstream.Deadline
	err      error // first error of a write or a flush
}

// writeBytes is the size of the parts in which a message is written. Each part has a deadline of its own.
const writeBytes = 256 << 10

// Header returns the header of the response.
func (w *responseWriter) Header() http.Header { return w.inner.Header() }

// WriteHeader sends the status.
func (w *responseWriter) WriteHeader(status int) { w.inner.WriteHeader(status) }

// Write writes a message, or a part of it.
func (w *responseWriter) Write(b []byte) (n int, err error) {
	w.call.s.front.Memory.Force(front.Responses, int64(len(b)))
	defer w.call.s.front.Memory.Give(front.Responses, int64(len(b)))
	for first := true; w.err == nil && (first || n < len(b)); first = false {
		if w.err = w.deadline.Begin(); w.err == nil {
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
	if w.err == nil {
		w.err = w.deadline.Begin()
	}
	if w.err == nil {
		w.err = w.conn.Flush()
	}
	w.endWrite()
}

// endWrite ends a write.
func (w *responseWriter) endWrite() {
	if w.deadline.End(w.err); w.err != nil {
		front.ResetOnClose(w.call.request)
	}
}
