package clockhttp

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// page is the response to a list.
type page struct {
	Alarms []struct {
		ID    string `json:"business_id"`
		State string `json:"state"`
	} `json:"alarms"`
	NextCursor *string `json:"next_cursor"`
}

func (h *harness) list(query string) page {
	h.t.Helper()
	var p page
	if r := h.expect(200, "", "GET", alarms+"?"+query, ""); json.Unmarshal(r.body, &p) != nil {
		h.t.Fatalf("list: %s", r.body)
	}
	return p
}

// walk follows the cursors of a list. It returns the ids and the number of pages.
func (h *harness) walk(query string) (ids []string, pages int) {
	h.t.Helper()
	for cursor := ""; pages < 1000; pages++ {
		p := h.list(query + cursor)
		for _, a := range p.Alarms {
			ids = append(ids, a.ID)
		}
		if p.NextCursor == nil {
			return ids, pages + 1
		}
		cursor = "&cursor=" + *p.NextCursor
	}
	h.t.Fatal("the list does not end")
	return nil, 0
}

func TestListPagesHoldEveryAlarmOnce(t *testing.T) {
	t.Parallel()
	h := start(t)
	var want []string
	for i := range 130 {
		want = append(want, fmt.Sprintf("%03d/ä%%", i))
	}
	want = append(want, awkwardIDs...)
	for _, id := range want {
		h.do("PUT", alarms+"/"+url.PathEscape(id), `{"delay":"1h"}`)
	}
	h.do("PUT", "/v1/applications/other/alarms/x", `{"delay":"1h"}`)
	slices.Sort(want)
	for _, limit := range []int{7, 100, 101, 1000} {
		if got, _ := h.walk(fmt.Sprintf("limit=%d", limit)); !slices.Equal(got, want) {
			t.Errorf("limit %d: %d alarms, want %d", limit, len(got), len(want))
		}
	}
	if got := h.list(""); len(got.Alarms) != 100 || got.NextCursor == nil {
		t.Errorf("without limit: %d alarms", len(got.Alarms))
	}
	if got, _ := h.walk("prefix=" + url.QueryEscape("12")); len(got) != 10 {
		t.Errorf("prefix: %q", got)
	}
}

func TestListOfLargePayloadsEndsPagesEarly(t *testing.T) {
	t.Parallel()
	h := start(t)
	big := strings.Repeat("x", 60_000)
	for i := range 120 {
		h.do("PUT", fmt.Sprintf("%s/%03d", alarms, i), `{"delay":"1h","text":"`+big+`"}`)
	}
	ids, pages := h.walk("limit=1000")
	if len(ids) != 120 || pages < 2 {
		t.Errorf("%d alarms on %d pages", len(ids), pages)
	}
}

func TestListFiltersSelectAlarms(t *testing.T) {
	t.Parallel()
	h := start(t)
	for id, at := range map[string]int64{"a": 1.9e12, "b": 2e12, "c": 3e12} {
		h.do("PUT", alarms+"/"+id, fmt.Sprintf(`{"ring_at":%d}`, at))
	}
	h.do("PUT", alarms+"/d", `{"ring_at":4000000000000}`)
	h.do("DELETE", alarms+"/d", "")
	for query, want := range map[string]string{
		"state=scheduled": "abc", "state=cancelled": "d", "state=cancelled,scheduled": "abcd",
		"state=cancelled&state=scheduled": "abcd", "state=dead": "",
		"due_after=2000000000000": "bc", "due_before=2000000000000": "a",
		"due_after=1900000000001&due_before=3000000000000": "b",
		"due_after=2033-05-18T05:33:20%2B02:00":            "bc", "due_after=2033-05-18T05:33:20+02:00": "bc", "prefix=c": "c",
	} {
		ids, _ := h.walk(query)
		if got := strings.Join(ids, ""); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

func TestInvalidListQueriesAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	for query, code := range map[string]string{
		"limit=0": "out_of_range", "limit=1001": "out_of_range", "limit=x": "out_of_range", "limit=": "out_of_range",
		"state=late": "invalid_value", "state=": "invalid_value", "due_after=soon": "invalid_value",
		"due_before=2030-01-31T18:30:00": "invalid_value",
		"due_befor=1":                    "unknown_parameter", "limit=1&limit=2": "duplicate_field", "prefix=%FF": "invalid_value",
		"prefix=a%00": "invalid_value",
		"cursor=":     "invalid_cursor", "cursor=x": "invalid_cursor",
		"cursor=" + clock.EncodeCursor("other", clock.ListPosition{BusinessID: "a"}): "invalid_cursor",
	} {
		r := h.expect(422, code, "GET", alarms+"?"+query, "")
		if field, _, _ := strings.Cut(query, "="); r.field("field") != field {
			t.Errorf("%s: field %v", query, r.field("field"))
		}
	}
	h.expect(400, "invalid_path", "GET", alarms+"?limit=%zz", "")
}
