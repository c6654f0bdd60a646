package clockhttp

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// send sends a request with these headers and returns the response. The header Host sets the request's host.
func (h *harness) send(method, path string, header map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:8080"+path, nil)
	for name, value := range header {
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.server.ServeHTTP(w, r)
	return w
}

// pathOf returns the route's path with values for its parameters.
func pathOf(r route) string {
	path := map[string]string{
		alarmPath: "/v1/applications/shop/alarms/order", alarmsPath: "/v1/applications/shop/alarms",
		ringsPath:                    "/v1/applications/shop/rings",
		applicationPath + "/kick":    "/v1/applications/shop/kick",
		applicationPath + "/discard": "/v1/applications/shop/discard",
	}[r.path]
	switch {
	case path != "" && r.action != "":
		return path + "/" + r.action
	case path != "":
		return path
	case len(r.path) > len(ringPath) && r.path[:len(ringPath)] == ringPath:
		return "/v1/applications/shop/rings/1.1.1" + r.path[len(ringPath):]
	}
	return r.path
}

// refusedByGuard reports whether the guard has refused a request, and not the lack of a token.
func refusedByGuard(w *httptest.ResponseRecorder) bool {
	return w.Code == http.StatusForbidden && !strings.Contains(w.Body.String(), `"code":"`+clock.CodeForbidden+`"`)
}

func TestPageOfAnotherSiteMayNotChangeAlarmsOrTakeRings(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, r := range h.server.routes(prometheus.NewRegistry()) {
		for name, header := range map[string]map[string]string{
			"another site":                {"Sec-Fetch-Site": "cross-site"},
			"another port of this site":   {"Sec-Fetch-Site": "same-site"},
			"older browser":               {"Origin": "http://evil.example"},
			"sandboxed frame":             {"Origin": "null"},
			"same host, other port":       {"Origin": "http://127.0.0.1:9"},
			"frame over plain HTTP":       {"User-Agent": "Mozilla/5.0", "Referer": "http://evil.example/page"},
			"frame without a referrer":    {"User-Agent": "Mozilla/5.0"},
			"our page over plain HTTP":    {"User-Agent": "Mozilla/5.0", "Referer": "http://127.0.0.1:8080/page"},
			"program":                     {},
			"address bar":                 {"Sec-Fetch-Site": "none"},
			"page of this server":         {"Sec-Fetch-Site": "same-origin", "Origin": "http://127.0.0.1:8080"},
			"older browser, our own page": {"Origin": "http://127.0.0.1:8080"},
		} {
			foreign := header["Sec-Fetch-Site"] == "cross-site" || header["Sec-Fetch-Site"] == "same-site" ||
				header["Sec-Fetch-Site"] == "" && header["Origin"] != "" && header["Origin"] != "http://127.0.0.1:8080"
			if r.name == "streamRings" && strings.HasPrefix(name, "frame") {
				foreign = true
			}
			changes := r.method != http.MethodGet || r.name == "streamRings"
			w := h.send(r.method, pathOf(r), header)
			if refusedByGuard(w) != (foreign && changes) {
				t.Errorf("%s %s from %s: status %d %s", r.method, pathOf(r), name, w.Code, w.Body)
			}
		}
	}
}

func TestUnknownHostIsRefused(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.cfg.Hosts = []string{"clockd", "Clockd.Default.svc"} })
	for _, r := range h.server.routes(prometheus.NewRegistry()) {
		for host, known := range map[string]bool{
			"127.0.0.1:8080": true, "[::1]:8080": true, "10.1.2.3": true, "localhost:8080": true, "LOCALHOST": true,
			"app.localhost": true, "": true,
			"clockd:8080": true, "clockd.default.svc": true, "clockd.default.svc.:80": true,
			"rebind.example:8080": false, "clockd.default.svc.evil.example": false, "127.0.0.1.evil.example": false,
			"localhost.evil.example": false,
			"0x7f.1":                 false,
		} {
			w := h.send(r.method, pathOf(r), map[string]string{"Host": host})
			exempt := r.name == "healthz" || r.name == "readyz" || r.name == "metrics"
			if refusedByGuard(w) == (known || exempt) {
				t.Errorf("%s %s under %q: status %d", r.method, pathOf(r), host, w.Code)
			}
		}
	}
	refusal := h.send("GET", "/v1/nodes", map[string]string{"Host": "evil.example"}).Body.String()
	for _, word := range []string{"CLOCKD_HOSTS", front.CodeUnknownHost, "evil.example"} {
		if !strings.Contains(refusal, word) {
			t.Errorf("the refusal does not say %s: %s", word, refusal)
		}
	}
}
