package clockhttp

import (
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// serveRequest serves a request of HTTP/2, if there is memory for it. The memory counts until the client has taken the
// response: a client that opens no window could otherwise leave any number of finished requests with the server.
// net/http's own responses to heads beyond Config.MaxHeaderBytes (431) have a bound of their own (package front).
func (s *Server) serveRequest(w http.ResponseWriter, r *http.Request) {
	size := front.RequestSize(r)
	if !s.front.Memory.Take(front.Requests, size) {
		s.refuseRequest(w, r)
		return
	}
	defer s.front.Memory.Give(front.Requests, size)
	s.route(w, r)
	front.FlushWithin(w, r, s.cfg.WriteTimeout)
}

// refuseRequest responds to a request that finds no memory.
func (s *Server) refuseRequest(w http.ResponseWriter, r *http.Request) {
	p := front.ProblemOf(&clock.Error{
		Kind: clock.ErrUnavailable, Code: clock.CodeOverloaded, RetryAfter: time.Second,
		Detail: "too many requests at once; repeat later",
	})
	s.front.Note(r, p)
	s.refusals.refuse(w, r, p)
}

// closeAfter closes the connection after the response, so that net/http does not read the rest of a body. On HTTP/2 the
// stream alone ends.
func closeAfter(c echo.Context) {
	if c.Request().ProtoMajor == 1 {
		c.Response().Header().Set(echo.HeaderConnection, "close")
	}
}
