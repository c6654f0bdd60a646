package clockhttp

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// forecastSteps are the lengths of steps by name, and the number of steps that a response has if the request does not
// name one.
var forecastSteps = map[string]struct {
	length time.Duration
	count  int
}{
	"second": {time.Second, 60}, "minute": {time.Minute, 60}, "hour": {time.Hour, 24}, "day": {24 * time.Hour, 14},
}

// Forecast counts the rings that are due in the next steps. It sets From to the begin of the current step, by the
// database's clock, and returns it.
type Forecast func(ctx context.Context, q clock.ForecastQuery) (f clock.Forecast, from clock.Instant, err error)

// showForecast responds with the number of rings that are due in each of the next steps.
func (s *Server) showForecast(c echo.Context) error {
	by, q, err := forecastQuery(c)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	if s.forecast == nil {
		return absentPart("this server has no forecast")
	}
	if err := front.CoverNamed(c.Request(), q.Application); err != nil {
		return err
	}
	if q.Application == "" && !front.CallerOf(c.Request()).CoversAll() {
		return clock.Invalid(clock.CodeInvalidValue, "application",
			"the token does not cover all applications: name one")
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	f, from, err := s.forecast(ctx, q)
	if err != nil {
		return readFailure(ctx, err)
	}
	b := appendString(append(make([]byte, 0, 16<<10), `{"by":`...), by)
	b = appendOptional(append(b, `,"application":`...), q.Application)
	b = appendInstant(append(b, `,"start":`...), from)
	b = strconv.AppendInt(append(b, `,"step_seconds":`...), int64(q.Step/time.Second), 10)
	number := func(n *int64, b []byte) []byte { return strconv.AppendInt(b, *n, 10) }
	b = strconv.AppendBool(append(b, `,"exact":`...), f.Exact())
	b = strconv.AppendBool(append(b, `,"complete":`...), !f.Cut)
	b = appendList(append(b, `,"due":`...), f.Due, number)
	b = appendList(append(b, `,"repeats":`...), f.Repeats, number)
	part := func(a *clock.ApplicationForecast, b []byte) []byte {
		b = appendString(append(b, `{"application":`...), a.Application)
		return append(appendList(append(b, `,"due":`...), a.Due, number), '}')
	}
	b = appendList(append(b, `,"applications":`...), f.Applications, part)
	return s.respondRead(c, append(b, '}'))
}

// forecastQuery reads the request's query.
func forecastQuery(c echo.Context) (by string, q clock.ForecastQuery, err error) {
	values, err := queryParams(c, "application", "applications", "by", "count")
	if err != nil {
		return by, q, err
	}
	if by = values.Get("by"); by == "" {
		by = "minute"
	}
	step, known := forecastSteps[by]
	if !known {
		return by, q, clock.Invalid(clock.CodeInvalidValue, "by",
			fmt.Sprintf("by is %.64q; it must be second, minute, hour or day", by))
	}
	q.Step = step.length
	if q.Count, err = numberParam(values, "count", step.count, clock.MaxForecastSteps); err != nil {
		return by, q, err
	}
	if q.Application, err = applicationParam(values); err != nil {
		return by, q, err
	}
	if q.Applications, err = numberParam(values, "applications", 0, clock.MaxForecastApplications); err != nil {
		return by, q, err
	}
	err = q.Validate()
	return by, q, err
}
