package clockhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// setDead sets an alarm, gives it the state st and returns its path.
func (h *harness) setDead(id string, st clock.State) string {
	h.t.Helper()
	path := alarms + "/" + url.PathEscape(id)
	h.expect(201, "", "PUT", path, `{"delay":"1h"}`)
	h.store.alter(clock.Key{Application: "shop", BusinessID: id}, func(a *clock.Alarm) {
		a.State, a.NextTryTime, a.FinishedAt, a.LastError, a.RetryTimes = st, clock.NoInstant, 7, "no queue", 5
	})
	return path
}

func TestKickAndDiscardChangeOneAlarm(t *testing.T) {
	t.Parallel()
	h := start(t)
	path := h.setDead("a", clock.Dead)
	h.expect(412, "condition_failed", "POST", path+"/kick", "", `If-Match: "2"`)
	r := h.expect(200, "", "POST", path+"/kick", "", `If-Match: "1"`)
	if r.field("state") != "scheduled" || r.field("retry_times") != json.Number("0") ||
		r.field("last_error") != "no queue" || r.header.Get("ETag") != `"1"` {
		t.Errorf("kicked: %s", r.body)
	}
	for _, action := range []string{"/kick", "/discard"} {
		if r := h.expect(409, "not_dead", "POST", path+action, "{}"); r.field("alarm.state") != "scheduled" {
			t.Errorf("%s: %s", action, r.body)
		}
		h.expect(404, "unknown_alarm", "POST", alarms+"/none"+action, "")
		h.expect(422, "unknown_field", "POST", path+action, `{"state":["dead"]}`)
		h.expect(400, "not_json", "POST", path+action, `x`)
		h.expect(422, "invalid_condition", "POST", path+action, "", "If-None-Match: *")
		h.expect(422, "invalid_business_id", "POST", alarms+"/"+action, "")
	}
	path = h.setDead("b", clock.Expired)
	for range 2 {
		if r := h.expect(200, "", "POST", path+"/discard", " "); r.field("state") != "cancelled" ||
			r.field("last_error") != "no queue" {
			t.Errorf("discarded: %s", r.body)
		}
	}
	h.awaitMetric("clockd_http_request_duration_seconds", "discardAlarm", 2)
}

// The path after the last slash is the action. The path before it is the id.
func TestKickAndDiscardTakeEveryValidID(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, id := range append(awkwardIDs, "kick", "a/kick", "discard", "kick/discard") {
		path := h.setDead(id, clock.Dead)
		if r := h.expect(200, "", "POST", path+"/kick", ""); r.field("business_id") != id {
			t.Errorf("%q: kicked %v", id, r.field("business_id"))
		}
	}
	h.setDead("x/y", clock.Dead)
	if r := h.expect(200, "", "POST", alarms+"/x/y/discard", ""); r.field("business_id") != "x/y" {
		t.Errorf("with a bare slash: %s", r.body)
	}
}

func TestPostWithoutAKnownActionIsRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, path := range []string{"/x", "/x/kickk", "/kick", "/x/kick/", "/x%2Fkick", "/x/ack"} {
		r := h.expect(405, "method_not_allowed", "POST", alarms+path, "")
		if r.header.Get("Allow") != "DELETE, GET, PUT" {
			t.Errorf("%s: Allow: %q", path, r.header.Get("Allow"))
		}
	}
}

// A path with an action is the action's with every method, and never an alarm with such an id.
func TestActionsTakeTheirOwnMethodAlone(t *testing.T) {
	t.Parallel()
	h := start(t)
	for path, allow := range map[string]string{
		"/x/pause": "POST", "/x/y/kick": "POST", "/x/events": "GET", "/x": "DELETE, GET, PUT",
	} {
		for _, method := range []string{"PUT", "GET", "DELETE", "POST", "PATCH"} {
			if strings.Contains(allow, method) {
				continue
			}
			r := h.expect(405, "method_not_allowed", method, alarms+path, `{"delay":"1h"}`)
			if r.header.Get("Allow") != allow {
				t.Errorf("%s %s: Allow: %q", method, path, r.header.Get("Allow"))
			}
		}
		if r := h.do("OPTIONS", alarms+path, ""); r.status != 204 || r.header.Get("Allow") != "OPTIONS, "+allow {
			t.Errorf("OPTIONS %s: %d, Allow: %q", path, r.status, r.header.Get("Allow"))
		}
	}
	if r := h.expect(201, "", "PUT", alarms+"/x%2Fpause", `{"delay":"1h"}`); r.field("business_id") != "x/pause" {
		t.Errorf("with an escaped slash: %s", r.body)
	}
}

func TestKickAndDiscardChangeTheFilteredAlarms(t *testing.T) {
	t.Parallel()
	h := start(t)
	for i := range 12 {
		h.setDead(fmt.Sprintf("a%02d", i), []clock.State{clock.Dead, clock.Expired}[i%2])
	}
	h.setDead("b/ä", clock.Dead)
	h.setDead("c", clock.Rung)
	const app = "/v1/applications/shop"
	r := h.expect(200, "", "POST", app+"/kick", `{"prefix":"a","limit":5,"state":["expired"]}`)
	if r.field("kicked") != json.Number("5") || r.field("failed") != json.Number("0") || r.field("cursor") == nil {
		t.Fatalf("%s", r.body)
	}
	body, _ := json.Marshal(map[string]any{"prefix": "a", "limit": 5, "state": []string{"expired"},
		"cursor": r.field("cursor")})
	if r = h.expect(200, "", "POST", app+"/kick", string(body)); string(r.body) != `{"kicked":1,"failed":0,"cursor":null}`+"\n" {
		t.Errorf("%s", r.body)
	}
	if r = h.expect(200, "", "POST", app+"/discard", ``); string(r.body) != `{"discarded":7,"failed":0,"cursor":null}`+"\n" {
		t.Errorf("%s", r.body)
	}
	for query, want := range map[string]int{"state=scheduled": 6, "state=cancelled": 7, "state=dead,expired": 0, "state=rung": 1} {
		if ids, _ := h.walk(query); len(ids) != want {
			t.Errorf("%s: %q, want %d", query, ids, want)
		}
	}
	h.awaitMetric("clockd_http_request_duration_seconds", "kickAlarms", 2)
}

func TestFilteredRequestMayBeRepeatedAfterADatabaseFailure(t *testing.T) {
	t.Parallel()
	h := start(t)
	for i := range 150 {
		h.setDead(fmt.Sprintf("%03d", i), clock.Dead)
	}
	h.store.failWith(func(op clock.Op) error {
		if op.Key().BusinessID >= "100" {
			return clock.Unavailable(errors.New("gone"))
		}
		return nil
	})
	r := h.expect(503, "unavailable", "POST", "/v1/applications/shop/discard", "")
	if detail, _ := r.field("detail").(string); !strings.Contains(detail, "100 alarms were discarded") ||
		r.header.Get("Retry-After") == "" {
		t.Errorf("%s", r.body)
	}
	h.store.failWith(nil)
	if r := h.expect(200, "", "POST", "/v1/applications/shop/discard", ""); r.field("discarded") != json.Number("50") {
		t.Errorf("repeated: %s", r.body)
	}
}

// badFilters are invalid bodies.
var badFilters = []struct{ body, code, field string }{
	{`[]`, "invalid_value", ""},
	{`{"states":["dead"]}`, "unknown_field", "states"},
	{`{"limit":1,"limit":2}`, "duplicate_field", "limit"},
	{`{"limit":0}`, "out_of_range", "limit"},
	{`{"limit":10001}`, "out_of_range", "limit"},
	{`{"limit":"5"}`, "invalid_value", "limit"},
	{`{"state":"dead"}`, "invalid_value", "state"},
	{`{"state":[]}`, "invalid_value", "state"},
	{`{"state":["rung"]}`, "invalid_value", "state"},
	{`{"state":["dead","dead","dead"]}`, "invalid_value", "state"},
	{`{"state":[1]}`, "invalid_value", "state"},
	{`{"prefix":1}`, "invalid_value", "prefix"},
	{`{"prefix":"` + strings.Repeat("x", 129) + `"}`, "invalid_business_id", "prefix"},
	{`{"prefix":"a\u0000"}`, "invalid_business_id", "prefix"},
	{`{"cursor":"x"}`, "invalid_cursor", "cursor"},
	{`{"cursor":7}`, "invalid_value", "cursor"},
}

func TestInvalidFiltersAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.setDead("a", clock.Dead)
	for _, path := range []string{"/v1/applications/shop/kick", "/v1/applications/shop/discard"} {
		for _, c := range append(slices.Clone(badFilters), struct{ body, code, field string }{
			`{"cursor":"` + clock.EncodeCursor("other", clock.ListPosition{BusinessID: "a"}) + `"}`, "invalid_cursor",
			"cursor",
		}) {
			r := h.expect(422, c.code, "POST", path, c.body)
			if got, _ := r.field("field").(string); got != c.field {
				t.Errorf("%.100s: field %q, want %q: %s", c.body, got, c.field, r.body)
			}
		}
		h.expect(400, "not_json", "POST", path, `{`)
		h.expect(422, "invalid_condition", "POST", path, ``, `If-Match: "1"`)
	}
	h.expect(422, "invalid_application", "POST", "/v1/applications/-/kick", "")
	if ids, _ := h.walk("state=dead"); len(ids) != 1 {
		t.Error("something was kicked or discarded")
	}
}

func FuzzFilterBody(f *testing.F) {
	for _, c := range badFilters {
		f.Add([]byte(c.body))
	}
	for _, body := range []string{
		``, `{}`, `{"state":["dead","expired"],"prefix":"a","limit":1e3,"cursor":""}`, `{"state":null,"limit":null}`,
		`{"cursor":"` + clock.EncodeCursor("shop", clock.ListPosition{BusinessID: "a"}) + `"}`,
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		q, err := decodeFilter(body, "shop")
		if err != nil {
			if p := front.ProblemOf(err); p.Status != 400 && p.Status != 422 || p.Detail == "" {
				t.Fatalf("%q: %+v", body, p)
			}
			return
		}
		for _, st := range q.States {
			if st != clock.Dead && st != clock.Expired {
				t.Fatalf("%q selects the state %s", body, st)
			}
		}
		if q.After != "" && clock.ValidateBusinessID(q.After) != nil {
			t.Fatalf("%q goes on after %q", body, q.After)
		}
	})
}
