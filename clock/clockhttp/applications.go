package clockhttp

import (
	"context"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// ApplicationsQuery asks for a page of the known applications.
type ApplicationsQuery struct {
	After  string // only names after this one; may be empty
	Limit  int    // applications, at most: 1 to MaxApplicationsLimit
	Only   string // only this application; empty: all
	Counts bool   // count the alarms of each application, up to a limit
	// Attention: only applications with expired, dead or paused alarms, and without Counts the counts of these alone.
	Attention bool
	// Covers reports whether an application may be listed.
	Covers func(application string) bool
}

// Limits of an ApplicationsQuery.
const (
	DefaultApplicationsLimit = 100
	MaxApplicationsLimit     = 500
)

// ApplicationsView is a page of the applications that have alarms or settings.
type ApplicationsView struct {
	Applications []ApplicationView // by name
	DatabaseTime clock.Instant     // database's time as this node knows it
	// OverdueUntil is the end of the due times that were looked at for OldestOverdue. It is before DatabaseTime only if
	// many alarms are overdue.
	OverdueUntil clock.Instant
	More         bool // further applications follow
}

// ApplicationView is one application.
type ApplicationView struct {
	Name    string
	Version int64            // version of its settings as this node applies them; 0: the defaults
	Target  clock.TargetKind // where this node rings it; NoTarget: nowhere, its alarms wait
	Paused  bool
	// OldestOverdue is the earliest due time of its overdue alarms; NoInstant if none is due before OverdueUntil.
	OldestOverdue clock.Instant
	LastSeen      clock.Instant     // when it last set or cancelled an alarm, to about a minute; NoInstant: not known
	Blockers      []clock.Blocker   // reasons why its due alarms do not ring now, as this node knows them
	Counts        clock.StateCounts // alarms by state; nil: not counted
	Counted       Counted
}

// Counted says which alarms of an application were counted.
type Counted struct {
	All       bool // all alarms
	Attention bool // all expired, dead and paused alarms
	Only      bool // only expired, dead and paused alarms
}

// Applications reads a page of the applications that a database knows.
type Applications func(ctx context.Context, q ApplicationsQuery) (ApplicationsView, error)

// listApplications responds with a page of the known applications.
func (s *Server) listApplications(c echo.Context) error {
	q, err := applicationsQuery(c)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	if s.known == nil {
		return absentPart("this server does not know its applications")
	}
	if err := front.CoverNamed(c.Request(), q.Only); err != nil {
		return err
	}
	q.Covers = front.CallerOf(c.Request()).Covers
	ctx, cancel := clientContext(c)
	defer cancel()
	v, err := s.known(ctx, q)
	if err != nil {
		return readFailure(ctx, err)
	}
	return s.respondRead(c, v.append(nil))
}

// applicationsQuery reads the request's query. The cursor of a page is the name of its last application.
func applicationsQuery(c echo.Context) (q ApplicationsQuery, err error) {
	values, err := queryParams(c, "application", "attention", "counts", "cursor", "limit")
	if err != nil {
		return q, err
	}
	if q.After = values.Get("cursor"); q.After != "" && clock.ValidateApplication(q.After) != nil {
		return q, clock.Invalid(clock.CodeInvalidCursor, "cursor",
			"the cursor is not from a list of applications; begin again without a cursor")
	}
	if q.Only, err = applicationParam(values); err != nil {
		return q, err
	}
	if q.Counts, err = flagParam(values, "counts"); err != nil {
		return q, err
	}
	if q.Attention, err = flagParam(values, "attention"); err != nil {
		return q, err
	}
	q.Limit, err = numberParam(values, "limit", DefaultApplicationsLimit, MaxApplicationsLimit)
	return q, err
}

func (v *ApplicationsView) append(b []byte) []byte {
	b = appendInstant(append(b, `{"database_time":`...), v.DatabaseTime)
	b = appendInstant(append(b, `,"overdue_until":`...), v.OverdueUntil)
	b = appendList(append(b, `,"applications":`...), v.Applications, (*ApplicationView).append)
	next := ""
	if v.More {
		next = v.Applications[len(v.Applications)-1].Name
	}
	return append(appendOptional(append(b, `,"next_cursor":`...), next), '}')
}

func (v *ApplicationView) append(b []byte) []byte {
	b = appendString(append(b, `{"application":`...), v.Name)
	b = strconv.AppendInt(append(b, `,"settings_version":`...), v.Version, 10)
	b = appendOptional(append(b, `,"target":`...), v.Target.String())
	b = strconv.AppendBool(append(b, `,"paused":`...), v.Paused)
	b = appendInstant(append(b, `,"oldest_overdue":`...), v.OldestOverdue)
	b = appendInstant(append(b, `,"last_seen":`...), v.LastSeen)
	b = append(appendBlockers(b, v.Blockers), `,"counts":`...)
	if v.Counts == nil {
		return append(b, "null}"...)
	}
	return append(v.appendCounts(b), '}')
}

// appendCounts appends a number for each state, null if it was not counted, and whether they are complete.
func (v *ApplicationView) appendCounts(b []byte) []byte {
	b = append(b, '{')
	for _, state := range clock.States() {
		b = append(append(append(b, '"'), state.String()...), `":`...)
		if v.Counted.Only && !state.Attention() {
			b = append(b, "null,"...)
		} else {
			b = append(strconv.AppendInt(b, int64(v.Counts[state]), 10), ',')
		}
	}
	b = strconv.AppendBool(append(b, `"complete":`...), v.Counted.All)
	return append(strconv.AppendBool(append(b, `,"attention_complete":`...), v.Counted.Attention), '}')
}
