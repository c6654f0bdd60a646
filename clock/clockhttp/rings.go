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

// Streams distributes the rings of applications to their subscribers.
type Streams interface {
	// Subscribe returns a new subscriber's share of the application's rings.
	Subscribe(application string) clock.Subscription
}

// eventStream writes server-sent events.
type eventStream struct {
	conn    *http.ResponseController
	request *http.Request
	w       http.ResponseWriter
	timeout time.Duration // longest time of one write
	memory  *budget       // budget in which buffer counts while it is written
	buffer  []byte
}

// rings streams an application's rings to one subscriber until the subscriber leaves or the server stops.
func (s *Server) rings(c echo.Context) error {
	app, err := applicationOf(c)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	if err := s.ringsElsewhere(app); err != nil {
		return err
	}
	if err := s.findVanished(c.Request()); err != nil {
		return err
	}
	sub := s.streams.Subscribe(app)
	defer sub.Close()
	defer s.metrics.open(c, "streamRings")()
	e := &eventStream{conn: http.NewResponseController(c.Response().Writer), request: c.Request(), w: c.Response(), timeout: s.cfg.WriteTimeout, memory: s.memory}
	e.begin(c.Response())
	if err := e.run(c.Request().Context(), s.stopping, s.cfg.Heartbeat, sub); err != nil {
		resetOnClose(c.Request())
		return &problem{Status: http.StatusRequestTimeout, Code: codeStreamCut, Detail: "rings could not be written: " + err.Error()}
	}
	return nil
}

// ringsElsewhere returns an error if the application's rings do not go to its stream.
func (s *Server) ringsElsewhere(app string) error {
	applied := AppliedSettings{Target: clock.TargetStream, Subscribable: true}
	if s.settings != nil {
		applied = s.settings.Applied(app)
	}
	switch {
	case applied.Subscribable && s.streams != nil:
		return nil
	case applied.Target == clock.NoTarget:
		return unknownTarget(app)
	}
	where := "go to the target " + applied.Target.String()
	if applied.Target == clock.TargetAMQP || s.streams == nil {
		where = fmt.Sprintf("go to RabbitMQ: bind a queue to exchange %q with routing key %q and consume the queue", s.cfg.Exchange, app)
	}
	return &problem{
		Status: http.StatusConflict, Code: codeRingsElsewhere,
		Detail: fmt.Sprintf("the rings of the application %s. To send them to the stream: clockd application set %s --target stream", where, app),
	}
}

// unknownTarget says that this node has no target for the application.
func unknownTarget(app string) error {
	return &clock.Error{
		Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second,
		Detail: fmt.Sprintf("this node cannot follow the settings of application %q, so its alarms wait; see /readyz", app),
	}
}

// run delivers rings. It returns nil when the client leaves or the server stops, and the error when a write fails.
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
	h.Set("X-Accel-Buffering", "no") // a buffering proxy would delay rings
	r.WriteHeader(http.StatusOK)
	_ = e.conn.SetReadDeadline(time.Time{}) // clears a deadline, which would end the stream
}

// comment sends a comment line. It shows both sides whether the connection still works.
func (e *eventStream) comment() error {
	e.buffer = append(e.buffer, ": clockd\n\n"...)
	_ = e.conn.SetWriteDeadline(time.Now().Add(e.timeout)) // only test recorders do not support it
	return e.flush()
}

var (
	errUnwritten = errors.New("the rings were not written to the end")
	errTooLate   = errors.New("the time to write the ring was over")
)

// progress counts rings of a delivery, from the first on.
type progress struct {
	written int // rings that were flushed
	begun   int // rings of which a byte was handed to net/http; it may flush them even after an error
}

// deliver writes the rings of a delivery and reports the result to Delivery.Done. Each ring has rung when it is flushed. When the time limit of
// the rings has passed, deliver writes no further one, and the stream goes on. Any other error ends the stream.
func (e *eventStream) deliver(d *clock.Delivery) error {
	var p progress
	err := errUnwritten // result if write panics
	defer func() {
		e.buffer = nil // a waiting subscriber holds no memory
		d.Done(p.written, p.begun, err)
	}()
	defer e.endWritesWith(d.Context)()
	err = e.write(d, &p)
	if errors.Is(err, errTooLate) {
		return nil
	}
	return err
}

// endWritesWith makes a write fail when ctx ends, until the returned function is called. A nil ctx never ends.
func (e *eventStream) endWritesWith(ctx context.Context) func() {
	if ctx == nil {
		return func() {}
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = e.conn.SetWriteDeadline(time.Unix(1, 0))
	})
	return func() {
		if !stop() {
			<-ended // else it could end a later write
		}
	}
}

// write writes the rings of a delivery, and counts them in p. Each flush has one or more rings.
func (e *eventStream) write(d *clock.Delivery, p *progress) error {
	for i := range d.Rings {
		e.buffer = appendEvent(e.buffer, &d.Rings[i])
		if len(e.buffer) < eventBytes && i < len(d.Rings)-1 {
			continue
		}
		if err := e.flushRings(d, p, i+1); err != nil {
			return err
		}
	}
	return nil
}

// flushRings writes the buffered rings, unless it is too late for them. They end before the ring with index end.
func (e *eventStream) flushRings(d *clock.Delivery, p *progress, end int) error {
	_ = e.conn.SetWriteDeadline(time.Now().Add(e.timeout)) // before the check, so that the end of Context moves it
	if d.TooLateToWrite != nil && d.TooLateToWrite() || d.Context != nil && d.Context.Err() != nil {
		e.buffer = e.buffer[:0]
		return errTooLate
	}
	p.begun = end // before the flush, which may panic
	if err := e.flush(); err != nil {
		return err
	}
	p.written = end
	return nil
}

// eventBytes is the size of buffered events at which they are written.
const eventBytes = 64 << 10

// flush writes the buffer to the connection, until the write deadline.
func (e *eventStream) flush() error {
	size := int64(cap(e.buffer))
	e.memory.force(responses, size) // not take: rings must not wait for responses that other clients do not read
	defer e.memory.give(responses, size)
	_, err := e.w.Write(e.buffer)
	if err == nil {
		err = e.conn.Flush()
	}
	if err == nil {
		endWriteDeadline(e.conn, e.request)
	}
	e.buffer = e.buffer[:0]
	return err
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
	b = append(b, `,"content_type":`...)
	b = appendString(b, r.ContentType)
	return append(appendPayload(b, r.PayloadKind, r.Payload), '}')
}

// blankBreaks replaces line breaks by blanks, because an event is one line. Valid JSON has line breaks only between tokens.
func blankBreaks(b []byte) {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
}
