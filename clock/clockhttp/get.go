package clockhttp

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

func (s *Server) get(c echo.Context) error {
	a, err := s.readAlarm(c)
	if err != nil {
		return err
	}
	b := append(appendAlarmWithAttempts(make([]byte, 0, alarmBytes(a)), a, s.blockers(a)), '\n')
	if !s.front.Memory.Take(front.Responses, int64(cap(b))) {
		return tooManyResponses()
	}
	defer s.front.Memory.Give(front.Responses, int64(cap(b)))
	c.Response().Header().Set("ETag", etag(a))
	return s.respond(c, http.StatusOK, echo.MIMEApplicationJSON, b)
}

// readAlarm reads the alarm in the path of a request without a body.
func (s *Server) readAlarm(c echo.Context) (*clock.Alarm, error) {
	key, err := keyOf(c)
	if err != nil {
		return nil, err
	}
	if err := refuseBody(c); err != nil {
		return nil, err
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	a, err := s.alarms.Get(ctx, key)
	switch {
	case errors.Is(err, clock.ErrNotFound):
		return nil, clock.UnknownAlarm(key)
	case err != nil:
		return nil, readFailure(ctx, err)
	}
	return a, nil
}

// clientContext returns the context of a read: it ends when the client waits no longer (see clientWait), or when it
// leaves. The server cannot tell a client that closed only its sending half from a client that left.
func clientContext(c echo.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(c.Request().Context(), clientWait(c))
}

// refuseBody refuses a read with a body, because the server notices that a client leaves only after it has read the
// body.
func refuseBody(c echo.Context) error {
	if c.Request().ContentLength == 0 {
		return nil
	}
	closeAfter(c)
	return &front.Problem{Status: http.StatusBadRequest, Code: codeUnexpectedBody,
		Detail: "this request must not have a body"}
}

// readFailure is clock.UnavailableIfLate for a read, which also ends when its client leaves.
func readFailure(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return &front.Problem{
			Status: http.StatusRequestTimeout, Code: codeClientLeft,
			Detail: "the client closed its side of the connection before the alarms were read; keep it open until the response arrives",
		}
	}
	return clock.UnavailableIfLate(ctx, err)
}

// lastingContext returns the context of work that continues when the client leaves. It ends after limit.
func lastingContext(c echo.Context, limit time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.Request().Context()), limit)
}
