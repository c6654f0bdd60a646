package clockhttp

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/front"
)

// SignIn signs people in with an OpenID Connect provider. *oidc.Provider implements it.
type SignIn interface {
	// Issuer returns the URL of the provider.
	Issuer() string
	// Begin returns the provider's address for a browser that wants to return to a page of the console, and the text of
	// the attempt, which the browser keeps.
	Begin(ctx context.Context, page string) (address, attempt string, err error)
	// Finish reads the provider's response to an attempt. It returns who signs in, and the page to return to.
	Finish(ctx context.Context, attempt string, response url.Values) (p *access.Person, page string, err error)
}

const (
	signInPath = "/v1/oidc"
	// attemptCookie is the name of the cookie with a sign-in under way.
	attemptCookie = "__Host-clockd-sign-in"
	// attemptTime is the longest time of a sign-in.
	attemptTime = 10 * time.Minute
	// consoleFrom is the way from the routes below signInPath to the console. It is relative, because a proxy may serve
	// this server below a prefix.
	consoleFrom = "../../ui/"
)

// showSignIn responds with the provider, so that the console can offer it.
func (s *Server) showSignIn(c echo.Context) error {
	if _, err := queryParams(c); err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	issuer := ""
	if s.signIn != nil {
		issuer = s.signIn.Issuer()
	}
	return s.respondRead(c, append(appendOptional([]byte(`{"issuer":`), issuer), '}'))
}

// errNoProvider is the problem of a server without CLOCKD_OIDC_ISSUER.
var errNoProvider = &front.Problem{Status: http.StatusNotFound, Code: codeUnknownPath,
	Detail: "this server knows no OpenID Connect provider"}

// beginSignIn sends a browser to the provider.
func (s *Server) beginSignIn(c echo.Context) error {
	if s.signIn == nil || s.sessions == nil {
		return errNoProvider
	}
	values, err := queryParams(c, "page")
	if err != nil {
		return err
	}
	ctx, cancel := clientContext(c)
	defer cancel()
	address, attempt, err := s.signIn.Begin(ctx, values.Get("page"))
	if err != nil {
		return s.signInFailed(c, err)
	}
	setCookie(c, attemptCookie, attempt, attemptTime, http.SameSiteLaxMode) // the provider sends the browser back
	return seeOther(c, address)
}

// finishSignIn starts a session of the person whom the provider has sent back, and sends the browser to the console.
func (s *Server) finishSignIn(c echo.Context) error {
	if s.signIn == nil || s.sessions == nil {
		return errNoProvider
	}
	text, session, page, err := s.startFromProvider(c)
	if err != nil {
		return s.signInFailed(c, err)
	}
	setCookie(c, attemptCookie, "", -1, http.SameSiteLaxMode)
	setSessionCookie(c, text.String(), session.Lifetime())
	return seeOther(c, consoleFrom+page)
}

// startFromProvider starts the session that the provider's response is for. A client that leaves frees its place among
// those who wait for the provider.
func (s *Server) startFromProvider(c echo.Context) (text access.Text, session *access.Token, page string, err error) {
	if err := s.sessions.MaySignIn(front.RemoteAddress(c.Request())); err != nil {
		return text, nil, "", err
	}
	attempt := ""
	if cookie, err := c.Request().Cookie(attemptCookie); err == nil {
		attempt = cookie.Value
	}
	waiting, leave := clientContext(c)
	defer leave()
	person, page, err := s.signIn.Finish(waiting, attempt, c.QueryParams())
	if err != nil {
		return text, nil, "", err
	}
	ctx, cancel := lastingContext(c, clock.RequestTimeout)
	defer cancel()
	text, session, err = s.sessions.StartFor(ctx, person, *front.Actor(c.Request()))
	return text, session, page, clock.UnavailableIfLate(ctx, err)
}

// signInFailed sends the browser to the console, which says in words what to do. The audit and the metrics have the
// reason, and the log some of them: requests without a token must not fill it.
func (s *Server) signInFailed(c echo.Context, err error) error {
	outcome := "unavailable"
	switch {
	case errors.Is(err, clock.ErrUnauthenticated):
		outcome = "failed"
		s.sessions.SignInFailed(front.RemoteAddress(c.Request()))
	case errors.Is(err, clock.ErrLimited):
		outcome = "failed"
	case errors.Is(err, clock.ErrForbidden):
		outcome = "denied"
	}
	p := front.ProblemOf(err)
	p.Cause = nil // logged here
	s.front.Note(c.Request(), p)
	if s.signInLog.Allow() {
		s.log.Warn("a sign-in with the OpenID Connect provider has failed", "request_id", front.RequestID(c.Request()),
			"err", err)
	}
	return seeOther(c, consoleFrom+"?sign_in="+outcome)
}

func seeOther(c echo.Context, address string) error {
	h := c.Response().Header()
	h.Set(echo.HeaderLocation, address)
	h.Set(echo.HeaderCacheControl, "no-store")
	h.Set("Referrer-Policy", "no-referrer") // the address of this request has the code of the sign-in
	return c.NoContent(http.StatusSeeOther)
}
