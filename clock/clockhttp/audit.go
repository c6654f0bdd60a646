package clockhttp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/front"
)

// Audit reads acts of people from the database, the newest first.
type Audit func(ctx context.Context, q clock.ActsQuery) ([]clock.Act, error)

// actsFilter selects acts. No index has the actor and the action: they are compared among the acts that are read.
type actsFilter struct {
	clock.ActsQuery
	actor, action string // empty: any
	caller        *access.Caller
}

// page returns the acts to show among the acts that were read, and the cursor behind them, "" at the end of the audit.
func (f *actsFilter) page(read []clock.Act, limit int) (shown []clock.Act, next string) {
	for i := range read {
		if len(shown) == limit {
			return shown, strconv.FormatInt(read[i-1].ID, 10)
		}
		if f.shows(&read[i]) {
			shown = append(shown, read[i])
		}
	}
	if len(read) == f.Limit {
		next = strconv.FormatInt(read[len(read)-1].ID, 10)
	}
	return shown, next
}

// shows reports whether the filter selects an act that the caller may see.
func (f *actsFilter) shows(a *clock.Act) bool {
	covered := f.caller.CoversAll() || a.Application != "" && f.caller.Covers(a.Application)
	return covered && (f.actor == "" || f.actor == a.Name) && (f.action == "" || f.action == a.Action)
}

// listActs responds with a page of the audit. A token that does not cover all applications sees the acts on its own
// ones.
func (s *Server) listActs(c echo.Context) error {
	q, limit, err := readActsFilter(c)
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
	acts, err := s.audit(ctx, q.ActsQuery)
	if err != nil {
		return readFailure(ctx, err)
	}
	shown, next := q.page(acts, limit)
	b := appendList([]byte(`{"acts":`), shown, appendAct)
	return s.respondRead(c, append(appendOptional(append(b, `,"next_cursor":`...), next), '}'))
}

// readActsFilter reads the request's query, and how many acts a page has at most. The cursor of a page is the id of the
// last act that was read for it.
func readActsFilter(c echo.Context) (q *actsFilter, limit int, err error) {
	values, err := queryParams(c, "action", "actor", "application", "cursor", "limit", "subject")
	if err != nil {
		return nil, 0, err
	}
	q = &actsFilter{actor: values.Get("actor"), action: values.Get("action"), caller: front.CallerOf(c.Request())}
	if q.Application, err = applicationParam(values); err != nil {
		return nil, 0, err
	}
	switch q.Subject = values.Get("subject"); {
	case q.Subject != "" && q.Application == "":
		return nil, 0, clock.Invalid(clock.CodeInvalidValue, "subject", "a subject needs its application")
	case q.Subject != "" && clock.ValidateBusinessID(q.Subject) != nil:
		return nil, 0, clock.Invalid(clock.CodeInvalidValue, "subject",
			"no act has this subject: it is too long or no text")
	case q.action != "" && !slices.Contains(clock.ActActions, q.action):
		return nil, 0, clock.Invalid(clock.CodeInvalidValue, "action",
			fmt.Sprintf("action is %.64q; it must be one of %s", q.action, strings.Join(clock.ActActions, ", ")))
	}
	if cursor := values.Get("cursor"); cursor != "" {
		if q.BeforeID, err = strconv.ParseInt(cursor, 10, 64); err != nil || q.BeforeID < 1 {
			return nil, 0, clock.Invalid(clock.CodeInvalidCursor, "cursor",
				"the cursor is not from a page of the audit; begin again without a cursor")
		}
	}
	limit, err = numberParam(values, "limit", clock.DefaultActsLimit, clock.MaxActsLimit)
	if q.Limit = limit; q.actor+q.action != "" {
		q.Limit = clock.MaxActsLimit
	}
	return q, limit, err
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
