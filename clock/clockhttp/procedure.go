package clockhttp

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// Mount adds a procedure. Call it before Run.
func (s *Server) Mount(p front.Procedure) {
	s.echo.POST(p.Path, s.handler(&route{
		name: p.Name, method: http.MethodPost, path: p.Path, need: p.Need, handle: s.call(&p), refuse: p.Refuse,
	}))
}

// call returns the handler of a procedure. It holds the memory of the body until the response is written, because the
// response may repeat a payload.
func (s *Server) call(p *front.Procedure) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if p.Need.Lasting {
			defer s.openStream(c, p.Name)()
			if err := front.FindVanished(r); err != nil {
				return err
			}
		}
		if p.BodyBytes == 0 {
			from := s.streamBody(c)
			from.end = s.bodiesEnd
			defer s.cutsWhenStopping(from)()
			r.Body = io.NopCloser(from)
			p.Handler.ServeHTTP(errorFlusher{c.Response()}, r)
			return nil
		}
		large := front.LargeBodies
		if p.Batch {
			large = front.BatchBodies
		}
		b, err := s.readBody(c, p.BodyBytes, large)
		if err != nil {
			return err
		}
		defer b.release()
		r.Body = io.NopCloser(bytes.NewReader(b.bytes))
		p.Handler.ServeHTTP(errorFlusher{c.Response()}, r)
		return nil
	}
}

// errorFlusher is a response whose flush reports errors. echo drops them.
type errorFlusher struct{ *echo.Response }

// FlushError sends the bytes written so far to the client.
func (f errorFlusher) FlushError() error {
	if !f.Committed {
		f.WriteHeader(http.StatusOK)
	}
	return http.NewResponseController(f.Writer).Flush()
}

// refuse responds to a request whose procedure has not responded. It cuts the stream if the response has already begun.
func (s *Server) refuse(c echo.Context, err error, write func(http.ResponseWriter, *http.Request, int, *clock.Error)) {
	status, e := s.front.Refusal(c.Request(), err)
	if c.Response().Committed {
		panic(http.ErrAbortHandler)
	}
	s.limitWrite(c, time.Now().Add(s.cfg.WriteTimeout))
	write(c.Response(), c.Request(), status, e)
}

// Ready reports whether /readyz is 200.
func (s *Server) Ready() bool {
	r := s.readyNow()
	return r.Ready
}
