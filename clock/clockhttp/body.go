package clockhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

// budget bounds the memory that bodies take together.
type budget struct {
	left atomic.Int64
}

// take returns whether n bytes were left; then they are taken.
func (b *budget) take(n int64) bool {
	if b.left.Add(-n) >= 0 {
		return true
	}
	b.left.Add(n)
	return false
}

func (b *budget) give(n int64) { b.left.Add(n) }

// firstBuffer is what a body gets before any of it has arrived: a client's word on its length is not memory yet.
const firstBuffer = 4 << 10

// growth is how many times larger a full buffer becomes, but never larger than the length that was announced.
const growth = 4

// body is a request's body, read whole. Its memory belongs to the budget until release.
type body struct {
	bytes  []byte
	taken  int64
	budget *budget
}

func (b *body) release() {
	b.budget.give(b.taken)
	b.bytes, b.taken = nil, 0
}

// grow makes room for at least one byte, for at most limit in all.
func (b *body) grow(limit int) bool {
	size := min(max(firstBuffer, growth*cap(b.bytes)), limit)
	if !b.budget.take(int64(size)) {
		return false
	}
	old := b.taken
	larger := make([]byte, len(b.bytes), size)
	copy(larger, b.bytes)
	b.bytes, b.taken = larger, int64(size)
	b.budget.give(old)
	return true
}

// readBody reads the body, at most limit bytes. The caller must release it when nothing refers to it any more.
func (s *Server) readBody(c echo.Context, limit int) (*body, error) {
	r := c.Request()
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &problem{
			Status: http.StatusUnsupportedMediaType, Code: codeUnsupportedMediaType, Field: "Content-Encoding",
			Detail: fmt.Sprintf("the body is encoded as %q; send it as it is", encoding),
		}
	}
	if r.ContentLength > int64(limit) {
		return nil, tooLarge(limit)
	}
	if r.ContentLength >= 0 {
		limit = int(r.ContentLength) // more does not come
	}
	b := &body{budget: &s.bodies}
	if err := b.read(s.timedBody(c, time.Now().Add(s.cfg.BodyTimeout)), limit); err != nil {
		b.release()
		return nil, err
	}
	return b, nil
}

func (b *body) read(from io.Reader, limit int) error {
	for {
		if len(b.bytes) == cap(b.bytes) && !b.grow(limit+1) { // room to read the end, too
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
	return &problem{
		Status: http.StatusRequestEntityTooLarge, Code: codeBodyTooLarge,
		Detail: fmt.Sprintf("the body is larger than %d bytes", limit),
	}
}

// brokenBody tells why a body could not be read to its end.
func brokenBody(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return &problem{Status: http.StatusRequestTimeout, Code: codeRequestTimeout, Detail: "the body came too slowly; send the request again"}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(net.Error)) || errors.Is(err, net.ErrClosed) {
		return &problem{Status: http.StatusBadRequest, Code: codeIncompleteBody, Detail: "the body ended before its announced length; send the request again"}
	}
	return &problem{Status: http.StatusBadRequest, Code: codeIncompleteBody, Detail: "the body cannot be read: " + err.Error()}
}

// timedReader puts a deadline on each read of a body.
type timedReader struct {
	body    io.Reader
	conn    *http.ResponseController
	timeout time.Duration   // of a read
	until   time.Time       // of the whole body; zero: none
	ctx     context.Context //nolint:containedctx // nil, or what ends reading from outside, by a deadline in the past
}

func (s *Server) timedBody(c echo.Context, until time.Time) *timedReader {
	return &timedReader{
		body: c.Request().Body, conn: http.NewResponseController(c.Response().Writer), timeout: s.cfg.ReadTimeout, until: until,
	}
}

// Read reads once. At the end of the body the deadline is taken away, for the server reads on to see the client go; after
// a failure it stays, so that nothing waits for the rest.
func (t *timedReader) Read(p []byte) (int, error) {
	deadline := time.Now().Add(t.timeout)
	if !t.until.IsZero() && t.until.Before(deadline) {
		deadline = t.until
	}
	_ = t.conn.SetReadDeadline(deadline)    // not supported by test recorders alone
	if t.ctx != nil && t.ctx.Err() != nil { // its deadline may have come before ours
		return 0, t.ctx.Err()
	}
	n, err := t.body.Read(p)
	if err == io.EOF {
		_ = t.conn.SetReadDeadline(time.Time{})
	}
	return n, err
}
