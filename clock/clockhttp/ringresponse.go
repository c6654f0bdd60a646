package clockhttp

import (
	"context"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/ringstream"
)

// ringResponse is a response with rings, to a subscriber or to a worker that reserves.
type ringResponse struct {
	s        *Server
	request  *http.Request
	w        http.ResponseWriter
	conn     *http.ResponseController
	deadline *ringstream.Deadline
}

func (s *Server) newRingResponse(c echo.Context) *ringResponse {
	w := c.Response().Writer
	return &ringResponse{
		s: s, request: c.Request(), w: c.Response(), conn: http.NewResponseController(w),
		deadline: ringstream.NewDeadline(w, c.Request(), s.cfg.WriteTimeout),
	}
}

// flush writes and flushes b within a deadline. It counts as memory meanwhile. With the error ErrTooLate it has written
// nothing.
func (r *ringResponse) flush(b []byte) error {
	size := int64(cap(b))
	r.s.front.Memory.Force(front.Responses, size) // not take: rings must not wait for responses that other clients do not read
	defer r.s.front.Memory.Give(front.Responses, size)
	err := r.deadline.Begin()
	if err != nil {
		r.deadline.End(nil)
		return ringstream.ErrTooLate
	}
	if _, err = r.w.Write(b); err == nil {
		err = r.conn.Flush()
	}
	r.deadline.End(err)
	return err
}

// Flushed returns a mark of everything flushed before the call.
func (r *ringResponse) Flushed() clock.Flushed { return front.Flushed(r.request) }

// EndWith makes writes fail when ctx ends, until release is called.
func (r *ringResponse) EndWith(ctx context.Context) (release func()) { return r.deadline.EndWith(ctx) }

// result returns the problem of a response that could not be written, nil if err is nil.
func (r *ringResponse) result(err error) error {
	if err == nil {
		return nil
	}
	front.ResetOnClose(r.request)
	return &front.Problem{Status: http.StatusRequestTimeout, Code: front.CodeStreamCut,
		Detail: "rings could not be written: " + err.Error()}
}
