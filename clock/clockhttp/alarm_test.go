package clockhttp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

func TestAlarmIsSetChangedReadAndCancelledOverHTTP(t *testing.T) {
	t.Parallel()
	h := start(t)
	const path = alarms + "/4711"
	const body = `{"ring_at":"2040-01-31T18:30:00+01:00","payload":{"order":4711},"latest_ring_at":4102444800000,
		"retry":{"initial":"2s","factor":1,"cap":"1m30s","limit":3},"ack_timeout":60000,"max_rings":4,"priority":9}`
	const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

	r := h.expect(201, "", "PUT", path, body, "traceparent: "+trace)
	for field, want := range map[string]any{
		"application": "shop", "business_id": "4711", "state": "scheduled", "generation": json.Number("1"),
		"ring_at": "2040-01-31T17:30:00.000Z", "latest_ring_at": "2100-01-01T00:00:00.000Z",
		"next_try_time": "2040-01-31T17:30:00.000Z",
		"content_type":  "application/json", "retry.initial": "2s", "retry.cap": "1m30s",
		"retry.limit": json.Number("3"),
		"ack_timeout": "1m", "max_rings": json.Number("4"), "priority": json.Number("9"), "traceparent": trace,
		"rung_at": nil,
	} {
		if got := r.field(field); got != want {
			t.Errorf("%s: %v, want %v", field, got, want)
		}
	}
	h.expect(200, "", "PUT", path, body)
	if r := h.expect(200, "", "PUT", path, strings.Replace(body, `9}`, `8}`, 1)); r.header.Get("ETag") != `"2"` {
		t.Errorf("ETag after a change: %q", r.header.Get("ETag"))
	}
	if r := h.expect(200, "", "GET", path, ""); r.field("generation") != json.Number("2") ||
		r.header.Get("ETag") != `"2"` {
		t.Errorf("get: %s", r.body)
	}
	h.expect(200, "", "DELETE", path, "")
	if r := h.expect(200, "", "DELETE", path, ""); r.field("state") != "cancelled" || r.field("finished_at") == nil {
		t.Errorf("cancel: %s", r.body)
	}
	h.expect(200, "", "PUT", path, body)
	h.expect(404, "unknown_alarm", "GET", alarms+"/4712", "")
	h.expect(404, "unknown_alarm", "DELETE", alarms+"/4712", "")
}

func TestLateCancelIsRefusedWithTheState(t *testing.T) {
	t.Parallel()
	h := start(t)
	key := clock.Key{Application: "shop", BusinessID: "late"}
	h.expect(201, "", "PUT", alarms+"/late", `{"delay":0}`)
	for _, c := range []struct {
		code   string
		change func(*clock.Alarm)
	}{
		{"already_rung", func(a *clock.Alarm) { a.State = clock.Rung }},
		{"already_rung", func(a *clock.Alarm) { a.State, a.RungAt = clock.Ringing, a.RingAt }},
		{"already_expired", func(a *clock.Alarm) { a.State = clock.Expired }},
		{"already_dead", func(a *clock.Alarm) { a.State, a.LastError = clock.Dead, "no queue" }},
		{"ring_in_doubt", func(a *clock.Alarm) { a.State, a.InDoubt = clock.Scheduled, true }},
	} {
		h.store.alter(key, c.change)
		r := h.expect(409, c.code, "DELETE", alarms+"/late", "")
		if r.field("alarm.business_id") != "late" || r.header.Get("ETag") != `"1"` {
			t.Errorf("%s: the alarm is missing: %s", c.code, r.body)
		}
	}
}

func TestGetShowsAttempts(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.expect(201, "", "PUT", alarms+"/a", `{"delay":"1h"}`)
	h.store.alter(clock.Key{Application: "shop", BusinessID: "a"}, func(a *clock.Alarm) {
		a.Attempts = []clock.Attempt{
			{Generation: 1, RingNo: 2, ClaimID: "c2", Time: 2000, Outcome: clock.Doubtful, Error: "no confirm"},
			{Generation: 1, RingNo: 2, ClaimID: "c1", Time: 1000, Outcome: clock.Returned},
		}
	})
	r := h.expect(200, "", "GET", alarms+"/a", "")
	const want = `"attempts":[{"generation":1,"ring_no":2,"claim_id":"c2","time":"1970-01-01T00:00:02.000Z","outcome":"in_doubt","error":"no confirm","by":null},` +
		`{"generation":1,"ring_no":2,"claim_id":"c1","time":"1970-01-01T00:00:01.000Z","outcome":"returned","error":null,"by":null}]}` + "\n"
	if !strings.HasSuffix(string(r.body), want) {
		t.Errorf("%s", r.body)
	}
}

// awkwardIDs are business ids that break routers, decoders, logs and collations.
var awkwardIDs = []string{
	"a/b", "/", "//", "a//b", "/a", "a/", "a/../b", "../a", "...", "a%2Fb", "a%252Fb", "%", "%25", "%zz", "a+b", "a b",
	"a  b", "a&b=c", "a?b", "a#b",
	"ä", "Ä", "a\u0308", "日本語", "😀", "e\u0301/é", "a;b", "a:b", "a,b", `a"b`, `a\b`, "a'b", "<a>", "{id}", "*", ":id",
	"~", "@", "$1", "a=b", "NULL", "0", "-1", "cancel",
	"alarms", "alarms/", "\u200b", "x\u202ey", "\ufeffx", "\ufffd", strings.Repeat("é", 64), strings.Repeat("%", 128),
}

func TestEveryValidIDSurvivesHTTP(t *testing.T) {
	t.Parallel()
	h := start(t)
	for i, id := range awkwardIDs {
		path := alarms + "/" + url.PathEscape(id)
		r := h.expect(201, "", "PUT", path, fmt.Sprintf(`{"delay":"1h","text":"%d"}`, i))
		if r.field("business_id") != id {
			t.Errorf("%q: set as %q", id, r.field("business_id"))
		}
		if r := h.expect(200, "", "GET", path, ""); r.field("text") != fmt.Sprint(i) {
			t.Errorf("%q returns another alarm: %s", id, r.body)
		}
	}
	if len(h.store.rows) != len(awkwardIDs) {
		t.Errorf("%d alarms, want %d", len(h.store.rows), len(awkwardIDs))
	}
	for _, id := range awkwardIDs {
		body, _ := json.Marshal(map[string]any{"set": []any{map[string]any{"business_id": id, "delay": "2h"}}})
		r := h.expect(200, "", "POST", alarms, string(body), "Content-Type: application/json")
		if !strings.Contains(string(r.body), `"status":200,"generation":2`) {
			t.Errorf("%q in a batch: %s", id, r.body)
		}
		h.expect(200, "", "DELETE", alarms+"/"+url.PathEscape(id), "")
	}
}

func TestBareSlashIsPartOfTheID(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.expect(201, "", "PUT", alarms+"/order/47%2F11/", `{"delay":"1h"}`)
	h.expect(200, "", "GET", alarms+"/order%2F47%2F11%2F", "")
	h.expect(404, "unknown_alarm", "GET", alarms+"/order/47%2F11", "")
}

func TestInvalidKeysAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	for path, code := range map[string]string{
		alarms + "/":                            "invalid_business_id",
		alarms + "/%2e":                         "invalid_business_id",
		alarms + "/%2e%2E":                      "invalid_business_id",
		alarms + "/%20a":                        "invalid_business_id",
		alarms + "/a%20":                        "invalid_business_id",
		alarms + "/a%00b":                       "invalid_business_id",
		alarms + "/a%0Ab":                       "invalid_business_id",
		alarms + "/%C2%85":                      "invalid_business_id",
		alarms + "/%FF":                         "invalid_business_id",
		alarms + "/" + strings.Repeat("a", 129): "invalid_business_id",
		"/v1/applications/a%2Fb/alarms/x":       "invalid_application",
		"/v1/applications/%C3%A4/alarms/x":      "invalid_application",
		"/v1/applications/-a/alarms/x":          "invalid_application",
		"/v1/applications//alarms/x":            "invalid_application",
		"/v1/applications/a+b/alarms/x":         "invalid_application",
		"/v1/applications/" + strings.Repeat("a", 65) + "/alarms/x": "invalid_application",
	} {
		for _, method := range []string{"GET", "PUT", "DELETE"} {
			h.expect(422, code, method, path, `{"delay":1}`)
		}
	}
}

// keyRecorder records the key of each get. It finds no alarm.
type keyRecorder struct {
	Alarms
	key clock.Key
}

func (k *keyRecorder) Get(_ context.Context, key clock.Key) (*clock.Alarm, error) {
	k.key = key
	return nil, clock.ErrNotFound
}

func (k *keyRecorder) List(context.Context, clock.ListQuery, func(*clock.Alarm) bool) (clock.ListPosition, error) {
	return clock.ListPosition{}, nil
}

// FuzzPath checks that a valid id reaches the domain unchanged, in each escaped form that clients use, and that no path
// leads to a server error.
func FuzzPath(f *testing.F) {
	for _, id := range awkwardIDs {
		f.Add(id, "/v1/applications/shop/alarms/"+url.PathEscape(id))
	}
	for _, path := range []string{
		"/v1/applications", "/v1/applications/shop/settings", "/v1/applications/shop/settings/history",
		"/v1/search?q=a", "/v1/bulk", "/v1/bulk/J1",
		"/v1/stats", "/v1/forecast", "/v1/nodes", "/v1/audit",
	} {
		f.Add("", path)
	}
	taker := &keyRecorder{}
	s := newServer(f, Deps{
		Alarms: taker, Settings: &fakeSettings{}, Search: &fixedSearch{store: newMemoryStore()}, Bulk: &fixedBulk{},
		Stats: fixedStats{},
		Known: func(context.Context, ApplicationsQuery) (ApplicationsView, error) { return ApplicationsView{}, nil },
		Forecast: func(context.Context, clock.ForecastQuery) (clock.Forecast, clock.Instant, error) {
			return clock.Forecast{}, 1_800_000_000_000, nil
		},
		Nodes: func(context.Context) (NodesView, error) { return NodesView{}, nil },
		Audit: func(context.Context, clock.ActsQuery) ([]clock.Act, error) { return nil, nil },
	})
	f.Fuzz(func(t *testing.T, id, path string) {
		want := clock.Key{Application: "shop", BusinessID: id}
		if want.Validate() == nil {
			for _, escaped := range []string{url.PathEscape(id), escapeAll(id), (&url.URL{Path: id}).EscapedPath()} {
				response := serve(s, alarms+"/"+escaped)
				if response.Code != 404 || taker.key != want {
					t.Fatalf("%q as %s: %d, %q", id, escaped, response.Code, taker.key)
				}
			}
		}
		if _, err := url.ParseRequestURI(path); err == nil && path[0] == '/' {
			if response := serve(s, path); response.Code >= 500 && !strings.HasPrefix(path, "/readyz") {
				t.Fatalf("%q: %d %s", path, response.Code, response.Body)
			}
		}
	})
}

// serve sends the server a GET for the path, in the form in which net/http passes it.
func serve(s *Server, path string) *httptest.ResponseRecorder {
	u, err := url.ParseRequestURI(path)
	if err != nil {
		panic(err)
	}
	response := httptest.NewRecorder()
	s.ServeHTTP(response,
		&http.Request{Method: "GET", URL: u, Header: http.Header{}, Host: "localhost", Body: http.NoBody})
	return response
}

func escapeAll(s string) string {
	var b strings.Builder
	for i := range len(s) {
		fmt.Fprintf(&b, "%%%02x", s[i])
	}
	return b.String()
}

func TestDurationsAreWrittenAsTheyAreRead(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		0: `"0s"`, time.Millisecond: `"1ms"`, 1500 * time.Millisecond: `"1s500ms"`, 30 * time.Minute: `"30m"`,
		90 * time.Minute: `"1h30m"`,
		24 * time.Hour:   `"24h"`, 25*time.Hour + time.Minute + time.Second + time.Millisecond: `"25h1m1s1ms"`,
	} {
		got := string(appendDuration(nil, d))
		back, err := clock.ParseDuration(strings.Trim(got, `"`))
		if d == 0 {
			back, err = time.ParseDuration(strings.Trim(got, `"`))
		}
		if got != want || err != nil || back != d {
			t.Errorf("%v: %s, read as %v, %v", d, got, back, err)
		}
	}
}
