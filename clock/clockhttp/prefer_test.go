package clockhttp

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
)

func TestPreferredWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		headers []string
		want    time.Duration // 0: not given
	}{
		{nil, 0},
		{[]string{"wait=5"}, 5 * time.Second},
		{[]string{`respond-async; a=b, Wait = "7" ; x`}, 7 * time.Second},
		{[]string{"return=minimal", "wait=3, wait=9"}, 3 * time.Second},
		{[]string{"wait=soon, wait=4"}, 4 * time.Second},
		{[]string{"wait"}, 0},
		{[]string{"wait=0"}, 0},
		{[]string{"wait=-1"}, 0},
		{[]string{"wait=1.5"}, 0},
		{[]string{"wait=99999999999999999999"}, 0},
		{[]string{"await=5, waiting=5, ,;="}, 0},
	} {
		wait, given := preferredWait(http.Header{"Prefer": c.headers})
		if wait != c.want || given != (c.want > 0) {
			t.Errorf("%q: %s, given %t", c.headers, wait, given)
		}
	}
}

func FuzzPreferredWait(f *testing.F) {
	f.Add(`respond-async; a=b, Wait = "7" ; x`)
	f.Fuzz(func(t *testing.T, line string) {
		wait, given := preferredWait(http.Header{"Prefer": {line}})
		if given != (wait >= time.Second) || wait%time.Second != 0 ||
			given && !strings.Contains(strings.ToLower(line), "wait") {
			t.Errorf("%q: %s, given %t", line, wait, given)
		}
	})
}

// stuckAlarms never responds: its ops stay in the queue, and its reads end with their context.
type stuckAlarms struct{ *clock.Service }

func (s stuckAlarms) Get(ctx context.Context, _ clock.Key) (*clock.Alarm, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s stuckAlarms) List(
	ctx context.Context, _ clock.ListQuery, _ func(*clock.Alarm) bool,
) (clock.ListPosition, error) {
	<-ctx.Done()
	return clock.ListPosition{}, ctx.Err()
}

// While the database does not respond, a client gets its response after the time that it said, or after
// clock.RequestTimeout.
func TestRequestLastsNoLongerThanItsClientWaits(t *testing.T) {
	t.Parallel()
	const alarm, set = "/v1/applications/shop/alarms/a", `{"delay":"1h"}`
	for _, r := range []struct{ method, path, body, code string }{
		{http.MethodPut, alarm, set, clock.CodeUnavailable},
		{http.MethodDelete, alarm, "", clock.CodeUnavailable},
		{http.MethodPost, alarm + "/kick", "", clock.CodeUnavailable},
		{http.MethodPost, "/v1/applications/shop/alarms", `{"set":[{"business_id":"b","delay":"1h"}]}`,
			clock.CodeUnavailable},
		{http.MethodGet, alarm, "", clock.CodeUnavailable},
		{http.MethodGet, "/v1/applications/shop/alarms", "", clock.CodeUnavailable},
	} {
		for prefer, want := range map[string]time.Duration{"": clock.RequestTimeout, "wait=3": 3 * time.Second, "wait=60": clock.RequestTimeout} {
			synctest.Test(t, func(t *testing.T) {
				store := newMemoryStore()
				timebase, err := clock.NewTimebase(clock.DefaultTimebaseConfig(), clock.TimebaseDeps{Source: store})
				if err != nil {
					t.Fatal(err)
				}
				if err := timebase.Sample(t.Context()); err != nil {
					t.Fatal(err)
				}
				service, err := clock.NewService(clock.DefaultServiceConfig(), clock.ServiceDeps{Store: store, Time: timebase, Listener: store}) // it does not run
				if err != nil {
					t.Fatal(err)
				}
				server := newServer(t, Deps{Alarms: stuckAlarms{service}})
				request := httptest.NewRequestWithContext(t.Context(), r.method, "http://localhost"+r.path,
					strings.NewReader(r.body))
				if r.body != "" {
					request.Header.Set("Content-Type", "application/json")
				}
				applied := ""
				if prefer != "" {
					request.Header.Set("Prefer", prefer)
					applied = fmt.Sprintf("wait=%d", want/time.Second)
				}
				w, begun := httptest.NewRecorder(), time.Now()
				server.ServeHTTP(w, request)
				if took := time.Since(begun); took != want || w.Code != http.StatusServiceUnavailable ||
					!strings.Contains(w.Body.String(), r.code) {
					t.Errorf("%s %s, prefer %q: %d after %s, want 503 %s after %s: %s", r.method, r.path, prefer,
						w.Code, took, r.code, want, w.Body)
				}
				if got := w.Header().Get("Preference-Applied"); got != applied {
					t.Errorf("%s %s, prefer %q: applied %q", r.method, r.path, prefer, got)
				}
			})
		}
	}
}
