package clockhttp

import (
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// smallBytes caps the body of an answer to a ring, or of an action on one alarm. A reason and a name fit, even with six
// bytes a character.
const smallBytes = 16 << 10

// answerRing returns the handler of one kind of answer.
func (s *Server) answerRing(kind clock.AnswerKind) echo.HandlerFunc {
	return func(c echo.Context) error {
		a, err := s.readAnswer(c, kind)
		if err != nil {
			return err
		}
		ctx, cancel := lastingContext(c, clientWait(c))
		defer cancel()
		d, err := s.alarms.Answer(ctx, *a).Await(ctx)
		if err != nil {
			return err
		}
		return s.respondAlarm(c, http.StatusOK, &d.Alarm)
	}
}

// readAnswer builds an answer from the request's path and body.
func (s *Server) readAnswer(c echo.Context, kind clock.AnswerKind) (*clock.Answer, error) {
	app, err := applicationOf(c)
	if err != nil {
		return nil, err
	}
	id, err := pathParam(c, "message_id")
	if err != nil {
		return nil, err
	}
	ring, err := clock.ParseRingID(id)
	if err != nil {
		return nil, err
	}
	if err := noCondition(c.Request().Header, "an answer takes no %s: the message id names the generation"); err != nil {
		return nil, err
	}
	b, err := s.readBody(c, smallBytes, front.LargeBodies)
	if err != nil {
		return nil, err
	}
	defer b.release()
	a, err := decodeAnswer(b.bytes, kind)
	if err != nil {
		return nil, err
	}
	a.Key.Application, a.Ring = app, ring
	if a.By == "" {
		a.By = front.By(c.Request())
	}
	return a, nil
}

// decodeAnswer reads an answer's body, which may be empty. The domain checks ranges.
func decodeAnswer(body []byte, kind clock.AnswerKind) (*clock.Answer, error) {
	a := &clock.Answer{Kind: kind}
	err := decodeOptional(body, kind.Fields(), func(name string, raw []byte) error {
		switch name {
		case "delay":
			a.Delay.Given = !isNull(raw)
			return decodeDuration(raw, name, &a.Delay.Span)
		case "reason":
			return decodeReason(raw, &a.Reason)
		default:
			return decodeString(raw, name, &a.By)
		}
	})
	return a, err
}

func decodeReason(raw []byte, into *string) error {
	if err := decodeString(raw, "reason", into); err != nil {
		return err
	}
	return clock.CheckReason(*into)
}

// decodeOptional reads a body that is empty or an object with some of these fields. It calls decode for each field. It
// returns a 400 problem for a body that is not JSON, and an ErrInvalid with the field's name for every other fault.
func decodeOptional(body []byte, fields []string, decode func(name string, raw []byte) error) error {
	if len(skipBlanks(body)) == 0 && utf8.Valid(body) {
		return nil
	}
	if err := checkJSON(body); err != nil {
		return err
	}
	ms, ok := objectMembers(body)
	if !ok {
		return clock.Invalid(clock.CodeInvalidValue, "", "the body must be an object or empty, not "+kindOf(body))
	}
	_, err := ms.each("", func(name string, value []byte) error {
		if !slices.Contains(fields, name) {
			return unknownField("", name, slices.Clone(fields))
		}
		return decode(name, value)
	})
	return err
}
