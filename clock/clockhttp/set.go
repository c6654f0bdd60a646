package clockhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

// bodySlack is room for all of a set but its payload.
const bodySlack = 16 << 10

// setBytes returns the cap on the body of a single set: a text may be written with six bytes a character.
func (s *Server) setBytes() int { return 6*s.alarms.MaxPayload() + bodySlack }

func (s *Server) set(c echo.Context) error {
	op, err := s.readSet(c)
	if err != nil {
		return err
	}
	d, err := outcome(s.alarms.Submit(clock.Op{Set: op}))
	if err != nil {
		return err
	}
	return s.answerAlarm(c, setStatus(d.Verdict), &d.Alarm)
}

// readSet makes a set of the request's path, headers and body.
func (s *Server) readSet(c echo.Context) (*clock.Set, error) {
	key, err := keyOf(c)
	if err != nil {
		return nil, err
	}
	condition, err := setCondition(c.Request().Header)
	if err != nil {
		return nil, err
	}
	b, err := s.readBody(c, s.setBytes())
	if err != nil {
		return nil, err
	}
	defer b.release()
	decoded, err := decodeSet(b.bytes, pathBody)
	if err != nil {
		return nil, err
	}
	set := &decoded.set
	set.Key, set.Traceparent = key, traceparentOf(c.Request().Header)
	if condition.Kind == clock.AnyRow {
		return set, nil
	}
	if set.If.Kind != clock.AnyRow {
		return nil, clock.Invalid(clock.CodeAmbiguous, "if", "give the condition in the body or in a header, not in both")
	}
	set.If = condition
	return set, nil
}

// setStatus returns the status of a set that was not refused.
func setStatus(v clock.Verdict) int {
	if v == clock.Create {
		return http.StatusCreated
	}
	return http.StatusOK
}

// outcome waits for p, as long as an outcome may take. It does not end with the client's connection: a client that
// has closed its sending half still reads.
func outcome(p *clock.Pending) (*clock.Decision, error) {
	select {
	case <-p.Done():
		return p.Wait(late)
	default:
	}
	timer := time.NewTimer(clock.Patience) // costs less than a context
	defer timer.Stop()
	select {
	case <-p.Done():
	case <-timer.C:
	}
	return p.Wait(late)
}

// late is a context that ended of its time.
var late, _ = context.WithDeadline(context.Background(), time.Time{})

// answerAlarm answers with the alarm and its generation as ETag.
func (s *Server) answerAlarm(c echo.Context, status int, a *clock.Alarm) error {
	c.Response().Header().Set("ETag", etag(a))
	return s.answerJSON(c, status, appendAlarm(make([]byte, 0, alarmBuffer+2*len(a.Payload)), a))
}

// alarmBuffer holds an alarm as JSON without its payload, nearly always.
const alarmBuffer = 1024
