package clockhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// bufferGrowth is the factor by which a full buffer grows. A buffer never grows past the announced length.
const bufferGrowth = 4

// body is a whole request body. Its memory counts until release.
type body struct {
	bytes      []byte
	takenBytes int64       // bytes taken from memory
	takenFrom  front.Class // class that takenBytes counts in
	largeClass front.Class // class of a buffer larger than front.FirstBuffer
	memory     *front.Memory
}

func (b *body) release() {
	b.memory.Give(b.takenFrom, b.takenBytes)
	b.bytes, b.takenBytes = nil, 0
}

// bodiesEnd returns the time at which the stopping server cuts unfinished bodies, zero before the server stops.
func (s *Server) bodiesEnd() time.Time {
	if end := s.bodiesUntil.Load(); end != nil {
		return *end
	}
	return time.Time{}
}

// cutsWhenStopping shortens a waiting read of the body when the server begins to stop. The caller must call done after
// the last read, and before its handler ends: net/http forbids a deadline afterwards.
func (s *Server) cutsWhenStopping(t *timedReader) (done func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(s.front.Stopping(), func() {
		defer close(ended)
		_ = t.conn.SetReadDeadline(s.bodiesEnd())
	})
	return func() {
		if !stop() {
			<-ended
		}
	}
}

// grow makes room for at least one more byte, and for at most limit bytes in total. It returns false if there is
// no memory.
func (b *body) grow(limit int) bool {
	size := min(max(front.FirstBuffer, bufferGrowth*cap(b.bytes)), limit)
	from := front.SmallBodies
	if size > front.FirstBuffer {
		from = b.largeClass
	}
	if !b.memory.Take(from, int64(size)) {
		return false
	}
	larger := make([]byte, len(b.bytes), size)
	copy(larger, b.bytes)
	b.memory.Give(b.takenFrom, b.takenBytes)
	b.bytes, b.takenBytes, b.takenFrom = larger, int64(size), from
	return true
}

// readBody reads the body, at most limit bytes. A body larger than front.FirstBuffer counts in the class large. The
// caller must release the body when no reference to its bytes is left.
func (s *Server) readBody(c echo.Context, limit int, large front.Class) (*body, error) {
	r := c.Request()
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &front.Problem{
			Status: http.StatusUnsupportedMediaType, Code: codeUnsupportedMediaType, Field: "Content-Encoding",
			Detail: fmt.Sprintf("the body has the encoding %q; send it without an encoding", encoding),
		}
	}
	if r.ContentLength > int64(limit) {
		return nil, tooLarge(limit)
	}
	if r.ContentLength >= 0 {
		limit = int(r.ContentLength) // net/http delivers no more bytes
	}
	b := &body{memory: s.front.Memory, largeClass: large}
	from := s.wholeBody(c)
	defer s.cutsWhenStopping(from)()
	if err := b.read(from, limit); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

func (b *body) read(from io.Reader, limit int) error {
	for {
		if len(b.bytes) == cap(b.bytes) && !b.grow(limit+1) { // one byte more, to find the end or a body over the limit
			return &clock.Error{
				Kind: clock.ErrUnavailable, Code: clock.CodeOverloaded, RetryAfter: time.Second,
				Detail: "too many large requests at once; repeat later",
			}
		}
		n, err := from.Read(b.bytes[len(b.bytes):cap(b.bytes)])
		b.bytes = b.bytes[:len(b.bytes)+n]
		switch {
		case len(b.bytes) > limit:
			return tooLarge(limit)
		case err == io.EOF:
			return nil
		case err != nil:
			return brokenBody(err)
		}
	}
}

func tooLarge(limit int) error {
	return &front.Problem{
		Status: http.StatusRequestEntityTooLarge, Code: codeBodyTooLarge,
		Detail: fmt.Sprintf("the body is larger than %d bytes", limit),
	}
}

// brokenBody returns the problem of a body that could not be read to its end.
func brokenBody(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &front.Problem{Status: http.StatusRequestTimeout, Code: codeRequestTimeout,
			Detail: "the body arrived too slowly; send the request again"}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(net.Error)) || errors.Is(err, net.ErrClosed) {
		return &front.Problem{Status: http.StatusBadRequest, Code: codeIncompleteBody,
			Detail: "the body ended before its announced length; send the request again"}
	}
	return &front.Problem{Status: http.StatusBadRequest, Code: codeIncompleteBody,
		Detail: "the body cannot be read: " + err.Error()}
}

// timedReader puts a deadline on each read of a body.
type timedReader struct {
	body    io.Reader
	conn    *http.ResponseController
	timeout time.Duration    // longest time of one read
	pace    pace             // least speed of the whole body; zero for a stream
	ctx     context.Context  //nolint:containedctx // context whose end stops reading (its owner sets a past read deadline); nil: none
	end     func() time.Time // time at which the stopping server cuts reading, zero before it stops; nil: never
}

// pace is the least speed of a whole body. Each byte extends the deadline, so a stalled upload ends long before a slow
// upload.
type pace struct {
	begun    time.Time
	grace    time.Duration // time before the rate applies
	rate     int           // bytes a second
	longest  time.Duration // longest time of the whole body
	received int           // bytes so far
}

// deadline returns the time by which the next byte must arrive.
func (p *pace) deadline() time.Time {
	bought := time.Duration(float64(p.received) / float64(p.rate) * float64(time.Second))
	return p.begun.Add(min(p.grace+bought, p.longest))
}

// streamBody returns a reader for the body of a stream. It has no pace, because a stream may pause between two reads.
func (s *Server) streamBody(c echo.Context) *timedReader {
	return &timedReader{body: c.Request().Body, conn: http.NewResponseController(c.Response().Writer),
		timeout: s.cfg.ReadTimeout}
}

// wholeBody returns a reader for a whole body, which must arrive at a pace.
func (s *Server) wholeBody(c echo.Context) *timedReader {
	t := s.streamBody(c)
	t.end = s.bodiesEnd
	t.pace = pace{begun: time.Now(), grace: s.cfg.BodyGrace, rate: s.cfg.BodyRate, longest: s.cfg.BodyTimeout}
	return t
}

// Read reads once. At the end of the body it clears the deadline, because net/http reads on to see the client leave.
// After a failure the deadline stays, so that no read waits for the rest of the body.
func (t *timedReader) Read(p []byte) (int, error) {
	deadline := time.Now().Add(t.timeout)
	if t.pace.rate > 0 && t.pace.deadline().Before(deadline) {
		deadline = t.pace.deadline()
	}
	_ = t.conn.SetReadDeadline(deadline)    // only test recorders do not support it
	if t.ctx != nil && t.ctx.Err() != nil { // the line above may have replaced the past deadline that ends reading
		return 0, t.ctx.Err()
	}
	if t.end != nil { // checked last: the line above may have replaced the deadline of cutsWhenStopping
		if end := t.end(); !end.IsZero() && end.Before(deadline) {
			_ = t.conn.SetReadDeadline(end)
		}
	}
	n, err := t.body.Read(p)
	t.pace.received += n
	if err == io.EOF {
		_ = t.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}
