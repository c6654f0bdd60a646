package clockhttp

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/bulk"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/settings"
)

// Bulk changes many alarms by filters. *bulk.Runner implements it.
type Bulk interface {
	Count(ctx context.Context, f bulk.Filter) (bulk.Selection, error)
	Start(ctx context.Context, f bulk.Filter, by string, actor clock.Actor) (*bulk.Job, error)
	Job(ctx context.Context, id string) (*bulk.Job, error)
	Jobs(ctx context.Context, wanted func(application string) bool) ([]*bulk.Job, error)
	Stop(ctx context.Context, id string, actor clock.Actor) (*bulk.Job, error)
	On(ctx context.Context, a *clock.Alarm) ([]clock.BulkAct, error)
}

var _ Bulk = (*bulk.Runner)(nil)

const bulkPath = "/v1/bulk"

// bulkRequest is the body of a request for a job.
type bulkRequest struct {
	filter bulk.Filter
	by     string
	dryRun bool
}

// startBulk stores a job, or with dry_run counts what its filter selects.
func (s *Server) startBulk(c echo.Context) error {
	b, err := s.readBody(c, smallBytes, front.LargeBodies)
	if err != nil {
		return err
	}
	request, err := decodeBulk(b.bytes)
	b.release()
	if err != nil {
		return err
	}
	if name := front.CallerOf(c.Request()).Name(); name != "" || request.by == "" {
		request.by = front.By(c.Request()) // no token starts a job under another name
	}
	if err := s.mayBulk(c, request.filter.Application); err != nil {
		return err
	}
	if request.dryRun {
		ctx, cancel := clientContext(c)
		defer cancel()
		selection, err := s.bulk.Count(ctx, request.filter)
		if err != nil {
			return readFailure(ctx, err)
		}
		return s.respondRead(c, appendSelection(nil, &selection))
	}
	ctx, cancel := lastingContext(c, clientWait(c))
	defer cancel()
	job, err := s.bulk.Start(ctx, request.filter, request.by, *front.Actor(c.Request()))
	return s.respondJob(ctx, c, http.StatusCreated, job, err)
}

// mayBulk returns an error unless this server has jobs, and the caller may use the application.
func (s *Server) mayBulk(c echo.Context, application string) error {
	if s.bulk == nil {
		return absentPart("this server changes no alarms by filters")
	}
	return front.CoverNamed(c.Request(), application)
}

// showBulk responds with a job.
func (s *Server) showBulk(c echo.Context) error {
	if err := refuseBody(c); err != nil {
		return err
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	job, err := s.coveredJob(ctx, c)
	return s.respondJob(ctx, c, http.StatusOK, job, err)
}

// stopBulk stops a job, and responds with it.
func (s *Server) stopBulk(c echo.Context) error {
	ctx, cancel := lastingContext(c, clientWait(c))
	defer cancel()
	job, err := s.coveredJob(ctx, c)
	if err == nil {
		job, err = s.bulk.Stop(ctx, job.ID, *front.Actor(c.Request()))
	}
	return s.respondJob(ctx, c, http.StatusOK, job, err)
}

// listBulk responds with the newest jobs, of all applications or of one.
func (s *Server) listBulk(c echo.Context) error {
	values, err := queryParams(c, "application")
	if err != nil {
		return err
	}
	application, err := applicationParam(values)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	if err := s.mayBulk(c, application); err != nil {
		return err
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	caller := front.CallerOf(c.Request())
	jobs, err := s.bulk.Jobs(ctx,
		func(of string) bool { return covers(caller, of) && (application == "" || of == application) })
	if err != nil {
		return readFailure(ctx, err)
	}
	b := appendList([]byte(`{"jobs":`), jobs, func(j **bulk.Job, b []byte) []byte { return appendJob(b, *j) })
	return s.respondRead(c, append(b, '}'))
}

// covers reports whether the caller may use the application of a job. An unreadable job has none.
func covers(caller *access.Caller, application string) bool {
	return caller.CoversAll() || application != "" && caller.Covers(application)
}

// coveredJob returns the job in the path. A job of an application that the caller may not use does not exist for the
// caller.
func (s *Server) coveredJob(ctx context.Context, c echo.Context) (*bulk.Job, error) {
	if err := s.mayBulk(c, ""); err != nil {
		return nil, err
	}
	id, err := pathParam(c, "job")
	if err != nil {
		return nil, err
	}
	job, err := s.bulk.Job(ctx, id)
	if err == nil && !covers(front.CallerOf(c.Request()), job.Application) {
		return nil, clock.UnknownJob(id)
	}
	return job, err
}

func (s *Server) respondJob(ctx context.Context, c echo.Context, status int, job *bulk.Job, err error) error {
	if err != nil {
		return clock.UnavailableIfLate(ctx, err)
	}
	return s.respondJSON(c, status, appendJob(nil, job))
}

// decodeBulk reads the body of a request for a job.
func decodeBulk(body []byte) (*bulkRequest, error) {
	r := &bulkRequest{filter: bulk.Filter{DueAfter: clock.NoInstant, DueBefore: clock.NoInstant,
		FrozenAt: clock.NoInstant}}
	fields := []string{"action", "application", "by", "dry_run", "due_after", "due_before", "frozen_at", "note",
		"prefix", "shift", "state"}
	err := decodeOptional(body, fields, func(name string, raw []byte) error {
		switch name {
		case "action":
			return decodeString(raw, name, (*string)(&r.filter.Action))
		case "application":
			return decodeString(raw, name, &r.filter.Application)
		case "by":
			return decodeString(raw, name, &r.by)
		case "dry_run":
			return decodeFlag(raw, name, &r.dryRun)
		case "due_after":
			return decodeInstant(raw, name, &r.filter.DueAfter)
		case "due_before":
			return decodeInstant(raw, name, &r.filter.DueBefore)
		case "frozen_at":
			return decodeInstant(raw, name, &r.filter.FrozenAt)
		case "note":
			return decodeString(raw, name, &r.filter.Note)
		case "prefix":
			return decodeString(raw, name, &r.filter.Prefix)
		case "shift":
			return decodeShift(raw, &r.filter.ShiftMillis)
		default:
			return decodeStates(raw, &r.filter.States)
		}
	})
	if err == nil && len(r.by) > settings.MaxChangedBy {
		err = clock.Invalid(clock.CodeOutOfRange, "by",
			fmt.Sprintf("by must have at most %d bytes", settings.MaxChangedBy))
	}
	return r, err
}

// decodeFlag reads true or false. null means false.
func decodeFlag(raw []byte, field string, into *bool) error {
	switch string(raw) {
	case "true", "false", "null":
		*into = string(raw) == "true"
		return nil
	}
	return wrongType(field, "true or false", raw)
}

// decodeShift reads a duration, which may be negative.
func decodeShift(raw []byte, into *int64) error {
	var text string
	if err := decodeString(raw, "shift", &text); err != nil || text == "" {
		return err
	}
	amount, earlier := strings.CutPrefix(text, "-")
	d, err := clock.ParseDuration(amount)
	if err != nil {
		return clock.Invalid(clock.CodeInvalidValue, "shift",
			fmt.Sprintf("shift is %.64q; write it like 30m or -2h", text))
	}
	if *into = d.Milliseconds(); earlier {
		*into = -*into
	}
	return nil
}

// decodeStates reads an array of names of states.
func decodeStates(raw []byte, into *[]clock.State) error {
	return decodeTexts(raw, "state", `["scheduled"]`, func(name string) error {
		state, err := clock.ParseState(name)
		if err != nil {
			return clock.Invalid(clock.CodeInvalidValue, "state", err.Error())
		}
		if !slices.Contains(*into, state) {
			*into = append(*into, state)
		}
		return nil
	})
}

// appendShift appends d in the form that decodeShift accepts, null for no shift.
func appendShift(b []byte, d time.Duration) []byte {
	switch {
	case d == 0:
		return append(b, "null"...)
	case d > 0:
		return appendDuration(b, d)
	}
	from := len(b)
	b = appendDuration(append(b, '-'), -d)
	b[from], b[from+1] = '"', '-' // the sign belongs into the text
	return b
}

func appendSelection(b []byte, s *bulk.Selection) []byte {
	b = appendInstant(append(b, `{"frozen_at":`...), s.FrozenAt)
	b = strconv.AppendInt(append(b, `,"count":`...), int64(s.Count), 10)
	b = strconv.AppendBool(append(b, `,"complete":`...), s.Complete)
	return append(appendList(append(b, `,"samples":`...), s.Samples, appendText), '}')
}

func appendJob(b []byte, j *bulk.Job) []byte {
	b = appendString(append(b, `{"id":`...), j.ID)
	b = appendString(append(b, `,"status":`...), string(j.Status))
	b = appendString(append(b, `,"application":`...), j.Application)
	b = appendString(append(b, `,"action":`...), string(j.Action))
	b = appendList(append(b, `,"state":`...), j.States,
		func(state *clock.State, b []byte) []byte { return appendString(b, state.String()) })
	b = appendString(append(b, `,"prefix":`...), j.Prefix)
	b = appendInstant(append(b, `,"due_after":`...), j.DueAfter)
	b = appendInstant(append(b, `,"due_before":`...), j.DueBefore)
	b = appendShift(append(b, `,"shift":`...), time.Duration(j.ShiftMillis)*time.Millisecond)
	b = appendInstant(append(b, `,"frozen_at":`...), j.FrozenAt)
	b = appendString(append(b, `,"by":`...), j.By)
	b = appendOptional(append(b, `,"note":`...), j.Note)
	b = appendInstant(append(b, `,"created_at":`...), j.CreatedAt)
	b = appendInstant(append(b, `,"ended_at":`...), j.EndedAt)
	b = strconv.AppendInt(append(b, `,"changed":`...), int64(j.Changed), 10)
	b = append(b, `,"refused":{`...)
	for i, code := range slices.Sorted(maps.Keys(j.Refused)) {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(appendString(b, code), ':'), int64(j.Refused[code]), 10)
	}
	return append(b, "}}"...)
}
