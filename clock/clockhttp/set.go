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
	body, op, err := s.readSet(c)
	if err != nil {
		return err
	}
	defer body.release()
	ctx, cancel := opContext(c)
	defer cancel()
	d, err := s.alarms.Submit(ctx, clock.Op{Set: op}).Await(ctx)
	if err != nil {
		return err
	}
	b := appendAlarm(make([]byte, 0, alarmBytes(&d.Alarm)), &d.Alarm)
	if d.RepeatEnded {
		b = append(append(b[:len(b)-1], memberRepeatEnded...), '}')
	}
	return s.respondWithETag(c, setStatus(d.Verdict), &d.Alarm, b)
}

// memberRepeatEnded is the member of a response to a set that has ended the repetition of an alarm.
const memberRepeatEnded = `,"repeat_ended":true`

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
	return s.respondWithETag(c, status, a, appendAlarm(make([]byte, 0, alarmBytes(a)), a))
}

// respondWithETag sends a response that has an alarm.
func (s *Server) respondWithETag(c echo.Context, status int, a *clock.Alarm, response []byte) error {
	c.Response().Header().Set("ETag", etag(a))
	return s.respondJSON(c, status, response)
}

// alarmBuffer is a size in bytes that nearly always holds an alarm as JSON without its payload.
const alarmBuffer = 1024

// alarmBytes returns a size in bytes that nearly always holds the alarm as JSON.
func alarmBytes(a *clock.Alarm) int { return alarmBuffer + 2*len(a.Payload) }
