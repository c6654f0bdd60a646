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

// backfill begins a backfill of one repeating alarm. endBackfill ends it.
func (s *Server) backfill(c echo.Context) error {
	asked := clock.Backfill{From: clock.NoInstant, Until: clock.NoInstant, Pace: clock.DefaultPace}
	return s.actWith(c, func(k clock.Key, i clock.Condition) clock.Op {
		asked.Key, asked.If = k, i
		return clock.Op{Backfill: &asked}
	}, []string{"from", "limit", "pace", "until"}, func(name string, raw []byte) error {
		switch name {
		case "from":
			return decodeInstant(raw, name, &asked.From)
		case "until":
			return decodeInstant(raw, name, &asked.Until)
		case "pace":
			return decodeDuration(raw, name, &asked.Pace)
		}
		if err := decodeInt(raw, name, &asked.Limit); err != nil || asked.Limit != 0 || isNull(raw) {
			return err
		}
		return clock.Invalid(clock.CodeOutOfRange, name, "limit must be from 1 to 10000")
	})
}

func (s *Server) endBackfill(c echo.Context) error {
	return s.actOnAlarm(c,
		func(k clock.Key, i clock.Condition) clock.Op {
			return clock.Op{EndBackfill: &clock.EndBackfill{Key: k, If: i}}
		})
}
