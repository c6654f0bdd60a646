package clockhttp

import (
	"net/http"
	"net/url"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

// ServeHTTP routes on the escaped path. echo takes RawPath where it is set and Path where it is not, the one escaped
// and the other decoded, so that "a%2Fb" and "a%252Fb" arrive alike; with RawPath always set, parameters are
// always as the client wrote them, and pathParam decodes them once.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.URL.RawPath = r.URL.EscapedPath()
	s.echo.ServeHTTP(w, r)
}

// pathParam returns the parameter, percent-decoded once. A plus sign stays one.
func pathParam(c echo.Context, name string) (string, error) {
	s, err := url.PathUnescape(c.Param(name))
	if err != nil {
		return "", &problem{Status: http.StatusBadRequest, Code: codeInvalidPath, Detail: "the path cannot be percent-decoded: " + err.Error()}
	}
	return s, nil
}

// applicationOf returns the application that the path names.
func applicationOf(c echo.Context) (string, error) {
	app, err := pathParam(c, "application")
	if err != nil {
		return "", err
	}
	return app, clock.ValidateApplication(app)
}

// keyOf returns the alarm that the path names: all that follows "/alarms/" is the business id.
func keyOf(c echo.Context) (clock.Key, error) {
	app, err := pathParam(c, "application")
	if err != nil {
		return clock.Key{}, err
	}
	id, err := pathParam(c, "*")
	if err != nil {
		return clock.Key{}, err
	}
	k := clock.Key{Application: app, BusinessID: id}
	return k, k.Validate()
}
