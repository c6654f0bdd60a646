package clockhttp

import (
	"context"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/front"
)

// Sessions starts and ends sessions of the console, and reads the tokens. *access.Sessions implements it.
type Sessions interface {
	// Start starts a session of the caller's token.
	Start(ctx context.Context, c *access.Caller, by clock.Actor) (access.Text, *access.Token, error)
	// StartFor starts a session of a person.
	StartFor(ctx context.Context, p *access.Person, by clock.Actor) (access.Text, *access.Token, error)
	// End ends a session. It returns a clock.ErrNotFound for an unknown id.
	End(ctx context.Context, id string, by clock.Actor) error
	// All returns all tokens and sessions by id.
	All() []access.Listed
	// MaySignIn returns a clock.ErrLimited if the address has too many failures.
	MaySignIn(address netip.Addr) error
	// SignInFailed counts a failure of the address.
	SignInFailed(address netip.Addr)
}

const (
	sessionPath = "/v1/session"
	tokensPath  = "/v1/tokens"

	defaultTokens = 100
	maxTokens     = 1000
)

// showCaller responds with who sends the request.
func (s *Server) showCaller(c echo.Context) error {
	if _, err := queryParams(c); err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	return s.respondRead(c, appendCaller(nil, front.CallerOf(c.Request()).Token()))
}

// startSession starts a session of the request's token, and gives it to the browser in a cookie that scripts cannot
// read.
func (s *Server) startSession(c echo.Context) error {
	sessions, err := s.sessionsFor(c)
	if err != nil {
		return err
	}
	ctx, cancel := lastingContext(c, clock.RequestTimeout)
	defer cancel()
	text, session, err := sessions.Start(ctx, front.CallerOf(c.Request()), *front.Actor(c.Request()))
	if err != nil {
		return clock.UnavailableIfLate(ctx, err)
	}
	setSessionCookie(c, text.String(), session.Lifetime())
	return s.respondJSON(c, http.StatusCreated, appendCaller(nil, session))
}

// endOwnSession ends the session of the request, and deletes the cookie. It changes nothing for a token.
func (s *Server) endOwnSession(c echo.Context) error {
	sessions, err := s.sessionsFor(c)
	if err != nil {
		return err
	}
	if own := front.CallerOf(c.Request()).Token(); own != nil && own.IsSession() {
		if err := s.end(c, sessions, own.ID); err != nil {
			return err
		}
		setSessionCookie(c, "", -1)
	}
	return c.NoContent(http.StatusNoContent)
}

// endSession ends any session.
func (s *Server) endSession(c echo.Context) error {
	sessions, err := s.sessionsFor(c)
	if err != nil {
		return err
	}
	if err := front.CallerOf(c.Request()).CoverAll("tokens and sessions"); err != nil {
		return err
	}
	id, err := pathParam(c, "session")
	if err != nil {
		return err
	}
	if err := s.end(c, sessions, id); err != nil {
		return err
	}
	return c.NoContent(http.StatusNoContent)
}

func (s *Server) end(c echo.Context, sessions Sessions, id string) error {
	ctx, cancel := lastingContext(c, clock.RequestTimeout)
	defer cancel()
	return clock.UnavailableIfLate(ctx, sessions.End(ctx, id, *front.Actor(c.Request())))
}

// listTokens responds with a page of the tokens and sessions, by id.
func (s *Server) listTokens(c echo.Context) error {
	values, err := queryParams(c, "cursor", "limit")
	if err != nil {
		return err
	}
	limit, err := numberParam(values, "limit", defaultTokens, maxTokens)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	if s.sessions == nil {
		return absentPart("this server has no tokens")
	}
	if err := front.CallerOf(c.Request()).CoverAll("tokens and sessions"); err != nil {
		return err
	}
	page, next := tokensAfter(s.sessions.All(), values.Get("cursor"), limit)
	b := appendList([]byte(`{"tokens":`), page, appendToken)
	return s.respondRead(c, append(appendOptional(append(b, `,"next_cursor":`...), next), '}'))
}

// tokensAfter returns at most limit tokens of the sorted list whose ids come after the cursor, and the cursor of the
// next page, "" if there is none.
func tokensAfter(all []access.Listed, cursor string, limit int) (page []access.Listed, next string) {
	byID := func(t access.Listed, id string) int { return strings.Compare(t.ID, id) }
	first, is := slices.BinarySearchFunc(all, cursor, byID)
	if is {
		first++
	}
	page = all[first:]
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].ID
	}
	return page, next
}

// sessionsFor returns the sessions for a request without parameters and a body.
func (s *Server) sessionsFor(c echo.Context) (Sessions, error) {
	if s.sessions == nil {
		return nil, absentPart("this server has no sessions")
	}
	if _, err := queryParams(c); err != nil {
		return nil, err
	}
	return s.sessions, refuseBody(c)
}

// setSessionCookie gives the browser a session, or deletes it if the lifetime is negative.
func setSessionCookie(c echo.Context, text string, lifetime time.Duration) {
	setCookie(c, front.SessionCookie, text, lifetime, http.SameSiteStrictMode)
}

// setCookie gives the browser a cookie that no script can read, or deletes it if the lifetime is negative. A browser
// drops it unless the page came over TLS or from loopback.
func setCookie(c echo.Context, name, value string, lifetime time.Duration, site http.SameSite) {
	seconds := int(lifetime / time.Second)
	if lifetime < 0 {
		seconds = -1
	}
	c.SetCookie(&http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: seconds, Secure: true, HttpOnly: true, SameSite: site,
	})
}

// appendCaller appends who sends a request: with t nil, anyone.
func appendCaller(b []byte, t *access.Token) []byte {
	if t == nil {
		return append(b, `{"name":null,"role":null,"applications":["*"],"token":null,"session":null,`+
			`"expires_at":null}`...)
	}
	token, session := t.ID, ""
	if t.IsSession() {
		token, session = t.ParentID, t.ID
	}
	b = appendString(append(b, `{"name":`...), t.Name)
	b = appendString(append(b, `,"role":`...), t.Role.String())
	b = appendApplications(append(b, `,"applications":`...), t)
	b = appendString(append(b, `,"token":`...), token)
	b = appendOptional(append(b, `,"session":`...), session)
	b = appendInstant(append(b, `,"expires_at":`...), t.ExpiresAt)
	return append(b, '}')
}

// appendToken appends a token without its secrets.
func appendToken(t *access.Listed, b []byte) []byte {
	b = appendString(append(b, `{"id":`...), t.ID)
	b = appendOptional(append(b, `,"session_of":`...), t.ParentID)
	b = appendString(append(b, `,"name":`...), t.Name)
	b = appendString(append(b, `,"role":`...), t.Role.String())
	b = appendApplications(append(b, `,"applications":`...), &t.Token)
	b = appendString(append(b, `,"state":`...), t.State)
	b = appendInstant(append(b, `,"created_at":`...), t.CreatedAt)
	b = appendString(append(b, `,"created_by":`...), t.CreatedBy)
	b = appendInstant(append(b, `,"expires_at":`...), t.ExpiresAt)
	b = appendInstant(append(b, `,"revoked_at":`...), t.RevokedAt)
	b = appendInstant(append(b, `,"last_used_at":`...), t.LastUsedAt)
	b = appendInstant(append(b, `,"old_secret_until":`...), t.OldSecretUntil)
	reason := ""
	if t.Unreadable != nil {
		reason = t.Unreadable.Error()
	}
	return append(appendOptional(append(b, `,"unreadable":`...), reason), '}')
}

func appendApplications(b []byte, t *access.Token) []byte {
	return appendList(b, []string(t.Applications), appendText)
}
