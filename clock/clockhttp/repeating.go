package clockhttp

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// Repeating lists the repeating alarms of one application, or of all that covers admits (clock.RepeatingAlarms).
type Repeating interface {
	List(
		ctx context.Context, q clock.ListQuery, covers func(application string) bool, take func(*clock.Alarm) bool,
	) (next clock.ListPosition, err error)
}

var _ Repeating = (*clock.RepeatingAlarms)(nil)

// listRepeating responds with a page of repeating alarms.
func (s *Server) listRepeating(c echo.Context) error {
	q, err := repeatingQuery(c)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	if s.repeating == nil {
		return absentPart("this server does not list repeating alarms")
	}
	if err := front.CoverNamed(c.Request(), q.Application); err != nil {
		return err
	}
	covers := front.CallerOf(c.Request()).Covers
	return s.respondPage(c, q,
		func(ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool) (clock.ListPosition, error) {
			return s.repeating.List(ctx, q, covers, take)
		})
}
