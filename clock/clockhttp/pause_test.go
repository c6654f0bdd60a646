package clockhttp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

func TestPauseAndResumeChangeOneAlarm(t *testing.T) {
	t.Parallel()
	h := start(t)
	path := alarms + "/a%2Fpause"
	h.expect(201, "", "PUT", path, `{"delay":"1h"}`)
	h.expect(412, "condition_failed", "POST", path+"/pause", "", `If-Match: "2"`)
	for range 2 { // a repeat changes nothing
		r := h.expect(200, "", "POST", path+"/pause", "", `If-Match: "1"`)
		if r.field("state") != "paused" || r.field("next_try_time") != nil || r.header.Get("ETag") != `"1"` {
			t.Errorf("paused: %s", r.body)
		}
	}
	for range 2 {
		r := h.expect(200, "", "POST", path+"/resume", "{}")
		if r.field("state") != "scheduled" || r.field("next_try_time") != r.field("ring_at") {
			t.Errorf("resumed: %s", r.body)
		}
	}
	h.expect(200, "", "POST", path+"/pause", "")
	if r := h.expect(200, "", "DELETE", path, ""); r.field("state") != "cancelled" {
		t.Errorf("cancelled: %s", r.body)
	}
	h.awaitMetric("clockd_http_request_duration_seconds", "pauseAlarm", 3) // without the refused one
}

func TestPauseAndResumeAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	for state, code := range map[clock.State]string{
		clock.Rung: "already_rung", clock.Expired: "already_expired", clock.Dead: "already_dead",
		clock.Cancelled: "already_cancelled",
	} {
		path := h.setDead(state.String(), state)
		for _, action := range []string{"/pause", "/resume"} {
			if r := h.expect(409, code, "POST", path+action, ""); r.field("alarm.state") != state.String() {
				t.Errorf("%s of an alarm that is %s: %s", action, state, r.body)
			}
		}
	}
	for _, action := range []string{"/pause", "/resume", "/trigger"} {
		h.expect(404, "unknown_alarm", "POST", alarms+"/none"+action, "")
		h.expect(422, "unknown_field", "POST", alarms+"/rung"+action, `{"until":1}`)
		h.expect(422, "invalid_value", "POST", alarms+"/rung"+action, `{"note":1}`)
		if r := h.expect(422, "out_of_range", "POST", alarms+"/rung"+action, `{"note":"`+strings.Repeat("x", 301)+`"}`); r.field("field") != "note" {
			t.Errorf("a long note: %s", r.body)
		}
		h.expect(422, "invalid_condition", "POST", alarms+"/rung"+action, "", "If-None-Match: *")
	}
	path := h.setDead("in doubt", clock.Scheduled)
	h.store.alter(clock.Key{Application: "shop", BusinessID: "in doubt"},
		func(a *clock.Alarm) { a.InDoubt, a.NextTryTime, a.FinishedAt = true, 8, clock.NoInstant })
	h.expect(409, "ring_in_doubt", "POST", path+"/pause", "")
	h.expect(409, "ring_in_doubt", "POST", path+"/trigger", "")
}

func TestPauseShowsItsNote(t *testing.T) {
	t.Parallel()
	h := start(t)
	path := alarms + "/noted"
	h.expect(201, "", "PUT", path, `{"delay":"1h"}`)
	if r := h.expect(200, "", "POST", path+"/pause", `{"note":"until Übermorgen"}`); r.field("last_error") != "paused: until Übermorgen" {
		t.Errorf("paused: %s", r.body)
	}
	if r := h.expect(200, "", "PUT", path, `{"delay":"2h"}`); r.field("last_error") != "paused: until Übermorgen" {
		t.Errorf("set while it is paused: %s", r.body)
	}
	h.expect(409, "paused", "POST", path+"/trigger", "")
	if r := h.expect(200, "", "POST", path+"/resume", `{"note":"it is there"}`); r.field("last_error") != nil {
		t.Errorf("resumed: %s", r.body)
	}
}

func TestBackfillRingsForARangeOfThePast(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.expect(201, "", "PUT", alarms+"/once", `{"delay":"1h"}`)
	h.expect(409, "rings_once", "POST", alarms+"/once/backfill", `{"from":"2026-01-01T00:00:00Z"}`)
	h.expect(404, "unknown_alarm", "POST", alarms+"/none/backfill", `{"from":"2026-01-01T00:00:00Z"}`)
	path := alarms + "/daily"
	r := h.expect(201, "", "PUT", path, `{"repeat":{"cron":"@daily","time_zone":"UTC"}}`)
	if r.field("occurrence.backfill") != nil {
		t.Errorf("%s", r.body)
	}
	for _, c := range []struct{ body, code, field string }{
		{``, "required", "from"},
		{`{"from":null}`, "required", "from"},
		{`{"from":5}`, "out_of_range", "from"},
		{`{"from":true}`, "invalid_value", "from"},
		{`{"from":"2026-01-02T00:00:00Z","until":"2026-01-01T00:00:00Z"}`, "out_of_range", "until"},
		{`{"from":"2100-01-02T00:00:00Z"}`, "out_of_range", "from"},
		{`{"from":"2026-01-02T00:00:00Z","to":1}`, "unknown_field", "to"},
		{`{"from":"2025-01-01T00:00:00Z"}`, "out_of_range", "limit"},
		{`{"from":"2025-01-01T00:00:00Z","limit":0}`, "out_of_range", "limit"},
		{`{"from":"2025-01-01T00:00:00Z","limit":10001}`, "out_of_range", "limit"},
		{`{"from":"2025-01-01T00:00:00Z","limit":-1}`, "out_of_range", "limit"},
		{`{"from":"2025-01-01T00:00:00Z","pace":"25h"}`, "out_of_range", "pace"},
		{`{"from":"2025-01-01T00:00:00Z","pace":"soon"}`, "invalid_value", "pace"},
	} {
		if r := h.expect(422, c.code, "POST", path+"/backfill", c.body); r.field("field") != c.field {
			t.Errorf("%s: %s", c.body, r.body)
		}
	}
	march := `{"from":"2025-03-01T00:00:00Z","until":"2025-03-31T12:00:00Z","limit":null,"pace":null,"note":"again"}`
	r = h.expect(200, "", "POST", path+"/backfill", march, `If-Match: "1"`)
	if fmt.Sprint(r.field("occurrence.backfill.left")) != "31" ||
		r.field("occurrence.backfill.at") != "2025-03-01T00:00:00.000Z" ||
		r.field("occurrence.backfill.due_at") != r.field("next_try_time") || r.field("occurrence.triggered_at") != nil {
		t.Errorf("%s", r.body)
	}
	h.expect(409, "backfill_runs", "POST", path+"/backfill", `{"from":"2026-01-01T00:00:00Z"}`)
	for range 2 {
		r = h.expect(200, "", "POST", path+"/end-backfill", `{"note":"enough"}`)
	}
	if r.field("occurrence.backfill") != nil || r.field("next_try_time") != r.field("ring_at") {
		t.Errorf("%s", r.body)
	}
}

func TestTriggerMakesAnAlarmDue(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.expect(201, "", "PUT", alarms+"/once", `{"delay":"1h"}`)
	if r := h.expect(200, "", "POST", alarms+"/once/trigger", `{"note":null}`, `If-Match: "1"`); r.field("ring_at") != r.field("next_try_time") ||
		r.header.Get("ETag") != `"2"` {
		t.Errorf("once: %s", r.body)
	}
	h.expect(412, "condition_failed", "POST", alarms+"/once/trigger", "", `If-Match: "1"`)
	h.expect(201, "", "PUT", alarms+"/daily", `{"repeat":{"cron":"@daily","time_zone":"UTC"}}`)
	r := h.expect(200, "", "POST", alarms+"/daily/trigger", "")
	if r.field("occurrence.triggered_at") == nil || r.field("occurrence.triggered_at") != r.field("next_try_time") ||
		r.field("ring_at") == r.field("next_try_time") || r.header.Get("ETag") != `"1"` {
		t.Errorf("daily: %s", r.body)
	}
	if r := h.expect(200, "", "POST", h.setDead("rung", clock.Rung)+"/trigger", ""); r.field("state") != "scheduled" {
		t.Errorf("rung: %s", r.body)
	}
}
