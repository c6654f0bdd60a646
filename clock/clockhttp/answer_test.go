package clockhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// setRinging sets an alarm and makes it wait for the answer to its first ring. It returns the path for answers to this
// ring.
func (h *harness) setRinging(id string) string {
	h.t.Helper()
	h.expect(201, "", "PUT", alarms+"/"+id, `{"delay":"1h","ack_timeout":"1m"}`)
	key := clock.Key{Application: "shop", BusinessID: id}
	h.store.alter(key, func(a *clock.Alarm) { a.State, a.RingNo, a.RungAt, a.ClaimID = clock.Ringing, 1, 5, "c1" })
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	return fmt.Sprintf("%s/%d.1.1/", ringsURL, h.store.rows[key].ID)
}

func TestAnswersChangeTheAlarm(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, c := range []struct {
		answer, body string
		want         map[string]any
	}{
		{"ack", ``, map[string]any{"state": "rung", "answer": "ack", "answered_by": "127.0.0.1", "next_try_time": nil}},
		{"ack", `{"by":null}`, map[string]any{"state": "rung", "answered_by": "127.0.0.1"}},
		{"ack", `{"by":"worker-7"}`, map[string]any{"state": "rung", "answered_by": "worker-7"}},
		{"ack", `{"by":"` + strings.Repeat("é", 100) + `"}`, map[string]any{"answered_by": strings.Repeat("é", 64)}},
		{"release", ` {} `, map[string]any{"state": "scheduled", "answer": "release", "last_error": nil}},
		{"release", `{"delay":"10m","reason":"no stock","by":"w"}`,
			map[string]any{"state": "scheduled", "last_error": "released: no stock", "answered_by": "w"}},
		{"bury", "\n", map[string]any{"state": "dead", "answer": "bury", "last_error": "buried"}},
		{"bury", `{"reason":"` + strings.Repeat("x", 500) + `"}`,
			map[string]any{"state": "dead", "last_error": "buried: " + strings.Repeat("x", 492)}},
		{"touch", `{"delay":null}`, map[string]any{"state": "ringing", "answer": "touch", "ring_no": json.Number("1")}},
		{"touch", `{"delay":86400000}`, map[string]any{"state": "ringing", "finished_at": nil}},
	} {
		h.store.rows = map[clock.Key]clock.Alarm{}
		r := h.expect(200, "", "POST", h.setRinging("a")+c.answer, c.body)
		for field, want := range c.want {
			if got := r.field(field); got != want {
				t.Errorf("%s %.100s: %s is %v, want %v", c.answer, c.body, field, got, want)
			}
		}
		if r.header.Get("ETag") != `"1"` || r.field("answered_at") == nil {
			t.Errorf("%s: %v %s", c.answer, r.header, r.body)
		}
	}
	h.awaitMetric("clockd_http_request_duration_seconds", "touchRing", 2)
}

func TestReleaseAndTouchCountFromNow(t *testing.T) {
	t.Parallel()
	h := start(t)
	for answer, want := range map[string]time.Duration{`release {"delay":"10m"}`: 10 * time.Minute, `release `: 0, `touch {"delay":2000}`: 2 * time.Second, `touch `: time.Minute} {
		h.store.rows = map[clock.Key]clock.Alarm{}
		name, body, _ := strings.Cut(answer, " ")
		r := h.expect(200, "", "POST", h.setRinging("a")+name, body)
		var a struct {
			Next     time.Time `json:"next_try_time"`
			Answered time.Time `json:"answered_at"`
		}
		if err := json.Unmarshal(r.body, &a); err != nil || a.Next.Sub(a.Answered) != want {
			t.Errorf("%s: due after %s, want %s (%v)", answer, a.Next.Sub(a.Answered), want, err)
		}
	}
}

func TestStaleAndUnknownRingsTakeNoAnswer(t *testing.T) {
	t.Parallel()
	h := start(t)
	ring := h.setRinging("a")
	id := strings.TrimSuffix(strings.TrimPrefix(ring, ringsURL+"/"), ".1.1/")
	for path, code := range map[string]string{
		ringsURL + "/99.1.1/ack": "unknown_ring", ringsURL + "/" + id + ".1.2/ack": "unknown_ring",
		ringsURL + "/" + id + ".2.1/touch":                "unknown_ring",
		"/v1/applications/other/rings/" + id + ".1.1/ack": "unknown_ring",
	} {
		if r := h.expect(404, code, "POST", path, ""); r.field("alarm") != nil {
			t.Errorf("%s: an alarm is shown: %s", path, r.body)
		}
	}
	h.expect(200, "", "POST", ring+"ack", `{"by":"first"}`)
	for _, answer := range []string{"ack", "release", "bury", "touch"} {
		r := h.expect(409, "stale_ring", "POST", ring+answer, `{"by":"second"}`)
		if r.field("alarm.answer") != "ack" || r.field("alarm.answered_by") != "first" ||
			r.header.Get("ETag") != `"1"` {
			t.Errorf("%s: %s", answer, r.body)
		}
	}
	h.expect(404, "unknown_path", "GET", ring, "")
	h.expect(405, "method_not_allowed", "GET", ring+"ack", "")
	h.expect(422, "invalid_application", "POST", "/v1/applications/-/rings/1.1.1/ack", "")
	for _, id := range []string{"1.1", "x", "01.1.1", "1.1.0", "1.1.1%20", "%31.1.1.1", "9223372036854775808.1.1"} {
		if r := h.expect(422, "invalid_value", "POST", ringsURL+"/"+id+"/ack", ""); r.field("field") != "message_id" {
			t.Errorf("%s: %s", id, r.body)
		}
	}
	h.expect(422, "invalid_condition", "POST", ring+"ack", "", `If-Match: "1"`)
	h.store.failWith(func(clock.Op) error { return clock.Unconfirmed(errors.New("gone")) })
	h.expect(503, "unconfirmed", "POST", ring+"ack", "")
}

// badAnswers are invalid bodies, each with the kinds of answers that refuse it.
var badAnswers = []struct {
	answers, body string
	status        int
	code, field   string
}{
	{"ack release bury touch", `{`, 400, "not_json", ""},
	{"ack release bury touch", "\xff", 400, "not_json", ""},
	{"ack release bury touch", `{}{}`, 400, "not_json", ""},
	{"ack release bury touch", `[]`, 422, "invalid_value", ""},
	{"ack release bury touch", `null`, 422, "invalid_value", ""},
	{"ack release bury touch", `{"x":1}`, 422, "unknown_field", "x"},
	{"ack release bury touch", `{"By":"x"}`, 422, "unknown_field", "By"},
	{"ack release bury touch", `{"by":1}`, 422, "invalid_value", "by"},
	{"ack release bury touch", `{"by":"a","\u0062y":"a"}`, 422, "duplicate_field", "by"},
	{"ack release bury touch", strings.Repeat(" ", 17<<10), 413, "body_too_large", ""},
	{"ack bury", `{"delay":1000}`, 422, "unknown_field", "delay"},
	{"ack touch", `{"reason":"x"}`, 422, "unknown_field", "reason"},
	{"release bury", `{"reason":{}}`, 422, "invalid_value", "reason"},
	{"release bury", `{"reason":"` + strings.Repeat("x", 501) + `"}`, 422, "out_of_range", "reason"},
	{"release touch", `{"delay":true}`, 422, "invalid_value", "delay"},
	{"release touch", `{"delay":"soon"}`, 422, "invalid_value", "delay"},
	{"release touch", `{"delay":-1}`, 422, "out_of_range", "delay"},
	{"release", `{"delay":"3651d"}`, 422, "out_of_range", "delay"},
	{"touch", `{"delay":999}`, 422, "out_of_range", "delay"},
	{"touch", `{"delay":0}`, 422, "out_of_range", "delay"},
	{"touch", `{"delay":"24h1ms"}`, 422, "out_of_range", "delay"},
}

func TestInvalidAnswerBodiesAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	ring := h.setRinging("a")
	for _, c := range badAnswers {
		for answer := range strings.FieldsSeq(c.answers) {
			r := h.expect(c.status, c.code, "POST", ring+answer, c.body)
			if got, _ := r.field("field").(string); got != c.field {
				t.Errorf("%s %.100s: field %q, want %q: %s", answer, c.body, got, c.field, r.body)
			}
		}
	}
	if r := h.expect(200, "", "GET", alarms+"/a", ""); r.field("answer") != nil {
		t.Errorf("a refused answer changed the alarm: %s", r.body)
	}
	h.wantNoMemory()
}

func TestAttemptsNameTheAnsweringProgram(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.setRinging("a")
	h.store.alter(clock.Key{Application: "shop", BusinessID: "a"}, func(a *clock.Alarm) {
		a.Attempts = []clock.Attempt{
			{Generation: 1, RingNo: 1, ClaimID: "c1", Time: 1000, Outcome: clock.Released, Error: "no stock",
				By: "worker-7"},
			{Generation: 1, RingNo: 1, ClaimID: "c1", Time: 900, Outcome: clock.Unacknowledged},
		}
	})
	r := h.expect(200, "", "GET", alarms+"/a", "")
	for _, want := range []string{`"outcome":"released","error":"no stock","by":"worker-7"`, `"outcome":"unacknowledged","error":null,"by":null`} {
		if !strings.Contains(string(r.body), want) {
			t.Errorf("%s is missing in %s", want, r.body)
		}
	}
}

func TestDeliveryModeIsTakenAndChecked(t *testing.T) {
	t.Parallel()
	h := start(t)
	if r := h.expect(201, "", "PUT", alarms+"/a", `{"delay":"1h"}`); r.field("delivery") != "at_least_once" {
		t.Errorf("default: %s", r.body)
	}
	if r := h.expect(201, "", "PUT", alarms+"/b", `{"ring_at":2000000000000,"delivery":"at_most_once"}`); r.field("delivery") != "at_most_once" {
		t.Errorf("%s", r.body)
	}
	if r := h.expect(200, "", "PUT", alarms+"/b", `{"ring_at":2000000000000,"delivery":null}`); r.field("generation") != json.Number("2") {
		t.Errorf("another delivery is another content: %s", r.body)
	}
	for body, code := range map[string]string{
		`{"delay":1,"delivery":"once"}`: "invalid_value", `{"delay":1,"delivery":1}`: "invalid_value",
		`{"delay":1,"delivery":""}`:                                  "invalid_value",
		`{"delay":1,"delivery":"` + strings.Repeat("x", 1000) + `"}`: "invalid_value",
		`{"delay":1,"delivery":"at_most_once","ack_timeout":"1m"}`:   "ambiguous",
		`{"delay":1,"ack_timeout":60000,"delivery":"at_most_once"}`:  "ambiguous",
		`{"delay":1,"delivery":"at_least_once","delivery":"at_m"}`:   "duplicate_field",
	} {
		if r := h.expect(422, code, "PUT", alarms+"/x", body); r.field("field") != "delivery" {
			t.Errorf("%.100s: %s", body, r.body)
		}
	}
}

func FuzzAnswerBody(f *testing.F) {
	for _, c := range badAnswers {
		f.Add([]byte(c.body))
	}
	for _, body := range []string{``, `{}`, `{"delay":"10m","reason":"no stock","by":"w"}`, `{"delay":1e3}`, `{"by":"\ud83d\ude00"}`, `{"by":null,"delay":null}`} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for kind := clock.Ack; kind <= clock.Touch; kind++ {
			a, err := decodeAnswer(body, kind)
			if err != nil {
				if p := front.ProblemOf(err); p.Status != 400 && p.Status != 422 || p.Detail == "" {
					t.Fatalf("%s %q: %+v", kind, body, p)
				}
				continue
			}
			var given map[string]any
			_ = json.Unmarshal(body, &given) // fails for an empty body, which has no fields
			for name := range given {
				if !slices.Contains(kind.Fields(), name) {
					t.Fatalf("%s %q: %s was ignored", kind, body, name)
				}
			}
			if len(a.Reason) > clock.MaxReason || !utf8.ValidString(a.Reason) || !utf8.ValidString(a.By) ||
				a.Delay.Given && kind != clock.Release && kind != clock.Touch {
				t.Fatalf("%s %q is read as %+v", kind, body, a)
			}
		}
	})
}
