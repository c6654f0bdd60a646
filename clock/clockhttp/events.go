package clockhttp

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/ringstream"
)

var _ ringstream.StreamWriter = (*eventWriter)(nil)

// eventWriter writes rings as server-sent events.
type eventWriter struct{ *ringResponse }

// eventBytes is the size of buffered events at which they are written.
const eventBytes = 64 << 10

// Headers of a stream that resumes a former one.
const (
	headerLastEventID = "Last-Event-Id"    // of a request: id of the last event that the client has
	headerResumed     = "X-Clockd-Resumed" // of a response: whether the rings after it are sent again
)

// sendHead sends the head of the response.
func (e *eventWriter) sendHead(r *echo.Response, resumed ringstream.Resumption) {
	h := r.Header()
	if resumed != ringstream.NotAsked {
		h.Set(headerResumed, strconv.FormatBool(resumed == ringstream.Resumed))
	}
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set("X-Accel-Buffering", "no") // a buffering proxy would delay rings
	r.WriteHeader(http.StatusOK)
	_ = http.NewResponseController(r.Writer).SetReadDeadline(time.Time{}) // clears a deadline, which would end the stream
}

// Begin sends an event without data, whose id is the position of the stream. Clients dispatch no event for it, and name
// the id when they connect again before their first ring.
func (e *eventWriter) Begin(o ringstream.Opening) error {
	comment := ": clockd\n"
	switch o.Resumed {
	case ringstream.Resumed:
		comment = fmt.Sprintf(": clockd resumes the stream: %d rings are sent again\n", o.Missing)
	case ringstream.Unknown:
		comment = ": this node of clockd does not know the last event, so rings that were on their way may be lost\n"
	case ringstream.NotAsked:
	}
	return e.flush([]byte(comment + "id: " + o.Position + "\n\n"))
}

// Beat sends a comment line.
func (e *eventWriter) Beat() error { return e.flush([]byte(": clockd\n\n")) }

// Write sends the first of the rings, about eventBytes of them.
func (e *eventWriter) Write(rings []clock.Ring) (n int, err error) {
	var b []byte
	for n < len(rings) && len(b) < eventBytes {
		b = appendEvent(b, &rings[n])
		n++
	}
	return n, e.flush(b)
}

// appendEvent appends a ring as a server-sent event.
func appendEvent(b []byte, r *clock.Ring) []byte {
	b = append(b, "event: ring\nid: "...)
	b = append(b, r.MessageID()...)
	b = append(b, "\ndata: "...)
	from := len(b)
	b = appendRing(b, r)
	blankBreaks(b[from:])
	return append(b, "\n\n"...)
}

// appendRing appends a ring as a JSON object.
func appendRing(b []byte, r *clock.Ring) []byte {
	b = append(b, `{"message_id":"`...)
	b = append(b, r.MessageID()...)
	b = append(b, `","application":`...)
	b = appendString(b, r.Application)
	b = append(b, `,"business_id":`...)
	b = appendString(b, r.BusinessID)
	b = append(b, `,"generation":`...)
	b = strconv.AppendInt(b, r.Generation, 10)
	b = append(b, `,"ring_no":`...)
	b = strconv.AppendInt(b, int64(r.RingNo), 10)
	b = append(b, `,"retry_times":`...)
	b = strconv.AppendInt(b, int64(r.RetryTimes()), 10)
	b = appendInstant(append(b, `,"ring_at":`...), r.RingAt)
	b = appendInstant(append(b, `,"rung_at":`...), r.RungAt)
	b = append(b, `,"claim_id":`...)
	b = appendString(b, r.ClaimID)
	if r.AckTimeout > 0 {
		b = appendDuration(append(b, `,"ack_timeout":`...), r.AckTimeout)
	}
	if o := r.Occurrence(); o.At != 0 {
		b = append(b, `,"occurrence":{"number":`...)
		if o.Number == 0 { // of a backfill
			b = append(b, "null"...)
		} else {
			b = strconv.AppendInt(b, o.Number, 10)
		}
		b = appendInstant(append(b, `,"at":`...), clock.Instant(o.At))
		previous, next := r.OccurrencesBeside()
		b = appendInstant(append(b, `,"previous_at":`...), previous)
		b = append(appendInstant(append(b, `,"next_at":`...), next), '}')
	}
	b = append(b, `,"content_type":`...)
	b = appendString(b, r.ContentType)
	if r.Traceparent != "" {
		b = appendString(append(b, `,"traceparent":`...), r.Traceparent)
	}
	return append(appendPayload(b, r.PayloadKind, r.Payload), '}')
}

// blankBreaks replaces line breaks by blanks, because an event is one line. Valid JSON has line breaks only between
// tokens.
func blankBreaks(b []byte) {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
}
