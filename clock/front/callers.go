package front

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
)

// Access knows the callers of requests. *access.Watch implements it.
type Access interface {
	// Caller returns the caller of a request, access.Anyone if it needs no token. It returns a clock.ErrUnauthenticated
	// for any other request.
	Caller(ctx context.Context, r access.Request) (*access.Caller, error)
	// Check returns a clock.ErrUnauthenticated if the caller of an earlier request would not be the caller of a new
	// one.
	Check(c *access.Caller) error
	// Keep returns a context that ends soon after the caller's token is not valid any more. Call release when the
	// request ends.
	Keep(ctx context.Context, c *access.Caller) (kctx context.Context, release func())
	// Named returns the caller of a request that needs a token where others need none, or the error that it gets.
	Named(ctx context.Context, r access.Request) (*access.Caller, error)
	// Used records that a caller that operates has sent a request from an address. It must not block.
	Used(c *access.Caller, from, requestID string)
	// Refused records the refusal of a request. It must not block.
	Refused(r access.Refusal)
}

var _ Access = (*access.Watch)(nil)

// openAccess lets everyone do everything.
type openAccess struct{}

func (openAccess) Caller(context.Context, access.Request) (*access.Caller, error) {
	return access.Anyone, nil
}

func (openAccess) Check(*access.Caller) error { return nil }

func (openAccess) Keep(ctx context.Context, _ *access.Caller) (context.Context, func()) {
	return ctx, func() {}
}

func (openAccess) Named(context.Context, access.Request) (*access.Caller, error) {
	return nil, &clock.Error{Kind: clock.ErrForbidden, Code: clock.CodeForbidden,
		Detail: "this request needs an access token, and this service knows none"}
}

func (openAccess) Used(*access.Caller, string, string) {}

func (openAccess) Refused(access.Refusal) {}

// forwardedHeaders are the headers that proxies add, beside those that begin with forwardedPrefix.
var forwardedHeaders = []string{
	"Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "X-Envoy-External-Address",
	"X-Original-Host", "True-Client-Ip",
	"Cf-Connecting-Ip", "Cdn-Loop", "Fastly-Client-Ip", "Tailscale-User-Login",
}

const forwardedPrefix = "X-Forwarded"

// forwarded reports whether a header says that a proxy has passed the request on.
func forwarded(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, forwardedPrefix) || slices.Contains(forwardedHeaders, name) {
			return true
		}
	}
	return false
}

// SessionCookie is the name of the cookie with the session of a browser. Its beginning makes browsers keep it to this
// host, and to encrypted connections and loopback.
const SessionCookie = "__Host-clockd"

// sessionOf returns the value of the request's session cookie, "" without one.
func sessionOf(r *http.Request) string {
	if r.Header["Cookie"] == nil {
		return ""
	}
	cookie, err := r.Cookie(SessionCookie)
	if err != nil {
		return ""
	}
	return cookie.Value
}

// callerKey is the key of a request's caller in the request's context.
type callerKey struct{}

// CallerOf returns the caller of a request. A request that Admit has not seen has a caller that may do nothing.
func CallerOf(r *http.Request) *access.Caller {
	if c, known := r.Context().Value(callerKey{}).(*access.Caller); known {
		return c
	}
	return new(access.Caller)
}

// Need says what the caller of a request must be allowed.
type Need struct {
	Right   access.Need
	Named   bool // the caller needs a token also where other requests need none
	Public  bool // every one may send the request, under any server name
	Unnamed bool // every one may send the request, under a name of this server
	Lasting bool // the response may last, so it ends when the caller's token is not valid any more
}

// Admit asks the guard, finds out who calls, and returns the request with its caller. It returns an error unless the
// caller may send the request about the application. application returns "" for a request about none. Call release when
// the request ends.
func (f *Front) Admit(
	r *http.Request, need Need, application func() (string, error),
) (admitted *http.Request, release func(), err error) {
	release = func() {}
	if need.Public {
		return r, release, nil
	}
	if err := f.guard.admit(need.Right, r); err != nil {
		return r, release, err
	}
	if need.Unnamed {
		return r, release, nil
	}
	sender := access.Request{
		Authorization: r.Header["Authorization"], Session: sessionOf(r), Forwarded: forwarded(r.Header),
		Address: RemoteAddress(r),
	}
	caller, err := f.access.Caller(r.Context(), sender)
	if err == nil && caller == access.Anyone && need.Named {
		caller, err = f.access.Named(r.Context(), sender)
	}
	if err != nil {
		return r, release, err
	}
	r = r.WithContext(context.WithValue(r.Context(), callerKey{}, caller))
	if err := authorize(caller, need.Right, application); err != nil {
		return r, release, err
	}
	if caller.Operates() {
		f.access.Used(caller, clientAddress(r), RequestID(r))
	}
	if need.Lasting {
		var ctx context.Context
		ctx, release = f.access.Keep(r.Context(), caller)
		r = r.WithContext(ctx)
	}
	return r, release, nil
}

// authorize returns an error unless the caller has the right, covers the application, and has an operation left.
func authorize(caller *access.Caller, right access.Need, application func() (string, error)) error {
	app, err := application()
	if caller != access.Anyone {
		if err := caller.Allow(right); err != nil {
			return about(app, err)
		}
	}
	if err != nil {
		return err
	}
	if app != "" {
		if err := caller.Cover(app); err != nil {
			return about(app, err)
		}
	}
	return caller.Spend(1)
}

// aboutError is the refusal of a request about an application, which its path may not name.
type aboutError struct {
	error

	application string
}

// Unwrap returns the refusal itself.
func (e *aboutError) Unwrap() error { return e.error }

func about(application string, err error) error {
	if err == nil || application == "" {
		return err
	}
	return &aboutError{err, application}
}

// CheckCaller returns a clock.ErrUnauthenticated if the token of the request's caller is not valid any more.
func (f *Front) CheckCaller(r *http.Request) error { return f.access.Check(CallerOf(r)) }

// RemoteAddress returns the address that stands for the client's host.
func RemoteAddress(r *http.Request) netip.Addr {
	remote, _ := netip.ParseAddrPort(r.RemoteAddr)
	return hostOf(remote.Addr())
}

// By returns the name for the answers of a request without a name: the name of the caller's token, or the address of
// the client.
func By(r *http.Request) string {
	if name := CallerOf(r).Name(); name != "" {
		return name
	}
	return clientAddress(r)
}

// clientAddress returns the address of the client.
func clientAddress(r *http.Request) string {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	return address
}

// Actor returns the sender of a request, as the audit records it.
func Actor(r *http.Request) *clock.Actor {
	caller := CallerOf(r)
	return &clock.Actor{Name: caller.Name(), Token: caller.TokenID(), From: clientAddress(r), RequestID: RequestID(r)}
}
