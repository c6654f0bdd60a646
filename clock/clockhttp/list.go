package clockhttp

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

func (s *Server) list(c echo.Context) error {
	q, err := listQuery(c)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	return s.respondPage(c, q, s.alarms.List)
}

// readList passes the alarms of a query to take until take returns false. next is where the list goes on; zero:
// nowhere.
type readList func(
	ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool,
) (next clock.ListPosition, err error)

// respondPage responds with a page of a list.
func (s *Server) respondPage(c echo.Context, q clock.ListQuery, read readList) error {
	p := listPage{memory: s.front.Memory, blockers: s.blockers}
	defer p.release()
	if err := s.fill(c, &p, q, read); err != nil {
		return err
	}
	return s.respond(c, http.StatusOK, echo.MIMEApplicationJSON, p.end(q.Application))
}

// fill adds alarms to the page until the page is full, the list ends, or a statement has found fewer alarms than it
// could: then it has looked at as many alarms as it may.
func (s *Server) fill(c echo.Context, p *listPage, q clock.ListQuery, read readList) error {
	if !p.begin() {
		return tooManyResponses()
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	for limit := q.Limit; ; {
		q.Limit = min(limit-p.count, listRead)
		before := p.count
		next, err := read(ctx, q, p.add)
		if err != nil {
			return readFailure(ctx, err)
		}
		if p.full && p.count == 0 {
			return tooManyResponses()
		}
		if p.next = next; p.full || next.IsZero() || p.count == limit || p.count-before < q.Limit {
			return nil
		}
		q.After = next
	}
}

// tooManyResponses returns the error for a read that finds no memory, because unread responses hold all response
// memory.
func tooManyResponses() error {
	return &clock.Error{
		Kind: clock.ErrUnavailable, Code: clock.CodeOverloaded, RetryAfter: time.Second,
		Detail: "too many large responses wait for their clients; repeat later",
	}
}

// listParams maps each query parameter of a list to the function that puts its value into the query.
var listParams = map[string]func(q *clock.ListQuery, value string) error{
	"state": listStates,
	"due_after": func(q *clock.ListQuery, v string) error {
		return listInstant("due_after", v, &q.DueAfter)
	},
	"due_before": func(q *clock.ListQuery, v string) error {
		return listInstant("due_before", v, &q.DueBefore)
	},
	"prefix": func(q *clock.ListQuery, v string) error {
		q.Prefix = v
		if len(v) > clock.MaxBusinessID || !utf8.ValidString(v) || strings.ContainsFunc(v, unicode.IsControl) {
			return clock.Invalid(clock.CodeInvalidValue, "prefix", fmt.Sprintf(
				"prefix must be the beginning of a business_id: at most %d bytes of UTF-8 without control characters",
				clock.MaxBusinessID))
		}
		return nil
	},
	"limit": func(q *clock.ListQuery, v string) (err error) {
		q.Limit, err = strconv.Atoi(v)
		if err != nil || q.Limit < 1 || q.Limit > clock.MaxListLimit {
			return clock.Invalid(clock.CodeOutOfRange, "limit",
				fmt.Sprintf("limit must be a number from 1 to %d", clock.MaxListLimit))
		}
		return nil
	},
	"cursor": func(q *clock.ListQuery, v string) (err error) {
		q.After, err = clock.DecodeCursor(q.Application, v)
		return err
	},
}

// listQuery reads the query of a list of the application that the path names.
func listQuery(c echo.Context) (clock.ListQuery, error) {
	application, err := applicationOf(c)
	if err != nil {
		return clock.ListQuery{}, err
	}
	values, err := queryValues(c)
	if err != nil {
		return clock.ListQuery{}, err
	}
	return filterQuery(application, values)
}

// repeatingQuery reads the query of a list of repeating alarms.
func repeatingQuery(c echo.Context) (clock.ListQuery, error) {
	values, err := queryValues(c)
	if err != nil {
		return clock.ListQuery{}, err
	}
	if len(values["application"]) > 1 {
		return clock.ListQuery{}, duplicateField("application")
	}
	application, err := applicationParam(values)
	if err != nil {
		return clock.ListQuery{}, err
	}
	values.Del("application")
	return filterQuery(application, values, "application")
}

// filterQuery reads the query of a list; an empty application: of all. Only the parameter state may occur more than
// once. read are the names of parameters that were read already.
func filterQuery(application string, values url.Values, read ...string) (clock.ListQuery, error) {
	q := clock.ListQuery{
		Application: application, DueAfter: clock.NoInstant, DueBefore: clock.NoInstant, Limit: clock.DefaultListLimit,
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := listParam(&q, name, values[name], read); err != nil {
			return q, err
		}
	}
	return q, nil
}

func listParam(q *clock.ListQuery, name string, values, read []string) error {
	take, known := listParams[name]
	if !known {
		names := slices.Sorted(slices.Values(slices.Concat(read, slices.Collect(maps.Keys(listParams)))))
		return clock.Invalid(codeUnknownParameter, name,
			fmt.Sprintf("unknown parameter %q; known are %s", name, strings.Join(names, ", ")))
	}
	if len(values) > 1 && name != "state" {
		return duplicateField(name)
	}
	for _, v := range values {
		if err := take(q, v); err != nil {
			return err
		}
	}
	return nil
}

// listStates adds the states in value, separated by commas.
func listStates(q *clock.ListQuery, value string) error {
	for name := range strings.SplitSeq(value, ",") {
		st, err := clock.ParseState(name)
		if err != nil {
			return clock.Invalid(clock.CodeInvalidValue, "state", err.Error())
		}
		if !slices.Contains(q.States, st) {
			q.States = append(q.States, st)
		}
	}
	return nil
}

// listInstant reads a time. A query decodes a plus sign to a blank. So a value that is not a time is read again with
// its blanks as plus signs, because a blank may be the plus of an offset.
func listInstant(name, value string, into *clock.Instant) error {
	i, err := clock.ParseInstant(value)
	if err != nil {
		i, err = parseBlankOffset(value, err)
	}
	if err != nil {
		return clock.Invalid(clock.CodeInvalidValue, name, name+": "+err.Error())
	}
	*into = i
	return nil
}

func parseBlankOffset(value string, err error) (clock.Instant, error) {
	if i, plusErr := clock.ParseInstant(strings.ReplaceAll(value, " ", "+")); plusErr == nil {
		return i, nil
	}
	return clock.NoInstant, err
}
