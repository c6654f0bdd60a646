package clockhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

const asJSON = "Content-Type: application/json; charset=utf-8"

// itemResult is one result of a batch or a stream.
type itemResult struct {
	Line       int    `json:"line"`
	ID         string `json:"business_id"`
	Status     int    `json:"status"`
	Generation int    `json:"generation"`
	State      string `json:"state"`
	Code       string `json:"code"`
	Field      string `json:"field"`
	Detail     string `json:"detail"`
}

func (r itemResult) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s %d %d %s %s %s", r.ID, r.Status, r.Generation, r.State, r.Code, r.Field))
}

// TestBatchMayNameOneKeyOften sends more items for one key than may wait for it at once.
func TestBatchMayNameOneKeyOften(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.service.Writer.KeyOps = 10 })
	sets := make([]string, 200)
	for i := range sets {
		sets[i] = fmt.Sprintf(`{"business_id":"hot","ring_at":%d}`, 2_000_000_000_000+i)
	}
	results := h.batch(`{"set":[` + strings.Join(sets, ",") + `]}`)
	for i, r := range results {
		if r.Status >= 300 || r.Generation != i+1 {
			t.Fatalf("item %d: %s", i, r)
		}
	}
}

func (h *harness) batch(body string) (results []itemResult) {
	h.t.Helper()
	r := h.expect(200, "", "POST", alarms, body, asJSON)
	var response struct {
		Results []itemResult `json:"results"`
	}
	if err := json.Unmarshal(r.body, &response); err != nil {
		h.t.Fatalf("batch: %s", r.body)
	}
	return response.Results
}

func TestBatchGivesOneResultForEachItem(t *testing.T) {
	t.Parallel()
	h := start(t)
	results := h.batch(`{"cancel":["b","zz",5,"",".."],"set":[
		{"business_id":"a","ring_at":2000000000000},{"business_id":"b","delay":"1h"},{"business_id":"a","ring_at":2000000000000},
		{"business_id":"a","ring_at":2000000000001},{"business_id":"a","ring_at":2000000000001,"if":"absent"},
		{"business_id":"c","delay":"x"},{"delay":1},{"business_id":" c","delay":1},7,{"business_id":"c","cancel":"x"},{"business_id":"d","delay":1,"delay":1}]}`)
	want := []string{
		"a 201 1 scheduled", "b 201 1 scheduled", "a 200 1 scheduled", "a 200 2 scheduled",
		"a 412 2 scheduled condition_failed",
		"c 422 0  invalid_value delay", "422 0  required business_id", " c 422 0  invalid_business_id business_id",
		"422 0  invalid_value",
		"c 422 0  unknown_field cancel", "d 422 0  duplicate_field delay",
		"b 200 1 cancelled", "zz 404 0  unknown_alarm", "422 0  invalid_value business_id",
		"422 0  invalid_business_id business_id",
		".. 422 0  invalid_business_id business_id",
	}
	if len(results) != len(want) {
		t.Fatalf("%d results, want %d", len(results), len(want))
	}
	for i, r := range results {
		if r.String() != strings.TrimSpace(want[i]) {
			t.Errorf("result %d: %q, want %q", i, r, want[i])
		}
	}
	if got := h.batch(` { } `); len(got) != 0 {
		t.Errorf("an empty batch has %d results", len(got))
	}
	if got := h.batch(`{"set":null,"cancel":[]}`); len(got) != 0 {
		t.Errorf("an empty batch has %d results", len(got))
	}
}

func TestInvalidBatchesAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	item := `{"business_id":"a","delay":1}`
	for _, c := range []struct {
		body   string
		status int
		code   string
	}{
		{``, 400, "not_json"},
		{`{"set":[}`, 400, "not_json"},
		{`[]`, 422, "invalid_value"},
		{`{"set":{}}`, 422, "invalid_value"},
		{`{"set":[],"sets":[]}`, 422, "unknown_field"},
		{`{"set":[],"set":[]}`, 422, "duplicate_field"},
		{`{"set":[` + strings.Repeat(item+",", 1000) + item + `]}`, 413, "batch_too_large"},
		{`{"set":[` + strings.Repeat(item+",", 999) + item + `],"cancel":["x"]}`, 413, "batch_too_large"},
		{strings.Repeat(" ", BatchBytes+1), 413, "body_too_large"},
	} {
		h.expect(c.status, c.code, "POST", alarms, c.body, asJSON)
	}
	if len(h.store.rows) != 0 {
		t.Errorf("%d alarms were set", len(h.store.rows))
	}
	for _, ct := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json2", ";"} {
		h.expect(415, "unsupported_media_type", "POST", alarms, `{}`, "Content-Type: "+ct)
	}
	h.expect(415, "unsupported_media_type", "POST", alarms, `{}`, asJSON, "Content-Encoding: gzip")
	h.expect(422, "invalid_application", "POST", "/v1/applications/-/alarms", `{}`, asJSON)
}

func TestLargestBatchIsTaken(t *testing.T) {
	t.Parallel()
	h := start(t)
	var items []string
	for i := range BatchItems {
		items = append(items,
			fmt.Sprintf(`{"business_id":"%d","delay":"1h","text":"%s"}`, i, strings.Repeat("x", 7000)))
	}
	for i, r := range h.batch(`{"set":[` + strings.Join(items, ",") + `]}`) {
		if r.Status != 201 || r.ID != fmt.Sprint(i) {
			t.Fatalf("result %d: %v", i, r)
		}
	}
}

// TestBatchWithAServerFailureIs503AsAWhole expects that the server waits for all items, and then responds 503 with the
// longest Retry-After.
func TestBatchWithAServerFailureIs503AsAWhole(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.service.Writer.GroupOps, su.service.Writer.Committers = 1, 1 })
	slow := &clock.Error{Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, Detail: "gone",
		RetryAfter: 6500 * time.Millisecond}
	h.store.failWith(func(op clock.Op) error {
		switch op.Key().BusinessID {
		case "b":
			return slow
		case "c":
			return clock.Unconfirmed(errors.New("gone"))
		}
		return nil
	})
	const body = `{"set":[{"business_id":"a","ring_at":2000000000000},{"business_id":"b","ring_at":2000000000000},{"business_id":"d","ring_at":2000000000000}]}`
	r := h.expect(503, "unconfirmed", "POST", alarms, body, asJSON) // because "a" was set
	if r.header.Get("Retry-After") != "7" {
		t.Errorf("Retry-After: %q", r.header.Get("Retry-After"))
	}
	h.expect(503, "unconfirmed", "POST", alarms, strings.Replace(body, `"d"`, `"c"`, 1), asJSON)
	h.expect(200, "", "GET", alarms+"/d", "")
	h.expect(503, "unavailable", "POST", alarms, `{"set":[{"business_id":"b","ring_at":2000000000000}]}`, asJSON)
	h.store.failWith(nil)
	for i, r := range h.batch(body) {
		if want := []int{200, 201, 200}[i]; r.Status != want {
			t.Errorf("repeated, result %d: %v", i, r)
		}
	}
}

// In a batch, the result of a cancel has only the fields that a store knows without reading the row. A DELETE returns
// the whole alarm.
func TestOnlySingleCancelsReturnTheWholeAlarm(t *testing.T) {
	t.Parallel()
	brief := map[string]bool{}
	h := start(t, func(su *setup) {
		su.store.fail = func(op clock.Op) error {
			if op.Cancel != nil {
				brief[op.Cancel.BusinessID] = op.Cancel.Brief
			}
			return nil
		}
	})
	h.batch(`{"set":[{"business_id":"array","delay":"1h"},{"business_id":"line","delay":"1h"},{"business_id":"single","delay":"1h","payload":7}]}`)
	h.batch(`{"cancel":["array"]}`)
	c := h.stream()
	c.send(`{"cancel":"line"}` + "\n")
	c.expect(1, "line 200 1 cancelled")
	r := h.do(http.MethodDelete, alarms+"/single", "")
	if got := fmt.Sprint(r.status, " ", r.field("payload")); got != "200 7" {
		t.Errorf("DELETE returned %s", got)
	}
	if want := map[string]bool{"array": true, "line": true, "single": false}; !maps.Equal(brief, want) {
		t.Errorf("brief: %v, want %v", brief, want)
	}
}
