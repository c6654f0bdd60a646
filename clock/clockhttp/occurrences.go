package clockhttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
)

// occurrences shows the next occurrences of a repeating alarm.
func (s *Server) occurrences(c echo.Context) error {
	count, err := onlyNumber(c, "count", clock.DefaultOccurrences, clock.MaxOccurrences)
	if err != nil {
		return err
	}
	a, err := s.readAlarm(c)
	if err != nil {
		return err
	}
	if a.Repeat == nil {
		return clock.RingsOnce(a)
	}
	b := appendString([]byte(`{"sentence":`), a.Repeat.Sentence())
	b = append(b, `,"time_zone_data":"`...)
	b = append(append(b, repeat.Data().Version()...), `","occurrences":`...)
	repetition, now := a.Repetition(), clock.InstantOf(time.Now())
	list := a.Occurrences(now, count, clock.CountedOccurrences)
	b = appendList(b, list, func(o *repeat.Occurrence, b []byte) []byte {
		if b = append(b, `{"number":`...); o.Number == 0 {
			b = append(b, "null"...)
		} else {
			b = strconv.AppendInt(b, o.Number, 10)
		}
		b = appendTimes(append(b, ','), a.Repeat, o.At)
		return append(appendInstant(append(b, `,"ring_at":`...), repetition.RingAt(*o)), '}')
	})
	change := a.Repeat.NextChange(int64(now))
	if change != nil && len(list) < count && (len(list) == 0 || list[len(list)-1].At < change.At) {
		change = nil // the alarm is over by then
	}
	b = appendClockChange(b, a.Repeat, change)
	return s.respond(c, http.StatusOK, echo.MIMEApplicationJSON, append(b, "}\n"...))
}
