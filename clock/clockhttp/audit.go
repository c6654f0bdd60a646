package clockhttp

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// Audit reads acts of people from the database, the newest first.
type Audit func(ctx context.Context, q clock.ActsQuery) ([]clock.Act, error)

// listActs responds with a page of the audit. A token that does not cover all applications sees the acts on its own
// ones.
func (s *Server) listActs(c echo.Context) error {
	q, err := actsQuery(c)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	if err := front.CoverNamed(c.Request(), q.Application); err != nil {
		return err
	}
	if s.audit == nil {
		return absentPart("this server has no audit")
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	acts, err := s.audit(ctx, q)
	if err != nil {
		return readFailure(ctx, err)
	}
	next := ""
	if len(acts) == q.Limit {
		next = strconv.FormatInt(acts[len(acts)-1].ID, 10)
	}
	caller, shown := front.CallerOf(c.Request()), make([]clock.Act, 0, len(acts))
	for _, a := range acts {
		if caller.CoversAll() || a.Application != "" && caller.Covers(a.Application) {
			shown = append(shown, a)
		}
	}
	b := appendList([]byte(`{"acts":`), shown, appendAct)
	return s.respondRead(c, append(appendOptional(append(b, `,"next_cursor":`...), next), '}'))
}

// actsQuery reads the request's query. The cursor of a page is the id of its last act.
func actsQuery(c echo.Context) (q clock.ActsQuery, err error) {
	values, err := queryParams(c, "application", "cursor", "limit")
	if err != nil {
		return q, err
	}
	if q.Application, err = applicationParam(values); err != nil {
		return q, err
	}
	if cursor := values.Get("cursor"); cursor != "" {
		if q.BeforeID, err = strconv.ParseInt(cursor, 10, 64); err != nil || q.BeforeID < 1 {
			return q, clock.Invalid(clock.CodeInvalidCursor, "cursor",
				"the cursor is not from a page of the audit; begin again without a cursor")
		}
	}
	q.Limit, err = numberParam(values, "limit", clock.DefaultActsLimit, clock.MaxActsLimit)
	return q, err
}

func appendAct(a *clock.Act, b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"id":`...), a.ID, 10)
	b = appendInstant(append(b, `,"at":`...), a.At)
	b = appendOptional(append(b, `,"actor":`...), a.Name)
	b = appendOptional(append(b, `,"token":`...), a.Token)
	b = appendOptional(append(b, `,"from":`...), a.From)
	b = appendOptional(append(b, `,"request_id":`...), a.RequestID)
	b = appendString(append(b, `,"action":`...), a.Action)
	b = appendOptional(append(b, `,"application":`...), a.Application)
	b = appendOptional(append(b, `,"subject":`...), a.Subject)
	b = appendDocument(append(b, `,"before":`...), a.Before)
	b = appendDocument(append(b, `,"after":`...), a.After)
	return append(b, '}')
}

// appendDocument appends a JSON document, null for none.
func appendDocument(b []byte, document string) []byte {
	switch {
	case document == "":
		return append(b, "null"...)
	case !json.Valid([]byte(document)): // changed in SQL
		return appendString(b, document)
	}
	return append(b, document...)
}
