package clockhttp

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
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

// alarmActions are the handlers of requests to an alarm, by action and method. The empty action is the alarm itself.
type alarmActions map[string]map[string]echo.HandlerFunc

// add adds the handler of a route.
func (a alarmActions) add(r *route, handle echo.HandlerFunc) {
	if a[r.action] == nil {
		a[r.action] = map[string]echo.HandlerFunc{}
	}
	a[r.action][r.method] = handle
}

// of returns the action at the end of a path, and the business id before it, which may contain slashes. echo's routes
// cannot do this, because no path segment can follow a wildcard.
func (a alarmActions) of(path string) (action, id string) {
	cut := strings.LastIndexByte(path, '/')
	if cut < 0 || path[cut+1:] == "" || a[path[cut+1:]] == nil {
		return "", path
	}
	return path[cut+1:], path[:cut]
}

// methods returns the methods of an action, as the header Allow has them.
func (a alarmActions) methods(action string) string {
	return strings.Join(slices.Sorted(maps.Keys(a[action])), ", ")
}

// serve passes a request on to the handler of its action. none handles requests whose action does not take their
// method.
func (a alarmActions) serve(none echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		values := c.ParamValues()
		action, id := a.of(values[len(values)-1])
		handle := a[action][c.Request().Method]
		switch {
		case c.Request().Method == http.MethodOptions:
			c.Response().Header().Set(echo.HeaderAllow, "OPTIONS, "+a.methods(action))
			return c.NoContent(http.StatusNoContent)
		case handle == nil:
			c.Response().Header().Set(echo.HeaderAllow, a.methods(action))
			return none(c)
		}
		c.SetParamValues(append(values[:len(values)-1:len(values)-1], id)...)
		return handle(c)
	}
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
