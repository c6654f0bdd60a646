package access

import (
	"fmt"
	"strings"

	"golang.org/x/time/rate"

	"github.com/clockd/clockd/clock"
)

// Caller is who sends a request. The zero Caller may do nothing.
type Caller struct {
	token   *Token        // nil for Anyone
	secret  Hash          // hash of the secret that the request had
	limiter *rate.Limiter // of the token; nil: no limit
	anyone  bool
}

// Anyone is the caller of a request that needs no token. It may do everything.
var Anyone = &Caller{anyone: true}

// Name returns the name of the caller's token, "" if it has none.
func (c *Caller) Name() string {
	if c.token == nil {
		return ""
	}
	return c.token.Name
}

// TokenID returns the id of the caller's token, "" if it has none.
func (c *Caller) TokenID() string {
	if c.token == nil {
		return ""
	}
	return c.token.ID
}

// Token returns the caller's token or session, nil if it has none.
func (c *Caller) Token() *Token { return c.token }

// Allow returns a clock.ErrForbidden with the missing need, unless the caller's role allows the need.
func (c *Caller) Allow(need Need) error {
	if c.anyone || c.token != nil && c.token.Role.Allows(need) {
		return nil
	}
	if c.token == nil {
		return forbidden("the request has no caller")
	}
	roles := RolesWith(need)
	needed := "one of the roles " + strings.Join(roles, ", ")
	if len(roles) == 1 {
		needed = "the role " + roles[0]
	}
	return forbidden(fmt.Sprintf("the token %q has the role %s; this request needs %s", c.token.Name, c.token.Role,
		needed))
}

// Operates reports whether the caller has a token of an operator or an admin.
func (c *Caller) Operates() bool { return c.token != nil && c.token.Role.Allows(Operate) }

// Cover returns a clock.ErrForbidden unless the caller may use the application.
func (c *Caller) Cover(application string) error {
	if c.Covers(application) {
		return nil
	}
	return c.uncovered(fmt.Sprintf("it does not cover %.64q", application))
}

// uncovered returns the error of a caller that lacks applications.
func (c *Caller) uncovered(lack string) error {
	if c.token == nil {
		return forbidden("the request has no caller")
	}
	return forbidden(fmt.Sprintf("the token %q is for the applications %s; %s", c.token.Name, c.token.Applications,
		lack))
}

// Covers reports whether the caller may use the application.
func (c *Caller) Covers(application string) bool {
	return c.anyone || c.token != nil && c.token.Applications.Cover(application)
}

// CoversAll reports whether the caller may use all applications.
func (c *Caller) CoversAll() bool {
	return c.anyone || c.token != nil && c.token.Applications.CoverAll()
}

// CoverAll returns a clock.ErrForbidden unless the caller may use all applications. what is about all of them.
func (c *Caller) CoverAll(what string) error {
	if c.CoversAll() {
		return nil
	}
	return c.uncovered(what + " need one for all applications (*)")
}

// forbidden returns the error of a known caller that may not do what it asks.
func forbidden(detail string) error {
	return &clock.Error{Kind: clock.ErrForbidden, Code: clock.CodeForbidden, Detail: detail}
}

// unauthenticated returns the error of a request whose caller is not known.
func unauthenticated(detail string) error {
	return &clock.Error{Kind: clock.ErrUnauthenticated, Code: clock.CodeUnauthenticated, Detail: detail}
}
