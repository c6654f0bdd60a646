package clockhttp

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// openStream marks a request in its context as a stream.
const openStream = "stream"

// openStream counts a stream as open until the caller calls closed.
func (s *Server) openStream(c echo.Context, route string) (closed func()) {
	c.Set(openStream, true)
	return s.front.OpenStream(route)
}

// observe measures a request after its response, unless it is a stream.
func (s *Server) observe(route string, c echo.Context, begun time.Time) {
	if c.Get(openStream) == nil {
		s.front.Observe(route, c.Request(), c.Response().Status, begun)
	}
}

// maxScrapes is the most requests for metrics that run at once. Each holds all metrics until its client has taken them.
const maxScrapes = 16

func (s *Server) showMetrics(g prometheus.Gatherer) echo.HandlerFunc {
	show := promhttp.HandlerFor(g, promhttp.HandlerOpts{EnableOpenMetrics: true})
	var running atomic.Int32
	return func(c echo.Context) error {
		if s.cfg.MetricsListen != "" && !ofMetricsPort(c.Request()) {
			return &front.Problem{Status: http.StatusNotFound, Code: codeUnknownPath,
				Detail: "the metrics have a port of their own: CLOCKD_METRICS_LISTEN"}
		}
		defer running.Add(-1)
		if running.Add(1) > maxScrapes {
			return &clock.Error{Kind: clock.ErrUnavailable, Code: clock.CodeOverloaded, RetryAfter: time.Second,
				Detail: "too many requests for metrics at once; repeat later"}
		}
		s.limitWrite(c, time.Now().Add(s.cfg.WriteTimeout))
		show.ServeHTTP(c.Response(), c.Request())
		return nil
	}
}
