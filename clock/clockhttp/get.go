package clockhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

func (s *Server) get(c echo.Context) error {
	key, err := keyOf(c)
	if err != nil {
		return err
	}
	ctx, cancel := readContext(c)
	defer cancel()
	a, err := s.alarms.Get(ctx, key)
	switch {
	case errors.Is(err, clock.ErrNotFound):
		return unknownAlarm(key)
	case err != nil:
		return unavailableIfLate(ctx, err)
	}
	c.Response().Header().Set("ETag", etag(a))
	return s.answerJSON(c, http.StatusOK, appendAlarmWithAttempts(make([]byte, 0, alarmBuffer+2*len(a.Payload)), a))
}

func unknownAlarm(k clock.Key) error {
	return &clock.Error{
		Kind: clock.ErrNotFound, Code: clock.CodeUnknownAlarm,
		Detail: fmt.Sprintf("application %q has no alarm %q", k.Application, k.BusinessID),
	}
}

// readContext bounds a read. Like outcome it does not end with the client's sending half.
func readContext(c echo.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(c.Request().Context()), clock.Patience)
}

// unavailableIfLate tells a database that was too slow from an error that nobody expects.
func unavailableIfLate(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, clock.ErrUnavailable) {
		return clock.Unavailable(err)
	}
	return err
}
