package clockhttp

import (
	"net/http"
	"net/url"
	"path"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock/front"
)

// Pages are files for browsers that the server serves beside its own routes. They are public, so they must not hold
// data.
type Pages struct {
	Name    string       // name in metrics
	Path    string       // path of the pages, like "/ui"; below it Handler serves GET and HEAD
	Handler http.Handler // handler of the paths below Path, without their first slash
}

// MountPages adds pages. A request for Path itself is redirected to Path with a slash. Call it before Run.
func (s *Server) MountPages(p Pages) {
	below := http.StripPrefix(p.Path+"/", p.Handler)
	public := front.Need{Public: true}
	page := func(path string, handle echo.HandlerFunc) echo.HandlerFunc {
		return s.handler(&route{name: p.Name, method: http.MethodGet, path: path, need: public, handle: handle})
	}
	serve := page(p.Path+"/", func(c echo.Context) error {
		s.limitWrite(c, time.Now().Add(s.cfg.BodyTimeout))
		below.ServeHTTP(c.Response(), c.Request())
		return nil
	})
	// The redirect is relative, because a proxy may serve this server below a prefix.
	redirect := page(p.Path, func(c echo.Context) error {
		to := url.URL{Path: path.Base(p.Path) + "/", RawQuery: c.Request().URL.RawQuery}
		c.Response().Header().Set(echo.HeaderLocation, to.String())
		return c.NoContent(http.StatusPermanentRedirect)
	})
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		s.echo.Add(method, p.Path, redirect)
		s.echo.Add(method, p.Path+"/*", serve)
	}
}
