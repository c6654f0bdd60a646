package clockhttp

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

func TestRequestIDOfTheClientIsReturned(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, id := range []string{"a", "0f8fad5b-d9cb-469f-a165-70867728950e", "shop/order:4711+a=b@c~d_e.f", strings.Repeat("x", 128)} {
		if got := h.do("GET", "/v1/nodes", "", "X-Request-Id: "+id).header.Get("X-Request-Id"); got != id {
			t.Errorf("got %q, want %q", got, id)
		}
	}
}

// plainID matches the ids that clockd makes.
var plainID = regexp.MustCompile(`^[A-Z0-9]+-[a-z0-9]+$`)

func TestInvalidRequestIDIsReplaced(t *testing.T) {
	t.Parallel()
	h := start(t)
	seen := map[string]bool{}
	for _, headers := range [][]string{
		nil, {"X-Request-Id: "}, {"X-Request-Id: a b"}, {"X-Request-Id: a\"b"}, {"X-Request-Id: grün"},
		{"X-Request-Id: " + strings.Repeat("x", 129)},
		{"X-Request-Id: a", "X-Request-Id: b"},
	} {
		ids := h.do("GET", "/healthz", "", headers...).header.Values("X-Request-Id")
		if len(ids) != 1 || !plainID.MatchString(ids[0]) || len(ids[0]) < 15 || seen[ids[0]] {
			t.Errorf("%q: the response has the ids %q", headers, ids)
		}
		seen[ids[0]] = true
	}
}

func TestProblemsNameTheirRequest(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, path := range []string{"/v1/applications/shop/alarms/unknown", "/nowhere", "/v1/applications/-/alarms/x"} {
		r := h.do("GET", path, "", "X-Request-Id: "+t.Name())
		if got := r.field("request_id"); got != t.Name() || r.status < 400 {
			t.Errorf("%s: status %d, request_id %v", path, r.status, got)
		}
	}
}

func TestLogLinesNameTheirRequest(t *testing.T) {
	t.Parallel()
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo} {
		t.Run(level.String(), func(t *testing.T) {
			var out bytes.Buffer
			server := newServer(t,
				Deps{Alarms: startService(t, &setup{store: newMemoryStore(), service: clock.DefaultServiceConfig()}),
					Nodes: func(context.Context) (NodesView, error) { panic("fault") },
					Log:   slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))})
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/nodes", nil)
			r.Host = "localhost"
			r.Header.Set("X-Request-Id", "r-4711")
			server.ServeHTTP(httptest.NewRecorder(), r)
			if log := out.String(); !strings.Contains(log, `msg="request failed" request_id=r-4711`) {
				t.Errorf("the log does not name the request of the failure:\n%s", log)
			}
			if log := out.String(); strings.Contains(log, `msg="request served" request_id=r-4711 method=GET route=listNodes status=500`) != (level == slog.LevelDebug) {
				t.Errorf("at level %s the log is:\n%s", level, log)
			}
		})
	}
}
