package clockhttp

import (
	"bufio"
	"io"
	"net"
	"net/http"
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
