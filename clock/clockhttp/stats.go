package clockhttp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/stats"
)

// Stats has the rates and the lateness of all nodes. *stats.Joiner implements it.
type Stats interface {
	// Last returns the ended steps of a range.
	Last(ctx context.Context, of stats.Range) (stats.Joined, error)
}

var _ Stats = (*stats.Joiner)(nil)

// shownApplications is the most applications that a response lists.
const shownApplications = 20

// showStats responds with the figures of the last hour or day, one number for each step, as charts need them.
func (s *Server) showStats(c echo.Context) error {
	of, application, err := statsQuery(c)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	if s.stats == nil {
		return absentPart("this node keeps no statistics")
	}
	if err := front.CoverNamed(c.Request(), application); err != nil {
		return err
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	joined, err := s.stats.Last(ctx, of)
	if err != nil {
		return readFailure(ctx, err)
	}
	if joined.Steps == nil {
		return &clock.Error{Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second,
			Detail: "the database's clock is not known yet; repeat later"}
	}
	if caller := front.CallerOf(c.Request()); !caller.CoversAll() {
		joined.Steps = coveredSteps(joined.Steps, caller.Covers)
	}
	return s.respondRead(c, appendStats(make([]byte, 0, 32<<10), of, application, &joined))
}

// statsQuery reads the request's query.
func statsQuery(c echo.Context) (of stats.Range, application string, err error) {
	values, err := queryParams(c, "application", "range")
	if err != nil {
		return of, "", err
	}
	switch name := values.Get("range"); name {
	case "", stats.Hour.Name:
		of = stats.Hour
	case stats.Day.Name:
		of = stats.Day
	default:
		return of, "", clock.Invalid(clock.CodeInvalidValue, "range",
			fmt.Sprintf("range is %.64q; it must be hour or day", name))
	}
	application, err = applicationParam(values)
	return of, application, err
}

// statsColumns are the columns of a response: a number for each step. Null stands for the lateness of a step without
// rings.
var statsColumns = []struct {
	name   string
	append func(b []byte, f *stats.Figures) []byte
}{
	{"sets", func(b []byte, f *stats.Figures) []byte { return strconv.AppendInt(b, f.Sets, 10) }},
	{"cancels", func(b []byte, f *stats.Figures) []byte { return strconv.AppendInt(b, f.Cancels, 10) }},
	{"refused", func(b []byte, f *stats.Figures) []byte { return strconv.AppendInt(b, f.Refused, 10) }},
	{"rings", func(b []byte, f *stats.Figures) []byte { return strconv.AppendInt(b, f.Rings, 10) }},
	{"failed_tries", func(b []byte, f *stats.Figures) []byte { return strconv.AppendInt(b, f.Failed, 10) }},
	{"lateness_p50", appendLateness(func(s *stats.Sketch) time.Duration { return s.Quantile(.5) })},
	{"lateness_p99", appendLateness(func(s *stats.Sketch) time.Duration { return s.Quantile(.99) })},
	{"lateness_max", appendLateness(func(s *stats.Sketch) time.Duration { return s.Max })},
}

// appendLateness returns a column of a lateness in seconds.
func appendLateness(value func(*stats.Sketch) time.Duration) func([]byte, *stats.Figures) []byte {
	return func(b []byte, f *stats.Figures) []byte {
		if len(f.Lateness.Buckets) == 0 {
			return append(b, "null"...)
		}
		return strconv.AppendFloat(b, value(&f.Lateness).Round(time.Millisecond).Seconds(), 'f', -1, 64)
	}
}

// coveredSteps returns the steps with the covered applications alone. A total is the sum of those among the busiest of
// its step.
func coveredSteps(steps []stats.Step, covers func(application string) bool) []stats.Step {
	covered := slices.Clone(steps)
	for i := range covered {
		step := &covered[i]
		step.Total, step.Applications = stats.Figures{}, map[string]*stats.Figures{}
		for name, f := range steps[i].Applications {
			if covers(name) {
				step.Applications[name] = f
				step.Total.Add(f)
			}
		}
	}
	return covered
}

// appendStats appends the figures of all applications, or of one.
func appendStats(b []byte, of stats.Range, application string, joined *stats.Joined) []byte {
	b = appendString(append(b, `{"range":`...), of.Name)
	b = appendOptional(append(b, `,"application":`...), application)
	b = strconv.AppendInt(append(b, `,"step_seconds":`...), int64(of.Step/time.Second), 10)
	b = appendInstant(append(b, `,"start":`...), joined.Start)
	b = appendList(append(b, `,"nodes":`...), joined.Nodes, appendText)
	b = appendList(append(b, `,"missing":`...), joined.Missing, appendMissing)
	for _, column := range statsColumns {
		b = append(append(append(b, `,"`...), column.name...), `":`...)
		b = appendList(b, joined.Steps,
			func(step *stats.Step, b []byte) []byte { return column.append(b, figuresOf(step, application)) })
	}
	b = appendList(append(b, `,"applications":`...), busiestOf(joined.Steps), appendApplicationStats)
	return append(b, '}')
}

func appendMissing(m *stats.Missing, b []byte) []byte {
	b = appendOptional(append(b, `{"node":`...), m.Node)
	return append(appendString(append(b, `,"reason":`...), m.Reason), '}')
}

// figuresOf returns the figures of an application in a step, or of all applications if it is "".
func figuresOf(step *stats.Step, application string) *stats.Figures {
	if application == "" {
		return &step.Total
	}
	if f := step.Applications[application]; f != nil {
		return f
	}
	return &stats.Figures{}
}

// applicationStats are the figures of one application in all steps in which it was among the busiest.
type applicationStats struct {
	name string
	stats.Figures
}

// busiestOf returns the busiest applications of all steps together, the busiest first.
func busiestOf(steps []stats.Step) []applicationStats {
	sums := map[string]*applicationStats{}
	for i := range steps {
		for name, f := range steps[i].Applications {
			if sums[name] == nil {
				sums[name] = &applicationStats{name: name}
			}
			sums[name].Add(f)
		}
	}
	var all []applicationStats
	for _, sum := range sums {
		all = append(all, *sum)
	}
	slices.SortFunc(all, func(a, b applicationStats) int {
		return cmp.Or(cmp.Compare(b.Activity(), a.Activity()), strings.Compare(a.name, b.name))
	})
	return all[:min(len(all), shownApplications)]
}

func appendApplicationStats(a *applicationStats, b []byte) []byte {
	b = appendString(append(b, `{"application":`...), a.name)
	for _, column := range statsColumns {
		b = append(append(append(b, `,"`...), column.name...), `":`...)
		b = column.append(b, &a.Figures)
	}
	return append(b, '}')
}
