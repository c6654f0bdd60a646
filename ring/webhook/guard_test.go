package webhook

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// The guard sees the address of the connection, also of names and of other forms of an address, and no byte reaches a
// refused server.
func TestNoConnectionGoesToThisHost(t *testing.T) {
	t.Parallel()
	hits := make(chan struct{}, 100)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hits <- struct{}{} }))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b := openTarget(t, func(c *Config, _ *Deps) { c.Allow = nil })
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "[::1]"} {
		b.point("shop", "http://"+host+":"+port)
		outcomes := b.deliver(rings("shop", 1)...)
		wantKinds(t, outcomes, clock.Returned)
		if !strings.Contains(outcomes[0].Reason, "not public") {
			t.Errorf("%s: %s", host, outcomes[0].Reason)
		}
	}
	if len(hits) > 0 {
		t.Errorf("%d requests reached the server", len(hits))
	}
	b = openTarget(t, func(c *Config, _ *Deps) { c.Allow = []string{"localhost"} })
	b.point("shop", "http://localhost:"+port)
	wantKinds(t, b.deliver(rings("shop", 1)...), clock.Confirmed)
}
