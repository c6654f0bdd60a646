package clockhttp

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestRepeatingAlarmShowsItsRuleAndItsNextOccurrences(t *testing.T) {
	t.Parallel()
	h := start(t)
	const path = "/v1/applications/shop/alarms/report"
	r := h.expect(201, "", "PUT", path,
		`{"repeat":{"cron":"30 2 * * *","time_zone":"Europe/Berlin","times":5,"jitter":"1m","latest_after":"10m","missed_window":"26h","pause_after":3,"overlap":"queue_one","from":"2020-01-01T00:00:00Z","skip_dates":["2030-12-25"]}}`)
	for field, want := range map[string]any{
		"repeat.cron": "30 2 * * *", "repeat.time_zone": "Europe/Berlin", "repeat.jitter": "1m",
		"repeat.latest_after": "10m", "repeat.missed_window": "26h", "repeat.pause_after": json.Number("3"), "repeat.from": "2020-01-01T00:00:00.000Z",
		"repeat.missed": "once", "repeat.overlap": "queue_one", "repeat.dst": "ring_once", "state": "scheduled",
	} {
		if got := r.field(field); got != want {
			t.Errorf("%s is %q, want %q", field, got, want)
		}
	}
	if _, next, _ := strings.Cut(string(r.body), `"next_occurrences":[`); strings.Count(next, "T0") < 3 {
		t.Errorf("next occurrences: %s", r.body)
	}
	h.expect(200, "", "PUT", path,
		`{"repeat":{"cron":"30 2 * * *","time_zone":"Europe/Berlin","times":5,"jitter":"60s","latest_after":600000,"missed_window":93600000,"pause_after":3,"overlap":"queue_one","from":1577836800000,"skip_dates":["2030-12-25","2030-12-25"]}}`)
	body := string(h.expect(200, "", "GET", path+"/occurrences?count=100", "").body)
	listed, change, _ := strings.Cut(body, `"clock_change":`)
	if strings.Count(listed, `"number"`) != 5 || strings.Count(listed, `T02:30:00+0`) != 5 ||
		!strings.HasPrefix(listed, `{"sentence":"at 02:30, Europe/Berlin`) {
		t.Errorf("the occurrences are %s", listed)
	}
	if soon := time.Now().AddDate(0, 0, 6); clockOffset(t, soon) == clockOffset(t, time.Now()) && change != "null}\n" {
		t.Errorf("the alarm is over before the clock changes at %s", change)
	}
	h.expect(200, "", "PUT", path, `{"repeat":{"cron":"30 2 * * *","time_zone":"Europe/Berlin"}}`)
	body = string(h.expect(200, "", "GET", path+"/occurrences?count=1", "").body)
	_, change, _ = strings.Cut(body, `"clock_change":`)
	if !strings.HasPrefix(change, `{"at":"2`) || strings.Count(change, `"local"`) < 3 {
		t.Errorf("the next change of the clock is %s", change)
	}
	h.expect(200, "", "GET", path, "")
	h.expect(201, "", "PUT", "/v1/applications/shop/alarms/once", `{"delay":"1h"}`)
	h.expect(409, "rings_once", "GET", "/v1/applications/shop/alarms/once/occurrences", "")
	h.expect(404, "unknown_alarm", "GET", "/v1/applications/shop/alarms/none/occurrences", "")
	h.expect(422, "out_of_range", "GET", path+"/occurrences?count=0", "")
	h.expect(422, "unknown_parameter", "GET", path+"/occurrences?limit=3", "")
}

func TestSetWithoutARuleSaysThatTheAlarmNoLongerRepeats(t *testing.T) {
	t.Parallel()
	h := start(t)
	const path, rule, once = "/v1/applications/shop/alarms/", `{"repeat":{"every":"1h"}}`, `{"ring_at":"2090-01-01T00:00:00Z"}`
	for i, c := range []struct {
		method, path, body string
		ended              bool
	}{
		{"PUT", path + "a", rule, false},
		{"PUT", path + "a", once, true},
		{"PUT", path + "a", once, false},
		{"GET", path + "a", "", false},
		{"PUT", path + "a", rule, false},
		{"POST", "/v1/applications/shop/alarms", `{"set":[{"business_id":"a","ring_at":"2090-01-01T00:00:00Z"}]}`, true},
		{"PUT", path + "a", rule, false},
		{"DELETE", path + "a", "", false},
		{"PUT", path + "a", once, false},
	} {
		status := 200
		if i == 0 {
			status = 201
		}
		r := h.expect(status, "", c.method, c.path, c.body, asJSON)
		if strings.Contains(string(r.body), `"repeat_ended":true`) != c.ended {
			t.Errorf("%d: %s %s: %s", i, c.method, c.body, r.body)
		}
	}
}

func TestRefusedRulesNameTheMemberAndThePlace(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, c := range []struct{ body, code, field, detail string }{
		{`{"repeat":{}}`, "invalid_value", "repeat.cron", "needs cron or every"},
		{`{"repeat":"@daily"}`, "invalid_value", "repeat", "object"},
		{`{"repeat":{"cron":"0 0 31 2 *"}}`, "invalid_value", "repeat.cron", "never occurs"},
		{`{"repeat":{"cron":"* 2 ? 3 SUN#2","time_zone":"America/New_York"}}`, "invalid_value", "repeat.cron",
			"no occurrence from now on"}, // until 2006 the clock showed these times
		{`{"repeat":{"cron":"0 12 * * ? *"}}`, "invalid_value", "repeat.cron", "as in EventBridge"},
		{`{"repeat":{"cron":"0 25 * * *"}}`, "invalid_value", "repeat.cron", "at character 3"},
		{`{"repeat":{"cron":"@daily","time_zone":"Mars/Olympus"}}`, "invalid_value", "repeat.time_zone",
			"not the name"},
		{`{"repeat":{"cron":"@daily","skip_dates":"2030-12-25"}}`, "invalid_value", "repeat.skip_dates", "an array like"},
		{`{"repeat":{"cron":"@daily","skip_dates":["25.12."]}}`, "invalid_value", "repeat.skip_dates", "not a date"},
		{`{"repeat":{"cron":"@daily","from":"2030-01-02T00:00:00Z","until":"2030-01-01T00:00:00Z"}}`, "invalid_value",
			"repeat.until", "before from"},
		{`{"repeat":{"every":"500ms"}}`, "invalid_value", "repeat.every", "1 s"},
		{`{"repeat":{"every":"1s","missed":"often"}}`, "invalid_value", "repeat.missed", "once, skip or all"},
		{`{"repeat":{"every":"1s","times":0}}`, "out_of_range", "repeat.times", "from 1"},
		{`{"repeat":{"every":"1s","missed_limit":0,"missed":"all"}}`, "out_of_range", "repeat.missed_limit", "from 1"},
		{`{"repeat":{"every":"1s","missed_window":0}}`, "out_of_range", "repeat.missed_window", "10 s to 366 days"},
		{`{"repeat":{"every":"1s","missed_window":"9999ms"}}`, "invalid_value", "repeat.missed_window", "10 s to 366 days"},
		{`{"repeat":{"every":"1s","missed_window":"9000h"}}`, "invalid_value", "repeat.missed_window", "10 s to 366 days"},
		{`{"repeat":{"every":"1s","missed":"skip","missed_window":"1h"}}`, "invalid_value", "repeat.missed_window",
			"once and all"},
		{`{"repeat":{"every":"1s","pause_after":0}}`, "out_of_range", "repeat.pause_after", "from 1 to 1000"},
		{`{"repeat":{"every":"1s","pause_after":1001}}`, "invalid_value", "repeat.pause_after", "from 1 to 1000"},
		{`{"repeat":{"every":"1s","at":"noon"}}`, "unknown_field", "repeat.at", "known are"},
		{`{"repeat":{"every":"1s","until":100000000000}}`, "out_of_range", "repeat.until", "no occurrence"},
		{`{"repeat":{"every":"1s"},"delay":"1s"}`, "ambiguous", "delay", "not both"},
		{`{"repeat":{"every":"1s"},"latest_ring_at":"2090-01-01T00:00:00Z"}`, "ambiguous", "latest_ring_at",
			"latest_after"},
		{`{"repeat":{"every":"1s"},"delivery":"at_most_once"}`, "ambiguous", "delivery", "does not fit"},
		{`{"repeat":{"every":"1s"},"if":"earlier"}`, "ambiguous", "if", "do not fit"},
	} {
		r := h.expect(422, c.code, "PUT", "/v1/applications/shop/alarms/r", c.body)
		if detail, _ := r.field("detail").(string); r.field("field") != c.field || !strings.Contains(detail, c.detail) {
			t.Errorf("%s: %s, %s", c.body, r.field("field"), r.field("detail"))
		}
	}
}

func TestLocalTimeRingsOnceAtItsInstant(t *testing.T) {
	t.Parallel()
	h := start(t)
	const path = "/v1/applications/shop/alarms/local"
	for _, c := range []struct{ given, local, zone, ringAt string }{
		{"2027-03-28T02:30", "2027-03-28T02:30:00", "Europe/Berlin", "2027-03-28T01:00:00.000Z"}, // in a gap: the end of the gap
		{"2027-10-31T02:30:00", "2027-10-31T02:30:00", "Europe/Berlin", "2027-10-31T00:30:00.000Z"},
		{"2027-07-01T12:00:00.5", "2027-07-01T12:00:00.500", "Asia/Kolkata", "2027-07-01T06:30:00.500Z"},
	} {
		body := `{"ring_at":"` + c.given + `","time_zone":"` + c.zone + `"}`
		r := h.expect(201, "", "PUT", path+c.zone[:4]+c.given[5:7], body)
		if r.field("local_ring_at") != c.local || r.field("time_zone") != c.zone || r.field("ring_at") != c.ringAt ||
			r.field("next_try_time") != c.ringAt {
			t.Errorf("%s: %s", body, r.body)
		}
		h.expect(200, "", "PUT", path+c.zone[:4]+c.given[5:7], body)
	}
	// The same instant without a time zone is another content.
	r := h.expect(200, "", "PUT", path+"Euro10", `{"ring_at":"2027-10-31T00:30:00Z"}`)
	if !strings.Contains(string(r.body), `"generation":2`) || strings.Contains(string(r.body), "time_zone") {
		t.Errorf("with an offset: %s", r.body)
	}
	for _, c := range []struct{ body, code, field, detail string }{
		{`{"ring_at":"2027-03-28T02:30:00"}`, "invalid_value", "ring_at", "no offset"},
		{`{"ring_at":"2027-03-28T02:30:00","time_zone":null}`, "invalid_value", "ring_at", "time_zone"},
		{`{"ring_at":"2027-03-28T02:30:00","time_zone":"Mars/Olympus"}`, "invalid_value", "time_zone", "not the name"},
		{`{"ring_at":"2027-03-28T02:30:00","time_zone":""}`, "invalid_value", "time_zone", "not the name"},
		{`{"ring_at":"2027-02-30T02:30:00","time_zone":"Europe/Berlin"}`, "invalid_value", "ring_at", "does not exist"},
		{`{"ring_at":"2027-03-28T02:30:00Z","time_zone":"Europe/Berlin"}`, "ambiguous", "time_zone", "offset"},
		{`{"time_zone":"Europe/Berlin","ring_at":1806200000000}`, "invalid_value", "ring_at", "local time"},
		{`{"delay":"1h","time_zone":"Europe/Berlin"}`, "ambiguous", "time_zone", "local ring_at"},
		{`{"repeat":{"cron":"@daily"},"time_zone":"Europe/Berlin"}`, "ambiguous", "time_zone", "repeat.time_zone"},
		{`{"ring_at":"2027-03-28T02:30:00","time_zone":"Europe/Berlin","delay":"1h"}`, "ambiguous", "delay",
			"not both"},
		{`{"ring_at":"2027-03-28T02:30:00","time_zone":"Europe/Berlin","latest_ring_at":"2027-03-28T00:59:59Z"}`,
			"out_of_range", "latest_ring_at", "before"},
	} {
		r := h.expect(422, c.code, "PUT", path, c.body)
		if detail, _ := r.field("detail").(string); r.field("field") != c.field || !strings.Contains(detail, c.detail) {
			t.Errorf("%s: %s, %s", c.body, r.field("field"), r.field("detail"))
		}
	}
}

func TestPreviewShowsARuleWithoutAnAlarm(t *testing.T) {
	t.Parallel()
	h := start(t)
	r := h.expect(200, "", "POST", "/v1/repeat/preview",
		`{"repeat":{"cron":"30 2 * * mon-fri","time_zone":"Europe/Berlin"},"from":"2026-10-01T00:00:00Z","count":2}`)
	const want = `{"sentence":"at 02:30 on Monday to Friday, Europe/Berlin",` +
		`"repeat":{"cron":"30 2 * * MON-FRI","time_zone":"Europe/Berlin","missed":"once","overlap":"skip","dst":"ring_once"},` +
		`"time_zone_data":"2025c","occurrences":[` +
		`{"number":1,"at":"2026-10-01T00:30:00.000Z","local":"2026-10-01T02:30:00+02:00"},` +
		`{"number":2,"at":"2026-10-02T00:30:00.000Z","local":"2026-10-02T02:30:00+02:00"}],` +
		`"clock_change":{"at":"2026-10-25T01:00:00.000Z","offset_before":7200,"offset_after":3600,"occurrences":[`
	if !strings.HasPrefix(string(r.body), want) {
		t.Errorf("the preview is\n%s, want\n%s", r.body, want)
	}
	r = h.expect(200, "", "POST", "/v1/repeat/preview", `{"repeat":{"every":"1h"}}`)
	if n := strings.Count(string(r.body), `"number"`); n != 10 || !strings.Contains(string(r.body), `"clock_change":null`) {
		t.Errorf("%d occurrences by default: %s", n, r.body)
	}
	for body, want := range map[string][2]string{
		`{}`:                                     {"required", "repeat"},
		`{"repeat":null}`:                        {"required", "repeat"},
		`{"repeat":{"cron":"x"}}`:                {"invalid_value", "repeat.cron"},
		`{"repeat":{"every":"1h"},"count":0}`:    {"out_of_range", "count"},
		`{"repeat":{"every":"1h"},"count":1001}`: {"out_of_range", "count"},
		`{"repeat":{"every":"1h"},"from":"x"}`:   {"invalid_value", "from"},
		`{"repeat":{"every":"1h"},"at":1}`:       {"unknown_field", "at"},
	} {
		r := h.expect(422, want[0], "POST", "/v1/repeat/preview", body)
		if r.field("field") != want[1] {
			t.Errorf("%s: %s", body, r.body)
		}
	}
}

// clockOffset returns the offset of the clock of Berlin from UTC, in seconds.
func clockOffset(t *testing.T, at time.Time) int {
	t.Helper()
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	_, offset := at.In(berlin).Zone()
	return offset
}
