package clockhttp

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

// clientWait returns how long the client waits for the response, at most clock.RequestTimeout. The client says so by
// the preference wait of RFC 7240, as in "Prefer: wait=5". If it does, the response has Preference-Applied.
func clientWait(c echo.Context) time.Duration {
	wait, given := preferredWait(c.Request().Header)
	if !given {
		return clock.RequestTimeout
	}
	wait = min(wait, clock.RequestTimeout)
	c.Response().Header().Set("Preference-Applied", "wait="+strconv.FormatInt(int64(wait/time.Second), 10))
	return wait
}

// preferredWait returns the preference wait, in whole seconds. It ignores other preferences and invalid ones, as the
// RFC demands. If wait is given more than once, the first counts.
func preferredWait(h http.Header) (wait time.Duration, given bool) {
	for _, line := range h["Prefer"] {
		for preference := range strings.SplitSeq(line, ",") {
			preference, _, _ = strings.Cut(preference, ";")
			name, value, _ := strings.Cut(preference, "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			seconds, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 32)
			if err == nil && seconds > 0 {
				return time.Duration(seconds) * time.Second, true
			}
		}
	}
	return 0, false
}

// opContext returns the context of a request's ops. It has a deadline if the client has said how long it waits; then
// ops that would have to wait longer are refused at once. The context also ends when the client closes its sending
// half.
func opContext(c echo.Context) (context.Context, context.CancelFunc) {
	ctx := c.Request().Context()
	if wait := clientWait(c); wait < clock.RequestTimeout {
		return context.WithTimeout(ctx, wait)
	}
	return ctx, func() {}
}
