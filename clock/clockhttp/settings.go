package clockhttp

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/settings"
)

// Settings reads and changes the settings of applications. *settings.Editor implements all but Applied.
type Settings interface {
	// Get returns the stored settings of the application, with Version 0 if it never had settings.
	Get(ctx context.Context, application string) (settings.View, error)
	// History returns at most limit versions, the newest first.
	History(ctx context.Context, application string, limit int) ([]settings.View, error)
	// Pauses returns when people paused and resumed the application, the oldest first.
	Pauses(ctx context.Context, application string) ([]clock.ApplicationPause, error)
	// Change makes the next version.
	Change(ctx context.Context, r settings.Request) (settings.View, error)
	// Applied returns what this node applies now. It must not block.
	Applied(application string) settings.Applied
}

// defaultHistory is the number of versions that a response has if the request does not name one.
const defaultHistory = 100

// getSettings responds with the application's settings, as stored and with all defaults.
func (s *Server) getSettings(c echo.Context) error {
	app, err := s.settingsApplication(c)
	if err != nil {
		return err
	}
	if _, err := queryParams(c); err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	v, err := s.settings.Get(ctx, app)
	if err != nil {
		return readFailure(ctx, err)
	}
	return s.respondRead(c, s.showSettings(c, &v))
}

// changeSettings makes the next version of the application's settings, and responds with it.
func (s *Server) changeSettings(c echo.Context) error {
	app, err := s.settingsApplication(c)
	if err != nil {
		return err
	}
	r := settings.Request{
		Application: app, By: *front.Actor(c.Request()), Quotas: front.CallerOf(c.Request()).CoversAll(),
	}
	if r.IfVersion, err = versionCondition(c.Request().Header); err != nil {
		return err
	}
	if _, err := queryParams(c); err != nil {
		return err
	}
	b, err := s.readBody(c, settings.MaxGiven, front.LargeBodies)
	if err != nil {
		return err
	}
	r.Document = string(b.bytes)
	b.release()
	ctx, cancel := lastingContext(c, clock.RequestTimeout)
	defer cancel()
	v, err := s.settings.Change(ctx, r)
	if err != nil {
		return changeFailure(ctx, err)
	}
	return s.respondJSON(c, http.StatusOK, s.showSettings(c, &v))
}

// changeFailure returns the error of a change that was not made. A condition that does not hold is named by its header.
func changeFailure(ctx context.Context, err error) error {
	if failed, is := errors.AsType[*clock.Error](err); is && errors.Is(err, clock.ErrPrecondition) {
		named := *failed
		named.Field = ifMatch
		return &named
	}
	return clock.UnavailableIfLate(ctx, err)
}

// showSettings returns the settings and what this node applies. The version is the entity tag of the response.
func (s *Server) showSettings(c echo.Context, v *settings.View) []byte {
	applied := s.settings.Applied(v.Application)
	b := appendVersion(append(make([]byte, 0, alarmBuffer), `{"application":"`+v.Application+`",`...), v)
	b = appendDocument(append(b, `,"effective":`...), v.Effective)
	b = strconv.AppendInt(append(b, `,"applied_version":`...), applied.Version, 10)
	b = appendOptional(append(b, `,"applied_target":`...), applied.Target.String())
	c.Response().Header().Set("ETag", entityTag(v.Version))
	return append(b, '}')
}

// listSettings responds with the newest versions of the application's settings.
func (s *Server) listSettings(c echo.Context) error {
	app, err := s.settingsApplication(c)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	limit, err := onlyNumber(c, "limit", defaultHistory, settings.MaxHistory)
	if err != nil {
		return err
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	versions, err := s.settings.History(ctx, app, limit)
	if err != nil {
		return readFailure(ctx, err)
	}
	b := appendList([]byte(`{"versions":`), versions,
		func(v *settings.View, b []byte) []byte { return append(appendVersion(append(b, '{'), v), '}') })
	return s.respondRead(c, append(b, '}'))
}

// settingsApplication returns the application in the path.
func (s *Server) settingsApplication(c echo.Context) (string, error) {
	if s.settings == nil {
		return "", absentPart("this server does not read settings")
	}
	return applicationOf(c)
}

// appendVersion appends the members of a version. A document that cannot be read is null, and unreadable says why.
func appendVersion(b []byte, v *settings.View) []byte {
	b = strconv.AppendInt(append(b, `"version":`...), v.Version, 10)
	b = appendInstant(append(b, `,"changed_at":`...), v.ChangedAt)
	b = appendOptional(append(b, `,"changed_by":`...), v.ChangedBy)
	b = appendDocument(append(b, `,"settings":`...), v.Document)
	reason := ""
	if v.Unreadable != nil {
		reason = v.Unreadable.Error()
	}
	return appendOptional(append(b, `,"unreadable":`...), reason)
}
