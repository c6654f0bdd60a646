package clockhttp

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

const (
	// ListBytes ends a page of a list early: payloads can be large. The cursor tells that there is more.
	ListBytes = 4 << 20
	// listRead is how many alarms are read at once, so that no more of them are held.
	listRead = 100
)

func (s *Server) list(c echo.Context) error {
	q, err := listQuery(c)
	if err != nil {
		return err
	}
	b, more, err := s.readPage(c, q)
	if err != nil {
		return err
	}
	b = append(b, `],"next_cursor":`...)
	if more.BusinessID == "" {
		b = append(b, "null}"...)
	} else {
		b = append(b, '"')
		b = append(b, encodeCursor(more)...)
		b = append(b, `"}`...)
	}
	return s.answerJSON(c, http.StatusOK, b)
}

// readPage returns the page with its array open, and the key it ends with if there may be more.
func (s *Server) readPage(c echo.Context, q clock.ListQuery) (b []byte, more clock.Key, err error) {
	ctx, cancel := readContext(c)
	defer cancel()
	b = append(b, `{"alarms":[`...)
	for left := q.Limit; left > 0 && len(b) < ListBytes; left -= q.Limit {
		q.Limit = min(left, listRead)
		alarms, err := s.alarms.List(ctx, q)
		if err != nil {
			return nil, more, unavailableIfLate(ctx, err)
		}
		for i := range alarms {
			if more.BusinessID != "" || i > 0 {
				b = append(b, ',')
			}
			b = appendAlarm(b, &alarms[i])
		}
		if len(alarms) < q.Limit {
			return b, clock.Key{}, nil
		}
		more = alarms[len(alarms)-1].Key
		q.After = more.BusinessID
	}
	return b, more, nil
}

// listParams are the query parameters of a list, each with what it does to the query.
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
				"prefix must be how a business_id may begin: at most %d bytes of UTF-8 without control characters", clock.MaxBusinessID))
		}
		return nil
	},
	"limit": func(q *clock.ListQuery, v string) (err error) {
		q.Limit, err = strconv.Atoi(v)
		if err != nil || q.Limit < 1 || q.Limit > clock.MaxListLimit {
			return clock.Invalid(clock.CodeOutOfRange, "limit", fmt.Sprintf("limit must be a number from 1 to %d", clock.MaxListLimit))
		}
		return nil
	},
	"cursor": func(q *clock.ListQuery, v string) (err error) {
		q.After, err = decodeCursor(q.Application, v)
		return err
	},
}

// listQuery reads the request's query. state may come more than once, the others once.
func listQuery(c echo.Context) (clock.ListQuery, error) {
	q := clock.ListQuery{DueAfter: clock.NoInstant, DueBefore: clock.NoInstant, Limit: clock.DefaultListLimit}
	var err error
	if q.Application, err = applicationOf(c); err != nil {
		return q, err
	}
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return q, &problem{Status: http.StatusBadRequest, Code: codeInvalidPath, Detail: "the query cannot be decoded: " + err.Error()}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if err := listParam(&q, name, values[name]); err != nil {
			return q, err
		}
	}
	return q, nil
}

func listParam(q *clock.ListQuery, name string, values []string) error {
	take, known := listParams[name]
	if !known {
		names := slices.Sorted(maps.Keys(listParams))
		return clock.Invalid(codeUnknownParameter, name, fmt.Sprintf("unknown parameter %q; known are %s", name, strings.Join(names, ", ")))
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

// listStates takes one state or several with commas between.
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

// listInstant takes a time. A plus sign in a query stands for a blank, so where it cannot be read as it is, the
// blank is taken for the plus of an offset.
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
