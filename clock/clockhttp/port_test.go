package clockhttp

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
)

// listen returns a port on a free address.
func listen(t *testing.T) *Port {
	t.Helper()
	cfg := DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	port, err := Listen(t.Context(), cfg, quiet(), prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestPortServesTheStart asks a port over HTTP/1.1 and HTTP/2, before it has a server and afterwards, on the same
// connections.
func TestPortServesTheStart(t *testing.T) {
	t.Parallel()
	for name, protocols := range map[string]func(*http.Protocols){
		"HTTP/1.1": func(p *http.Protocols) { p.SetHTTP1(true) },
		"HTTP/2":   func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := listen(t)
			t.Cleanup(port.Close)
			transport := &http.Transport{Protocols: new(http.Protocols)}
			protocols(transport.Protocols)
			t.Cleanup(transport.CloseIdleConnections)
			ask := func(method, path, content string, status int, body string) {
				t.Helper()
				r, err := http.NewRequestWithContext(t.Context(), method, "http://"+port.Addr().String()+path,
					strings.NewReader(content))
				if err != nil {
					t.Fatal(err)
				}
				r.Header.Set("X-Request-Id", "mine")
				a, err := transport.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				defer a.Body.Close()
				b, err := io.ReadAll(a.Body)
				if err != nil || a.StatusCode != status || string(b) != body || a.Header.Get("X-Request-Id") != "mine" {
					t.Errorf("%s %s is %d, %q, %v; want %d, %q", method, path, a.StatusCode, b, err, status, body)
				}
			}
			refusal := `{"title":"Service Unavailable","status":503,"code":"unavailable","detail":"the node is starting; /readyz says what it waits for","request_id":"mine"}` + "\n"
			ask("GET", "/healthz", "", 200, "ok\n")
			ask("HEAD", "/healthz", "", 200, "")
			ask("GET", "/readyz", "", 503,
				`{"ready":false,"checks":[{"name":"process","status":"failing","detail":"starting"}]}`+"\n")
			port.WaitsFor(Check{Name: "database", Status: "failing", Detail: "refused"})
			ask("GET", "/readyz", "", 503,
				`{"ready":false,"checks":[{"name":"process","status":"failing","detail":"starting"},{"name":"database","status":"failing","detail":"refused"}]}`+"\n")
			ask("POST", "/healthz", "", 503, refusal)
			ask("PUT", alarms+"/a", `{"delay":"1h"}`, 503, refusal)
			ask("GET", "/healthz", "", 200, "ok\n")
			server := newServer(t,
				Deps{Alarms: startService(t, &setup{store: newMemoryStore(), service: clock.DefaultServiceConfig()})})
			server.Attach(port)
			stop := background(t, server.Run)
			ask("GET", "/readyz", "", 503, `{"ready":false,"checks":[]}`+"\n")
			ask("HEAD", alarms+"/a", "", 405, "")
			stop()
			<-port.ended
		})
	}
}

// TestPortEndsWithoutServer closes a port that no server was attached to.
func TestPortEndsWithoutServer(t *testing.T) {
	t.Parallel()
	port := listen(t)
	port.Close()
	port.Close()
	if a, err := http.Get("http://" + port.Addr().String() + "/healthz"); err == nil {
		a.Body.Close()
		t.Error("the port still listens")
	}
}
