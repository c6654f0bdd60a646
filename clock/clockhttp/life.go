package clockhttp

import (
	"context"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

// shownActs is the most acts on an alarm that its events have.
const shownActs = 100

// listEvents responds with the known events in the life of an alarm.
func (s *Server) listEvents(c echo.Context) error {
	a, err := s.readAlarm(c)
	if err != nil {
		return err
	}
	acts, err := s.actsOn(c, a.Key)
	if err != nil {
		return err
	}
	jobs, err := s.jobsOn(c, a)
	if err != nil {
		return err
	}
	pauses, err := s.pausesOf(c, a.Application)
	if err != nil {
		return err
	}
	b := appendString([]byte(`{"state":`), a.State.String())
	b = appendInstant(append(b, `,"next_try_time":`...), a.NextTryTime)
	b = appendList(append(b, `,"events":`...), a.Events(acts, jobs, pauses), appendLifeEvent)
	return s.respondRead(c, append(b, '}'))
}

// actsOn returns the newest acts on an alarm; none without an audit.
func (s *Server) actsOn(c echo.Context, k clock.Key) ([]clock.Act, error) {
	if s.audit == nil {
		return nil, nil
	}
	return readAll(c, func(ctx context.Context) ([]clock.Act, error) {
		return s.audit(ctx, clock.ActsQuery{Application: k.Application, Subject: k.BusinessID, Limit: shownActs})
	})
}

// jobsOn returns the starts of the newest bulk jobs that may have changed the alarm; none without jobs.
func (s *Server) jobsOn(c echo.Context, a *clock.Alarm) ([]clock.BulkAct, error) {
	if s.bulk == nil {
		return nil, nil
	}
	return readAll(c, func(ctx context.Context) ([]clock.BulkAct, error) { return s.bulk.On(ctx, a) })
}

// pausesOf returns when people paused and resumed the application; none without settings.
func (s *Server) pausesOf(c echo.Context, application string) ([]clock.ApplicationPause, error) {
	if s.settings == nil {
		return nil, nil
	}
	return readAll(c, func(ctx context.Context) ([]clock.ApplicationPause, error) {
		return s.settings.Pauses(ctx, application)
	})
}

// readAll reads something for the client, as long as the client waits.
func readAll[T any](c echo.Context, read func(ctx context.Context) ([]T, error)) ([]T, error) {
	ctx, cancel := clientContext(c)
	defer cancel()
	all, err := read(ctx)
	if err != nil {
		return nil, readFailure(ctx, err)
	}
	return all, nil
}

func appendLifeEvent(e *clock.Event, b []byte) []byte {
	b = appendInstant(append(b, `{"at":`...), e.At)
	b = appendString(append(b, `,"event":`...), string(e.Kind))
	b = strconv.AppendInt(append(b, `,"generation":`...), e.Generation, 10)
	b = appendInstant(append(b, `,"ring_at":`...), e.RingAt)
	b = append(b, `,"ring_no":`...)
	if e.RingNo == 0 {
		b = append(b, "null"...)
	} else {
		b = strconv.AppendInt(b, int64(e.RingNo), 10)
	}
	b = appendOptional(append(b, `,"detail":`...), e.Detail)
	b = appendOptional(append(b, `,"by":`...), e.By)
	return append(appendOptional(append(b, `,"job":`...), e.Job), '}')
}
