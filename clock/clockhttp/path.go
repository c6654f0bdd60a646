package clockhttp

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/front"
)

// ServeHTTP routes on the escaped path. echo uses the escaped RawPath if it is set, and the decoded Path otherwise. So
// handlers could not tell "a%2Fb" from "a%252Fb". Here RawPath is always set: parameters arrive as the client wrote
// them, and pathParam decodes them once.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requestIDs.Identify(w, r)
	if r.ProtoMajor > 1 {
		s.serveRequest(w, r)
		return
	}
	s.route(w, r)
}

// route routes a request.
func (s *Server) route(w http.ResponseWriter, r *http.Request) {
	r.URL.RawPath = r.URL.EscapedPath()
	s.echo.ServeHTTP(w, r)
}

// pathParam returns the parameter, percent-decoded once. A plus sign stays a plus sign.
func pathParam(c echo.Context, name string) (string, error) {
	s, err := url.PathUnescape(c.Param(name))
	if err != nil {
		return "", &front.Problem{Status: http.StatusBadRequest, Code: codeInvalidPath,
			Detail: "the path cannot be percent-decoded: " + err.Error()}
	}
	return s, nil
}

// applicationOf returns the application in the path.
func applicationOf(c echo.Context) (string, error) {
	app, err := pathParam(c, "application")
	if err != nil {
		return "", err
	}
	return app, clock.ValidateApplication(app)
}

// alarmAction returns the handler of one method's requests to an alarm. It cuts the action off the end of the path. The
// rest is the business id, which may contain slashes. echo's routes cannot do this, because no path segment can follow
// a wildcard. Paths without an action belong to the handler with the empty name.
func (s *Server) alarmAction(actions map[string]echo.HandlerFunc) echo.HandlerFunc {
	none := actions[""]
	if none == nil {
		none = s.methodNotAllowed()
	}
	return func(c echo.Context) error {
		values := c.ParamValues()
		rest := values[len(values)-1]
		cut := strings.LastIndexByte(rest, '/')
		if cut < 0 || rest[cut+1:] == "" || actions[rest[cut+1:]] == nil {
			return none(c)
		}
		c.SetParamValues(append(values[:len(values)-1:len(values)-1], rest[:cut])...)
		return actions[rest[cut+1:]](c)
	}
}

func (s *Server) methodNotAllowed() echo.HandlerFunc {
	return s.handler(&route{name: "none", need: front.Need{Right: access.Read}, handle: func(c echo.Context) error {
		c.Response().Header().Set(echo.HeaderAllow, "DELETE, GET, PUT")
		return problemOfEcho(echo.ErrMethodNotAllowed)
	}})
}

// keyOf returns the key of the alarm in the path. The business id is the whole rest of the path after "/alarms/".
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
