package clockhttp

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

// cancelAsPerson cancels an alarm as an action of a person, which the audit records.
func (s *Server) cancelAsPerson(c echo.Context) error {
	return s.actOnAlarm(c,
		func(k clock.Key, i clock.Condition) clock.Op { return clock.Op{Cancel: &clock.Cancel{Key: k, If: i}} })
}

// cancel cancels an alarm for an application.
func (s *Server) cancel(c echo.Context) error {
	key, err := keyOf(c)
	if err != nil {
		return err
	}
	condition, err := generationCondition(c.Request().Header)
	if err != nil {
		return err
	}
	ctx, done := opContext(c)
	defer done()
	d, err := s.alarms.Submit(ctx, clock.Op{Cancel: &clock.Cancel{Key: key, If: condition}}).Await(ctx)
	if err != nil {
		return err
	}
	return s.respondAlarm(c, http.StatusOK, &d.Alarm)
}
