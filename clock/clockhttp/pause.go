package clockhttp

import (
	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

// pause and resume change one alarm that is not over. trigger rings it now, also if it is over.
func (s *Server) pause(c echo.Context) error {
	return s.actOnAlarm(c,
		func(k clock.Key, i clock.Condition) clock.Op { return clock.Op{Pause: &clock.Pause{Key: k, If: i}} })
}

func (s *Server) resume(c echo.Context) error {
	return s.actOnAlarm(c,
		func(k clock.Key, i clock.Condition) clock.Op { return clock.Op{Resume: &clock.Resume{Key: k, If: i}} })
}

func (s *Server) trigger(c echo.Context) error {
	return s.actOnAlarm(c,
		func(k clock.Key, i clock.Condition) clock.Op { return clock.Op{Trigger: &clock.Trigger{Key: k, If: i}} })
}
