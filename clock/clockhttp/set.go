package clockhttp

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// bodySlack is the room in bytes for all fields of a set except its payload.
const bodySlack = 16 << 10

// setBytes returns the cap in bytes on the body of a single set. A text may use six bytes for each byte of payload
// (\u0041).
func (s *Server) setBytes() int { return 6*s.alarms.MaxPayload() + bodySlack }

// set holds the memory of its body until the response is written, because the response repeats the payload.
func (s *Server) set(c echo.Context) error {
	b, op, err := s.readSet(c)
	if err != nil {
		return err
	}
	defer b.release()
	ctx, cancel := opContext(c)
	defer cancel()
	d, err := s.alarms.Submit(ctx, clock.Op{Set: op}).Await(ctx)
	if err != nil {
		return err
	}
	return s.respondAlarm(c, setStatus(d.Verdict), &d.Alarm)
}

// readSet builds a set from the request's path, headers and body. It returns the set with the body, which the caller
// releases.
func (s *Server) readSet(c echo.Context) (*body, *clock.Set, error) {
	key, err := keyOf(c)
	if err != nil {
		return nil, nil, err
	}
	condition, err := setCondition(c.Request().Header)
	if err != nil {
		return nil, nil, err
	}
	b, err := s.readBody(c, s.setBytes(), front.LargeBodies)
	if err != nil {
		return nil, nil, err
	}
	set, err := decodeSetWith(b.bytes, condition)
	if err != nil {
		b.release()
		return nil, nil, err
	}
	set.Key, set.Traceparent = key, clock.ParseTraceparent(c.Request().Header["Traceparent"])
	return b, set, nil
}

// decodeSetWith reads a set's body. condition is the condition in the headers.
func decodeSetWith(body []byte, condition clock.Condition) (*clock.Set, error) {
	decoded, err := decodeSet(body, pathBody)
	if err != nil {
		return nil, err
	}
	set := &decoded.set
	if condition.Kind == clock.AnyRow {
		return set, nil
	}
	if set.If.Kind != clock.AnyRow {
		return nil, clock.Invalid(clock.CodeAmbiguous, "if",
			"give the condition in the body or in a header, not in both")
	}
	set.If = condition
	return set, nil
}

// setStatus returns the status of an accepted op: 201 for a new alarm, otherwise 200.
func setStatus(v clock.Verdict) int {
	if v == clock.Create {
		return http.StatusCreated
	}
	return http.StatusOK
}

// respondAlarm sends the alarm, with its generation as ETag.
func (s *Server) respondAlarm(c echo.Context, status int, a *clock.Alarm) error {
	c.Response().Header().Set("ETag", etag(a))
	return s.respondJSON(c, status, appendAlarm(make([]byte, 0, alarmBuffer+2*len(a.Payload)), a))
}

// alarmBuffer is a size in bytes that nearly always holds an alarm as JSON without its payload.
const alarmBuffer = 1024
