package clockhttp

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock/access"
)

// Access knows the callers of requests. *access.Watch implements it.
type Access interface {
	// Caller returns the caller of a request, access.Anyone if it needs no token. It returns a clock.ErrUnauthenticated
	// for any other request.
	Caller(r access.Request) (*access.Caller, error)
	// Check returns a clock.ErrUnauthenticated if the caller of an earlier request would not be the caller of a new
	// one.
	Check(c *access.Caller) error
	// Keep returns a context that ends soon after the caller's token is not valid any more. Call release when the
	// request ends.
	Keep(ctx context.Context, c *access.Caller) (kctx context.Context, release func())
}

var _ Access = (*access.Watch)(nil)

// openAccess lets everyone do everything.
type openAccess struct{}

func (openAccess) Caller(access.Request) (*access.Caller, error) { return access.Anyone, nil }

func (openAccess) Check(*access.Caller) error { return nil }

func (openAccess) Keep(ctx context.Context, _ *access.Caller) (context.Context, func()) {
	return ctx, func() {}
}

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

// callerKey is the key of a request's caller in the request's context.
type callerKey struct{}

// callerOf returns the caller of a request. A request that authorize has not seen has a caller that may do nothing.
func callerOf(r *http.Request) *access.Caller {
	if c, known := r.Context().Value(callerKey{}).(*access.Caller); known {
		return c
	}
	return new(access.Caller)
}

// authorize finds out who calls, and puts the caller into the request's context. It returns an error unless the caller
// may use the route, with the application in its path if there is one. Call release when the request ends.
func (s *Server) authorize(r *route, c echo.Context) (release func(), err error) {
	release, request := func() {}, c.Request()
	caller, err := s.access.Caller(access.Request{
		Authorization: request.Header["Authorization"], Forwarded: forwarded(request.Header),
		Address: remoteAddress(request),
	})
	if err != nil {
		return release, err
	}
	if caller != access.Anyone {
		if err := caller.Allow(r.need); err != nil {
			return release, err
		}
	}
	if c.Param("application") != "" {
		app, err := pathParam(c, "application")
		if err != nil {
			return release, err
		}
		if err := caller.Cover(app); err != nil {
			return release, err
		}
	}
	if err := caller.Spend(1); err != nil {
		return release, err
	}
	ctx := context.WithValue(request.Context(), callerKey{}, caller)
	if r.lasting {
		ctx, release = s.access.Keep(ctx, caller)
	}
	c.SetRequest(request.WithContext(ctx))
	return release, nil
}

// coverNamed returns a clock.ErrForbidden unless the caller may use the application that the request names. A request
// that names none passes.
func coverNamed(c echo.Context, application string) error {
	if application == "" {
		return nil
	}
	return callerOf(c.Request()).Cover(application)
}

// Authorize returns a clock.ErrForbidden unless the caller of the request may use the application.
func (s *Server) Authorize(r *http.Request, application string) error {
	return callerOf(r).Cover(application)
}

// Spend counts further operations of a request, of which one is counted already. It returns a clock.ErrLimited if they
// are too many.
func (s *Server) Spend(r *http.Request, operations int) error { return callerOf(r).Spend(operations) }

// remoteAddress returns the address that stands for the client's host.
func remoteAddress(r *http.Request) netip.Addr {
	remote, _ := netip.ParseAddrPort(r.RemoteAddr)
	return hostOf(remote.Addr())
}

// By returns the name for the answers of a request that names nobody: the name of the caller's token, or the address of
// the client.
func (s *Server) By(r *http.Request) string {
	if name := callerOf(r).Name(); name != "" {
		return name
	}
	return clientAddress(r)
}

// clientAddress returns the address of the client.
func clientAddress(r *http.Request) string {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	return address
}
