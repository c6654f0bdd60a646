package webhook

import (
	"context"
	"net"
	"net/http"
)

// proxyKey is the key of the context of a request that goes through a proxy.
type proxyKey struct{}

// proxied is a HTTP client that may send requests through a proxy.
type proxied struct{ *http.Transport }

// RoundTrip sends a request.
func (p proxied) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, err := withProxy(r.Context(), p.Transport, r)
	if err != nil {
		return nil, err
	}
	return p.Transport.RoundTrip(r.WithContext(ctx))
}

// withProxy returns the context of a request. The connection that the HTTP client makes for the request inherits it.
func withProxy(ctx context.Context, client *http.Transport, r *http.Request) (context.Context, error) {
	if client.Proxy == nil {
		return ctx, nil
	}
	proxy, err := client.Proxy(r)
	if err != nil || proxy == nil {
		return ctx, err
	}
	return context.WithValue(ctx, proxyKey{}, true), nil
}

// dialProxyOr returns a dial that connects to proxies without a check, because the operator has named them. dial
// connects to receivers.
func dialProxyOr(
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if ctx.Value(proxyKey{}) != nil {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		}
		return dial(ctx, network, address)
	}
}
