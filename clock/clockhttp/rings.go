package clockhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

// Streams hands out the rings of applications to their subscribers.
type Streams interface {
	// Subscribe returns a new subscriber's share of the application's rings.
	Subscribe(application string) clock.Subscription
}

// eventStream writes server-sent events.
type eventStream struct {
	conn    *http.ResponseController
	w       http.ResponseWriter
	timeout time.Duration // of a write
	buffer  []byte
}

// rings streams an application's rings to one subscriber until it goes or the server stops.
func (s *Server) rings(c echo.Context) error {
	app, err := applicationOf(c)
	if err != nil {
		return err
	}
	if s.streams == nil {
		return &problem{
			Status: http.StatusConflict, Code: codeRingsGoToBroker,
			Detail: fmt.Sprintf("rings go to RabbitMQ here: bind a queue to exchange %q with routing key %q and consume that", s.cfg.Exchange, app),
		}
	}
	sub := s.streams.Subscribe(app)
	defer sub.Close()
	defer s.metrics.open(c, "streamRings")()
	e := &eventStream{conn: http.NewResponseController(c.Response().Writer), w: c.Response(), timeout: s.cfg.WriteTimeout}
	e.begin(c.Response())
	if err := e.run(c.Request().Context(), s.stopping, s.cfg.Heartbeat, sub); err != nil {
		resetOnClose(c.Request())
		return &problem{Status: http.StatusRequestTimeout, Code: codeStreamCut, Detail: "rings could not be written: " + err.Error()}
	}
	return nil
}

// run delivers until the client goes, the server stops (both nil) or a write fails.
func (e *eventStream) run(client, server context.Context, heartbeat time.Duration, sub clock.Subscription) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	err := e.comment()
	for err == nil {
		select {
		case d := <-sub.Deliveries():
			err = e.deliver(&d)
		case <-beat.C:
			err = e.comment()
		case <-client.Done():
			return nil
		case <-server.Done():
			return nil
		}
	}
	return err
}

// begin sends the head.
func (e *eventStream) begin(r *echo.Response) {
	h := r.Header()
	h.Set(echo.HeaderContentType, "text/event-stream")
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set("X-Accel-Buffering", "no") // a proxy that gathers would hold rings back
	r.WriteHeader(http.StatusOK)
	_ = e.conn.SetReadDeadline(time.Time{}) // of a body that nobody asked for
}

// comment sends a line that says nothing, so that both sides see a broken connection.
func (e *eventStream) comment() error {
	e.buffer = append(e.buffer, ": clockd\n\n"...)
	return e.flush()
}

var errUnwritten = errors.New("the rings were not written to the end")

// deliver writes the rings and settles them: they have rung when all are flushed, and are in doubt otherwise.
func (e *eventStream) deliver(d *clock.Delivery) (err error) {
	err = errUnwritten
	defer func() { d.Done(err) }()
	for i := range d.Rings {
		e.buffer = appendEvent(e.buffer, &d.Rings[i])
		if len(e.buffer) < eventBytes {
			continue
		}
		if failed := e.flush(); failed != nil {
			err = failed
			return err
		}
	}
	err = e.flush()
	return err
}

// eventBytes is when events are written at the latest.
const eventBytes = 64 << 10

// flush writes what is buffered through to the connection.
func (e *eventStream) flush() error {
	_ = e.conn.SetWriteDeadline(time.Now().Add(e.timeout)) // not supported by test recorders alone
	_, err := e.w.Write(e.buffer)
	if err == nil {
		err = e.conn.Flush()
	}
	if e.buffer = e.buffer[:0]; cap(e.buffer) > 4*eventBytes {
		e.buffer = nil
	}
	return err
}

// appendEvent appends a ring as an event.
func appendEvent(b []byte, r *clock.Ring) []byte {
	id := r.MessageID()
	b = append(b, "event: ring\nid: "...)
	b = append(b, id...)
	b = append(b, "\ndata: {\"message_id\":\""...)
	b = append(b, id...)
	b = append(b, `","application":`...)
	b = appendString(b, r.Application)
	b = append(b, `,"business_id":`...)
	b = appendString(b, r.BusinessID)
	b = append(b, `,"generation":`...)
	b = strconv.AppendInt(b, r.Generation, 10)
	b = append(b, `,"ring_no":`...)
	b = strconv.AppendInt(b, int64(r.RingNo), 10)
	b = append(b, `,"retry_times":`...)
	b = strconv.AppendInt(b, int64(r.RetryTimes), 10)
	b = appendInstant(append(b, `,"ring_at":`...), r.RingAt)
	b = appendInstant(append(b, `,"rung_at":`...), r.RungAt)
	b = append(b, `,"claim_id":`...)
	b = appendString(b, r.ClaimID)
	b = append(b, `,"content_type":`...)
	b = appendString(b, r.ContentType)
	from := len(b)
	b = appendPayload(b, r.PayloadKind, r.Payload)
	blankBreaks(b[from:])
	return append(b, "}\n\n"...)
}

// blankBreaks makes line breaks blanks: in valid JSON they stand between tokens alone, and an event is one line.
func blankBreaks(b []byte) {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
}
