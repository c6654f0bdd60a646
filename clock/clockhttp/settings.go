package clockhttp

import (
	"context"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// Settings reads the settings of applications. Nothing changes them over HTTP.
type Settings interface {
	// Settings returns the stored settings of the application, with Version 0 if it never had settings.
	Settings(ctx context.Context, application string) (settings.Version, error)
	// SettingsHistory returns at most limit versions, the newest first.
	SettingsHistory(ctx context.Context, application string, limit int) ([]settings.Version, error)
	// Applied returns what this node applies now. It must not block.
	Applied(application string) AppliedSettings
}

// AppliedSettings says what a node applies for one application.
type AppliedSettings struct {
	Version       int64            // version of the settings; 0: the defaults
	Target        clock.TargetKind // where rings go; NoTarget: nowhere, the alarms wait
	Subscribable  bool             // the application's stream takes subscribers: rings may go there, or did so a short time ago
	Reservable    bool             // workers may reserve the application's rings: alarms may ring to the target pull
	DefaultTarget clock.TargetKind // where the rings of applications go whose settings name no target
}

// defaultHistory is the number of versions that a response has if the request does not name one.
const defaultHistory = 100

// getSettings responds with the application's settings, as stored and with all defaults.
func (s *Server) getSettings(c echo.Context) error {
	app, err := s.settingsRequest(c)
	if err != nil {
		return err
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	v, err := s.settings.Settings(ctx, app)
	if err != nil {
		return readFailure(ctx, err)
	}
	applied := s.settings.Applied(app)
	parsed, parseErr := s.form.Parse(documentOf(&v))
	b := s.appendVersion(append(make([]byte, 0, alarmBuffer), `{"application":"`+app+`",`...), &v)
	b = append(b, `,"effective":`...)
	if parseErr != nil {
		b = append(b, "null"...)
	} else {
		b = append(b, s.form.Effective(&parsed, applied.DefaultTarget)...)
	}
	b = strconv.AppendInt(append(b, `,"applied_version":`...), applied.Version, 10)
	b = appendOptional(append(b, `,"applied_target":`...), applied.Target.String())
	return s.respondRead(c, append(b, '}'))
}

// listSettings responds with the newest versions of the application's settings.
func (s *Server) listSettings(c echo.Context) error {
	app, err := s.settingsRequest(c)
	if err != nil {
		return err
	}
	limit, err := onlyNumber(c, "limit", defaultHistory, settings.MaxHistory)
	if err != nil {
		return err
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	versions, err := s.settings.SettingsHistory(ctx, app, limit)
	if err != nil {
		return readFailure(ctx, err)
	}
	b := appendList([]byte(`{"versions":`), versions,
		func(v *settings.Version, b []byte) []byte { return append(s.appendVersion(append(b, '{'), v), '}') })
	return s.respondRead(c, append(b, '}'))
}

// settingsRequest returns the application in the path.
func (s *Server) settingsRequest(c echo.Context) (string, error) {
	app, err := applicationOf(c)
	if err != nil {
		return "", err
	}
	if s.settings == nil {
		return "", absentPart("this server does not read settings")
	}
	return app, refuseBody(c)
}

// documentOf returns the document of the version; an empty object for an application without settings.
func documentOf(v *settings.Version) string {
	if v.Version == 0 {
		return "{}"
	}
	return v.Document
}

// appendVersion appends the members of a version. A document that cannot be read is null, and unreadable says why.
func (s *Server) appendVersion(b []byte, v *settings.Version) []byte {
	b = strconv.AppendInt(append(b, `"version":`...), v.Version, 10)
	b = appendInstant(append(b, `,"changed_at":`...), v.ChangedAt)
	b = appendOptional(append(b, `,"changed_by":`...), v.ChangedBy)
	parsed, err := s.form.Parse(documentOf(v))
	if err != nil {
		return appendString(append(b, `,"settings":null,"unreadable":`...), err.Error())
	}
	b = append(append(b, `,"settings":`...), s.form.Redacted(&parsed)...)
	return append(b, `,"unreadable":null`...)
}
