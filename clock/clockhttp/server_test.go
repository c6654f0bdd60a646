package clockhttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// metric returns the value of the metric with this label value, 0 if the metric does not exist.
func (h *harness) metric(name, label string) float64 {
	h.t.Helper()
	families, err := h.metrics.Gather()
	if err != nil {
		h.t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range m.Label {
				if f.GetName() == name && l.GetValue() == label {
					return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
				}
			}
		}
	}
	return 0
}

// awaitMetric waits until a metric has a value, because some metrics are counted after the client has its response.
func (h *harness) awaitMetric(name, label string, want float64) {
	h.t.Helper()
	for begun := time.Now(); h.metric(name, label) != want; {
		if time.Since(begun) > hangLimit {
			h.t.Fatalf("%s %s is %v, want %v", name, label, h.metric(name, label), want)
		}
		h.do("GET", "/healthz", "")
	}
}

func TestUnknownPathsAndMethodsAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, path := range []string{
		"/", "/v1", "/v2/applications/shop/alarms", "/v1/applications/shop", "/v1/applications/shop/alarm/x",
		"/V1/applications/shop/alarms",
		"/v1/applications/a/b/alarms", "/healthz/", "/v1/applications/shop/rings/1.1.1/nack", "/%2e%2e/etc/passwd",
		"//healthz",
	} {
		h.expect(404, "unknown_path", "GET", path, "")
		h.expect(404, "unknown_path", "POST", path, "{}")
	}
	for path, allow := range map[string][]string{
		alarms + "/x": {"GET", "PUT", "DELETE"}, alarms: {"GET", "POST"}, "/v1/applications/shop/rings": {"GET"},
		"/healthz": {"GET"},
	} {
		r := h.expect(405, "method_not_allowed", "PATCH", path, "{}")
		for _, method := range allow {
			if !strings.Contains(r.header.Get("Allow"), method) {
				t.Errorf("%s: Allow: %s", path, r.header.Get("Allow"))
			}
		}
	}
	h.awaitMetric("clockd_http_problems_total", "method_not_allowed", 4)
	for _, path := range []string{"/v1/oidc/start", "/v1/oidc/callback?code=x"} {
		h.expect(404, "unknown_path", "GET", path, "") // there is no provider
	}
}

// stubAlarms calls the functions of a test, which panic or fail.
type stubAlarms struct {
	Alarms
	get  func() (*clock.Alarm, error)
	list func() error
}

func (s *stubAlarms) Get(context.Context, clock.Key) (*clock.Alarm, error) { return s.get() }
func (s *stubAlarms) List(context.Context, clock.ListQuery, func(*clock.Alarm) bool) (clock.ListPosition, error) {
	return clock.ListPosition{}, s.list()
}

func TestUnexpectedFailuresAreLoggedOnce(t *testing.T) {
	t.Parallel()
	log := &logs{}
	stub := &stubAlarms{
		get:  func() (*clock.Alarm, error) { panic("a bug") },
		list: func() error { return errors.New("a surprise") },
	}
	h := start(t, func(su *setup) { su.deps.Log, su.deps.Alarms = log.logger(), stub })
	r := h.expect(500, "internal", "GET", alarms+"/x", "")
	if strings.Contains(string(r.body), "a bug") {
		t.Errorf("the response shows the panic: %s", r.body)
	}
	h.expect(500, "internal", "GET", alarms, "")
	stub.get = func() (*clock.Alarm, error) { return nil, clock.Unavailable(errors.New("gone")) }
	h.expect(503, "unavailable", "GET", alarms+"/x", "")
	text := log.String()
	if strings.Count(text, "level=ERROR") != 2 || !strings.Contains(text, "stubAlarms") ||
		!strings.Contains(text, "a surprise") || strings.Contains(text, "gone") {
		t.Errorf("log:\n%s", text)
	}
	h.awaitMetric("clockd_http_problems_total", "internal", 2)
}

func TestReadinessDecidesTheStatusOfReadyz(t *testing.T) {
	t.Parallel()
	ready := Readiness{Ready: true, Checks: []Check{{Name: "broker", Status: "down", Detail: `refused "x"`}}}
	h := start(t, func(su *setup) { su.deps.Readiness = func() Readiness { return ready } })
	if r := h.expect(200, "", "GET", "/healthz", ""); string(r.body) != "ok\n" {
		t.Errorf("%q", r.body)
	}
	r := h.expect(200, "", "GET", "/readyz", "")
	if string(r.body) != `{"ready":true,"checks":[{"name":"broker","status":"down","detail":"refused \"x\""}]}`+"\n" {
		t.Errorf("%s", r.body)
	}
	ready.Ready = false
	h.expect(503, "", "GET", "/readyz", "")
	if r := h.expect(200, "", "GET", "/metrics", ""); !strings.Contains(string(r.body), `clockd_http_request_duration_seconds_count{class="2xx",route="healthz"} 1`) {
		t.Errorf("%.2000s", r.body)
	}
}

func TestDatabaseFailureIs503(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.store.failWith(func(clock.Op) error { return clock.Unavailable(errors.New("gone")) })
	if r := h.expect(503, "unavailable", "PUT", alarms+"/x", `{"delay":1}`); r.header.Get("Retry-After") != "1" {
		t.Errorf("Retry-After: %q", r.header.Get("Retry-After"))
	}
	h.store.failWith(func(clock.Op) error { return clock.Unconfirmed(errors.New("gone")) })
	h.expect(503, "unconfirmed", "DELETE", alarms+"/x", "")
}

// TestStopWaitsForRunningRequests commits a set after the drain has begun.
func TestStopWaitsForRunningRequests(t *testing.T) {
	t.Parallel()
	entered, release := make(chan struct{}), make(chan struct{})
	h := start(t, func(su *setup) { su.store.hold = func() { close(entered); <-release } })
	status := make(chan int, 1)
	go func() { status <- h.do("PUT", alarms+"/x", `{"delay":"1h"}`).status }()
	<-entered
	stopped := make(chan struct{})
	go func() { h.stop(); close(stopped) }()
	<-h.server.front.Stopping().Done()
	close(release)
	if got := <-status; got != 201 {
		t.Errorf("status %d", got)
	}
	<-stopped
	if _, err := net.Dial("tcp", h.server.port.Addr().String()); err == nil {
		t.Error("the server still listens")
	}
}

func TestHalfClosedClientOfASetGetsItsResponse(t *testing.T) {
	t.Parallel()
	h := start(t)
	conn := h.dial()
	fmt.Fprintf(conn, "PUT %s/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n%s", alarms, `{"delay":"1h"}`)
	_ = conn.(*net.TCPConn).CloseWrite()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 201 {
		t.Errorf("status %d", resp.StatusCode)
	}
}

func TestSlowAndBrokenBodiesAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		request string
		close   bool
		status  int
		code    string
	}{
		"slow": {"PUT " + alarms + "/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{", false,
			408, "request_timeout"},
		"slow, not read": {"PUT /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{", false, 404,
			"unknown_path"},
		"slow batch": {"POST " + alarms + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n", false, 408, "request_timeout"},
		"cut": {"PUT " + alarms + "/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 14\r\n\r\n{", true,
			400, "incomplete_body"},
		"cut, chunked":       {"PUT " + alarms + "/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{", true, 400, "incomplete_body"},
		"broken chunking":    {"PUT " + alarms + "/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", false, 400, "incomplete_body"},
		"too large, chunked": {"PUT " + alarms + "/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n7a120\r\n" + strings.Repeat("x", 500_000) + "\r\n0\r\n\r\n", false, 413, "body_too_large"},
		"too large": {"PUT " + alarms + "/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
			false, 413, "body_too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, func(su *setup) {
				if strings.HasPrefix(name, "slow") { // another request has to arrive whole, on a slow machine as well
					su.cfg.ReadTimeout = 200 * time.Millisecond
				}
			})
			conn := h.dial()
			fmt.Fprint(conn, c.request)
			if c.close {
				_ = conn.(*net.TCPConn).CloseWrite()
			}
			_ = conn.SetReadDeadline(time.Now().Add(30 * time.Second))
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			if resp.StatusCode != c.status || !strings.Contains(string(b), `"`+c.code+`"`) {
				t.Errorf("%d %s", resp.StatusCode, b)
			}
			h.wantNoMemory()
		})
	}
}

// TestDrippingBodyIsCutAtTheBodyTimeout sends a body whose reads are fast enough, but whose whole is too slow.
func TestDrippingBodyIsCutAtTheBodyTimeout(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.cfg.BodyTimeout = 300 * time.Millisecond })
	conn := h.dial()
	fmt.Fprintf(conn, "PUT %s/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", alarms)
	response := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(conn).ReadString('\n')
		response <- line
	}()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 500 {
		select {
		case line := <-response:
			if !strings.Contains(line, "408") {
				t.Errorf("%q", line)
			}
			return
		case <-tick.C:
			_, _ = io.WriteString(conn, " ")
		}
	}
	t.Error("a body dripped for ten seconds")
}

// wantNoMemory fails the test unless all requests give their memory back.
func (h *harness) wantNoMemory() {
	h.t.Helper()
	for begun := time.Now(); ; h.do("GET", "/healthz", "") { // the client has its response before the handler ends
		var left int64
		for c := front.SmallBodies; c <= front.Requests; c++ {
			left += h.server.front.Memory.InUse(c)
		}
		switch {
		case left == 0:
			return
		case time.Since(begun) > hangLimit:
			h.t.Fatalf("%d bytes are still taken", left)
		}
	}
}

func TestConfigErrorsNameEveryFault(t *testing.T) {
	t.Parallel()
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	err := Config{}.Validate()
	for _, part := range []string{"read header timeout", "heartbeat", "listen address", "max header bytes", "body bytes", "window"} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s is missing in: %v", part, err)
		}
	}
	if _, err := New(DefaultConfig(), Deps{}); err == nil {
		t.Error("New accepts missing parts")
	}
	for address, want := range map[string]string{
		"8080": "missing port", "127.0.0.1:99999": `port "99999" is not`, "127.0.0.1:x-y": `port "x-y" is not`,
		"::1:8080": "too many colons",
		":8080":    "", "0.0.0.0:0": "", "[::1]:8080": "", "localhost:http": "",
	} {
		cfg := DefaultConfig()
		cfg.Listen = address
		if err := cfg.Validate(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("listen address %q: %v", address, err)
		}
	}
}

func TestOccupiedPortFails(t *testing.T) {
	t.Parallel()
	h := start(t)
	cfg := DefaultConfig()
	cfg.Listen = h.server.port.Addr().String()
	if _, err := Listen(t.Context(), cfg, quiet(), prometheus.NewRegistry()); err == nil ||
		!strings.Contains(err.Error(), cfg.Listen) {
		t.Errorf("listen: %v", err)
	}
}

// TestStalledUploadDoesNotDelayTheStop expects a response to an upload that stalls while the server stops.
func TestStalledUploadDoesNotDelayTheStop(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) {
		su.cfg.BodyGrace, su.cfg.DrainTimeout = time.Hour, time.Hour
		su.cfg.ReadTimeout, su.cfg.BodyTimeout = time.Hour, time.Hour
	})
	conn := h.dial()
	if _, err := conn.Write([]byte("PUT " + alarms + "/stalled HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") { // net/http sends it at the first read of the body
		t.Fatal(line, err)
	}
	h.stop()
	rest, err := io.ReadAll(in)
	if err != nil || !strings.Contains(string(rest), "408") || !strings.Contains(string(rest), codeRequestTimeout) {
		t.Errorf("the upload gets %q, %v", rest, err)
	}
}
