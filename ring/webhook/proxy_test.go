package webhook

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/clockd/clockd/clock"
)

// The environment names a proxy only for a target that asks for it.
func TestProxyOfTheEnvironmentIsIgnored(t *testing.T) {
	t.Parallel()
	if b := openTarget(t); b.newTransport().Proxy != nil {
		t.Error("the client uses the proxy of the environment")
	}
	if b := openTarget(t, func(c *Config, _ *Deps) { c.EnvironmentProxy = true }); b.newTransport().Proxy == nil {
		t.Error("the client uses no proxy")
	}
}

// The guard lets connections to the proxy pass, and refuses the same address as the address of a receiver that the
// proxy does not serve.
func TestProxyNeedsNoAllowance(t *testing.T) {
	t.Parallel()
	var proxied, tunnels atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodConnect:
			tunnels.Add(1)
			w.WriteHeader(http.StatusBadGateway)
		case r.URL.Host == "receiver.invalid":
			proxied.Add(1)
		default:
			t.Errorf("the proxy got %s %s directly", r.Method, r.URL)
		}
	}))
	defer proxy.Close()
	proxyURL, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	b := openTarget(t, func(c *Config, _ *Deps) { c.Allow, c.EnvironmentProxy = nil, true })
	b.proxy = func(r *http.Request) (*url.URL, error) {
		if r.URL.Host == proxyURL.Host { // as with NO_PROXY
			return nil, nil
		}
		return proxyURL, nil
	}
	b.point("shop", "http://receiver.invalid/hook")
	wantKinds(t, b.deliver(rings("shop", 2)...), clock.Confirmed)
	if n := proxied.Load(); n != 2 {
		t.Errorf("the proxy got %d requests", n)
	}
	b.point("shop", "https://receiver.invalid/hook")
	if o := b.deliver(rings("shop", 1)...)[0]; o.Kind != clock.Returned || tunnels.Load() != 1 {
		t.Errorf("the tunnel that the proxy refused: %+v, %d tunnels", o, tunnels.Load())
	}
	b.point("shop", proxy.URL+"/direct")
	if o := b.deliver(rings("shop", 1)...)[0]; o.Kind != clock.Returned || !strings.Contains(o.Reason, "not public") {
		t.Errorf("a receiver at the proxy's address, without the proxy: %+v", o)
	}
}
