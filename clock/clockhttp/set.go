package clockhttp

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

// bodySlack is the room in bytes for all fields of a set except its payload.
const bodySlack = 16 << 10

// setBytes returns the cap in bytes on the body of a single set. A text may use six bytes for each byte of payload (\u0041).
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
	d, err := awaitDecision(ctx, s.alarms.Submit(ctx, clock.Op{Set: op}))
	if err != nil {
		return err
	}
	return s.respondAlarm(c, setStatus(d.Verdict), &d.Alarm)
}

// readSet builds a set from the request's path, headers and body. It returns the set with the body, which the caller releases.
func (s *Server) readSet(c echo.Context) (*body, *clock.Set, error) {
	key, err := keyOf(c)
	if err != nil {
		return nil, nil, err
	}
	condition, err := setCondition(c.Request().Header)
	if err != nil {
		return nil, nil, err
	}
	b, err := s.readBody(c, s.setBytes(), largeBodies)
	if err != nil {
		return nil, nil, err
	}
	set, err := decodeSetWith(b.bytes, condition)
	if err != nil {
		b.release()
		return nil, nil, err
	}
	set.Key, set.Traceparent = key, traceparentOf(c.Request().Header)
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
		return nil, clock.Invalid(clock.CodeAmbiguous, "if", "give the condition in the body or in a header, not in both")
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

// awaitDecision waits for p, at most until the deadline of ctx, and at most clock.RequestTimeout. Then it withdraws p. It goes on waiting
// when the client closes its sending half, because such a client still reads.
func awaitDecision(ctx context.Context, p *clock.Pending) (*clock.Decision, error) {
	select {
	case <-p.Done():
		return p.Wait(pastDeadline)
	default:
	}
	timer := time.NewTimer(untilDeadline(ctx)) // costs less than a context
	defer timer.Stop()
	select {
	case <-p.Done():
	case <-timer.C:
		p.Withdraw()
	}
	return p.Wait(pastDeadline)
}

// untilDeadline returns the time until the deadline of ctx, at most clock.RequestTimeout.
func untilDeadline(ctx context.Context) time.Duration {
	if end, given := ctx.Deadline(); given {
		return min(time.Until(end), clock.RequestTimeout)
	}
	return clock.RequestTimeout
}

// pastDeadline is a context whose deadline has passed. Pending.Wait returns at once with it.
var pastDeadline, _ = context.WithDeadline(context.Background(), time.Time{})

// respondAlarm sends the alarm, with its generation as ETag.
func (s *Server) respondAlarm(c echo.Context, status int, a *clock.Alarm) error {
	c.Response().Header().Set("ETag", etag(a))
	return s.respondJSON(c, status, appendAlarm(make([]byte, 0, alarmBuffer+2*len(a.Payload)), a))
}

// alarmBuffer is a size in bytes that nearly always holds an alarm as JSON without its payload.
const alarmBuffer = 1024
