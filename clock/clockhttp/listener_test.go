package clockhttp

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"
)

// TestConnectionsAreLimited checks the limit in total and for one address. A connection over the limit is refused at
// once. A closed connection makes room for a new connection.
func TestConnectionsAreLimited(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Config){
		"in total":         func(c *Config) { c.Connections, c.ConnectionsPerAddress = 3, 0 },
		"from one address": func(c *Config) { c.ConnectionsPerAddress = 3 },
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, func(su *setup) { change(&su.cfg) })
			conns := make([]net.Conn, 3)
			for i := range conns {
				conns[i] = h.dial()
				if status := statusOn(t, conns[i]); status != 200 {
					t.Fatalf("connection %d: %d", i, status)
				}
			}
			if status := statusOn(t, h.dial()); status != 503 {
				t.Errorf("a connection over the limit: %d", status)
			}
			_ = conns[1].Close()
			for begun := time.Now(); statusOn(t, h.dial()) != 200; {
				if time.Since(begun) > hangLimit {
					t.Fatal("a closed connection makes no room")
				}
			}
			if status := statusOn(t, conns[0]); status != 200 {
				t.Errorf("an earlier connection: %d", status)
			}
		})
	}
}

// statusOn requests /healthz on the connection and returns the status. It returns 503 also for a connection that closed
// first.
func statusOn(t *testing.T, conn net.Conn) int {
	t.Helper()
	_, _ = io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return http.StatusServiceUnavailable
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}

// TestAddressesOfOneHostShareOneLimit uses several addresses of one IPv6 /64, and both forms of one IPv4 address.
func TestAddressesOfOneHostShareOneLimit(t *testing.T) {
	t.Parallel()
	l := &limitedListener{maxOpen: 10, maxPerHost: 1, openByHost: map[netip.Addr]int{}}
	for _, c := range []struct {
		address string
		admit   bool
	}{
		{"10.0.0.1", true}, {"10.0.0.1", false}, {"::ffff:10.0.0.1", false}, {"10.0.0.2", true},
		{"2001:db8::1", true}, {"2001:db8::2", false}, {"2001:db8:0:1::1", true},
	} {
		if got := l.admit(hostOf(netip.MustParseAddr(c.address))); got != c.admit {
			t.Errorf("%s: admitted %v", c.address, got)
		}
	}
	l.leave(hostOf(netip.MustParseAddr("10.0.0.1")))
	if !l.admit(netip.MustParseAddr("10.0.0.1")) || l.open != 4 || len(l.openByHost) != 4 {
		t.Errorf("after one left: %d open of %d hosts", l.open, len(l.openByHost))
	}
}
