package clockhttp

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// kick and discard change one dead or expired alarm.
func (s *Server) kick(c echo.Context) error {
	return s.actOnAlarm(c,
		func(k clock.Key, i clock.Condition) clock.Op { return clock.Op{Kick: &clock.Kick{Key: k, If: i}} })
}

func (s *Server) discard(c echo.Context) error {
	return s.actOnAlarm(c,
		func(k clock.Key, i clock.Condition) clock.Op { return clock.Op{Discard: &clock.Discard{Key: k, If: i}} })
}

// actOnAlarm serves an action on one alarm: its body has at most a note, and it accepts If-Match.
func (s *Server) actOnAlarm(c echo.Context, op func(clock.Key, clock.Condition) clock.Op) error {
	return s.actWith(c, op, nil, nil)
}

// actWith is actOnAlarm for a body with further fields, which member reads.
func (s *Server) actWith(c echo.Context, op func(clock.Key, clock.Condition) clock.Op, fields []string,
	member func(name string, raw []byte) error,
) error {
	key, err := keyOf(c)
	if err != nil {
		return err
	}
	condition, err := generationCondition(c.Request().Header)
	if err != nil {
		return err
	}
	b, err := s.readBody(c, smallBytes, front.LargeBodies)
	if err != nil {
		return err
	}
	asked := op(key, condition)
	asked.Actor = front.Actor(c.Request())
	err = decodeOptional(b.bytes, append([]string{"note"}, fields...), func(name string, raw []byte) error {
		if name != "note" {
			return member(name, raw)
		}
		return decodeString(raw, name, &asked.Note)
	})
	b.release()
	if err != nil {
		return err
	}
	ctx, cancel := opContext(c)
	defer cancel()
	d, err := s.alarms.Submit(ctx, asked).Await(ctx)
	if err != nil {
		return err
	}
	return s.respondAlarm(c, http.StatusOK, &d.Alarm)
}

// kickAll and discardAll change the dead and expired alarms that a filter selects.
func (s *Server) kickAll(c echo.Context) error {
	return s.changeDeadByFilter(c, "kicked", s.alarms.KickAll)
}

func (s *Server) discardAll(c echo.Context) error {
	return s.changeDeadByFilter(c, "discarded", s.alarms.DiscardAll)
}

// changeDeadByFilter responds with the number of changed alarms, the number of failed alarms, and a cursor for the
// remaining alarms. If the database fails, the response is 503, and the client may repeat the whole request.
func (s *Server) changeDeadByFilter(
	c echo.Context, done string, each func(context.Context, clock.DeadQuery) (clock.DeadResult, error),
) error {
	q, err := s.readFilter(c)
	if err != nil {
		return err
	}
	q.Actor = front.Actor(c.Request())
	ctx, cancel := lastingContext(c, clock.RequestTimeout)
	defer cancel()
	r, err := each(ctx, q)
	if err != nil {
		return partlyDone(clock.UnavailableIfLate(ctx, err), done, r.Done)
	}
	b := strconv.AppendInt([]byte(`{"`+done+`":`), int64(r.Done), 10)
	b = strconv.AppendInt(append(b, `,"failed":`...), int64(r.Failed), 10)
	b = append(b, `,"cursor":`...)
	next := ""
	if r.Next != "" {
		next = clock.EncodeCursor(q.Application, clock.ListPosition{BusinessID: r.Next})
	}
	return s.respondJSON(c, http.StatusOK, append(appendOptional(b, next), '}'))
}

// partlyDone adds to err the number of alarms that were changed before the database failed.
func partlyDone(err error, done string, n int) error {
	if n == 0 || !errors.Is(err, clock.ErrUnavailable) && !errors.Is(err, clock.ErrUnconfirmed) {
		return err
	}
	p := front.ProblemOf(err)
	p.Detail = fmt.Sprintf("%d alarms were %s, then the request failed; repeat it for the other alarms: %s", n, done,
		p.Detail)
	return p
}

func (s *Server) readFilter(c echo.Context) (q clock.DeadQuery, err error) {
	app, err := applicationOf(c)
	if err != nil {
		return q, err
	}
	if err := noCondition(c.Request().Header, "a request with a filter accepts no %s, because it changes many alarms"); err != nil {
		return q, err
	}
	b, err := s.readBody(c, smallBytes, front.LargeBodies)
	if err != nil {
		return q, err
	}
	defer b.release()
	return decodeFilter(b.bytes, app)
}

// decodeFilter reads a filter for dead and expired alarms. An empty body selects all of them.
func decodeFilter(body []byte, app string) (clock.DeadQuery, error) {
	q := clock.DeadQuery{Application: app, Limit: clock.DefaultDeadLimit}
	err := decodeOptional(body, []string{"cursor", "limit", "prefix", "state"}, func(name string, raw []byte) error {
		switch name {
		case "state":
			return decodeDeadStates(raw, &q.States)
		case "limit":
			return decodeInt(raw, name, &q.Limit)
		case "prefix":
			return decodeString(raw, name, &q.Prefix)
		default:
			return decodeCursorField(raw, app, &q.After)
		}
	})
	return q, err
}

func decodeDeadStates(raw []byte, into *[]clock.State) error {
	if isNull(raw) {
		return nil
	}
	es, ok := arrayElements(raw)
	if !ok {
		return wrongType("state", `an array like ["dead", "expired"]`, raw)
	}
	for value, more := es.next(); more; value, more = es.next() {
		st, known := map[string]clock.State{`"dead"`: clock.Dead, `"expired"`: clock.Expired}[string(value)]
		if !known || len(*into) == 2 {
			return invalidDeadState()
		}
		*into = append(*into, st)
	}
	if len(*into) == 0 {
		return invalidDeadState() // the domain reads an empty list as both states
	}
	return nil
}

func invalidDeadState() error {
	return clock.Invalid(clock.CodeInvalidValue, "state",
		`state must be ["dead"], ["expired"] or both; leave it out for both`)
}

func decodeCursorField(raw []byte, app string, into *string) error {
	var cursor string
	if err := decodeString(raw, "cursor", &cursor); err != nil || cursor == "" {
		return err
	}
	after, err := clock.DecodeCursor(app, cursor)
	if *into = after.BusinessID; err == nil && *into == "" {
		return clock.Invalid(clock.CodeInvalidCursor, "cursor",
			"the cursor is from a list by due time; begin again without a cursor")
	}
	return err
}
