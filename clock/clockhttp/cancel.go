package clockhttp

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

func (s *Server) cancel(c echo.Context) error {
	key, err := keyOf(c)
	if err != nil {
		return err
	}
	condition, err := generationCondition(c.Request().Header)
	if err != nil {
		return err
	}
	d, err := outcome(s.alarms.Submit(clock.Op{Cancel: &clock.Cancel{Key: key, If: condition}}))
	if err != nil {
		return err
	}
	return s.answerAlarm(c, http.StatusOK, &d.Alarm)
}
