package clockhttp

import (
	"context"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// Search finds alarms for people. *clock.Search implements it.
type Search interface {
	// Find passes each found alarm to take until take returns false. more reports that further alarms were found.
	Find(ctx context.Context, q clock.SearchQuery, take func(*clock.Alarm) bool) (more bool, err error)
}

var _ Search = (*clock.Search)(nil)

// searchAlarms responds with the alarms that a text leads to.
func (s *Server) searchAlarms(c echo.Context) error {
	q, err := searchQuery(c)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	if s.search == nil {
		return absentPart("this server does not search")
	}
	p := listPage{memory: s.front.Memory, blockers: s.blockers}
	defer p.release()
	if !p.begin() {
		return tooManyResponses()
	}
	if err := front.CoverNamed(c.Request(), q.Application); err != nil {
		return err
	}
	q.Covers = front.CallerOf(c.Request()).Covers
	ctx, cancel := clientContext(c)
	defer cancel()
	more, err := s.search.Find(ctx, q, p.add)
	switch {
	case err != nil:
		return readFailure(ctx, err)
	case p.full && p.count == 0:
		return tooManyResponses()
	}
	b := strconv.AppendBool(append(p.bytes, `],"more":`...), more)
	return s.respond(c, http.StatusOK, echo.MIMEApplicationJSON, append(b, "}\n"...))
}

// searchQuery reads the request's query.
func searchQuery(c echo.Context) (q clock.SearchQuery, err error) {
	values, err := queryParams(c, "application", "limit", "q")
	if err != nil {
		return q, err
	}
	q.Text = values.Get("q")
	if q.Application, err = applicationParam(values); err != nil {
		return q, err
	}
	q.Limit, err = numberParam(values, "limit", clock.DefaultSearchLimit, clock.MaxSearchLimit)
	return q, err
}
