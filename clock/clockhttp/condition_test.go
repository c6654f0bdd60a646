package clockhttp

import (
	"net/http"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

func TestConditionHeadersAreChecked(t *testing.T) {
	t.Parallel()
	h := start(t)
	const path, body = alarms + "/c", `{"ring_at":2000000000000}`
	h.expect(412, "condition_failed", "PUT", path, body, `If-Match: "1"`)
	h.expect(201, "", "PUT", path, body, "If-None-Match: *")
	if r := h.expect(412, "condition_failed", "PUT", path, body, "If-None-Match: *"); r.field("alarm.business_id") != "c" {
		t.Errorf("the alarm is missing: %s", r.body)
	}
	h.expect(412, "condition_failed", "PUT", path, `{"ring_at":2000000000000,"if":"absent"}`)
	h.expect(412, "condition_failed", "PUT", path, `{"ring_at":2000000000001,"if":"earlier"}`)
	h.expect(412, "condition_failed", "PUT", path, `{"ring_at":1999999999999,"if":"later"}`)
	h.expect(200, "", "PUT", path, `{"ring_at":2000000000001}`, `If-Match: "1"`)
	h.expect(200, "", "PUT", path, `{"ring_at":2000000000001}`, `If-Match: "1"`) // the caller's own retry
	h.expect(412, "condition_failed", "PUT", path, `{"ring_at":2000000000002}`, `If-Match: "1"`)
	h.expect(200, "", "PUT", path, `{"ring_at":2000000000002}`, `If-Match: W/"2"`)
	h.expect(412, "condition_failed", "DELETE", path, "", `If-Match: "2"`)
	h.expect(200, "", "DELETE", path, "", `If-Match: "3"`)
}

func TestUnsupportedConditionsAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	const body = `{"ring_at":2000000000000}`
	for _, header := range []string{
		"If-Match: *", `If-Match: "1", "2"`, "If-Match: 1", `If-Match: ""`, `If-Match: "`, `If-Match: "-1"`,
		`If-Match: "+1"`, `If-Match: "x"`,
		`If-Match: "99999999999999999999"`, "If-Match: ", `If-None-Match: "1"`, "If-None-Match: ",
	} {
		r := h.expect(422, "invalid_condition", "PUT", alarms+"/c", body, header)
		if field, _ := r.field("field").(string); field != header[:len(field)] || field == "" {
			t.Errorf("%s: field %q", header, field)
		}
	}
	h.expect(422, "invalid_condition", "PUT", alarms+"/c", body, `If-Match: "1"`, `If-Match: "2"`)
	h.expect(422, "ambiguous", "PUT", alarms+"/c", body, `If-Match: "1"`, "If-None-Match: *")
	h.expect(422, "ambiguous", "PUT", alarms+"/c", `{"ring_at":100000000001,"if":"later"}`, "If-None-Match: *")
	h.expect(422, "invalid_condition", "DELETE", alarms+"/c", "", "If-None-Match: *")
	h.expect(422, "invalid_condition", "POST", alarms, `{}`, "Content-Type: application/json", `If-Match: "1"`)
	h.expect(422, "invalid_condition", "POST", alarms, ``, "Content-Type: application/x-ndjson", "If-None-Match: *")
}

func FuzzCondition(f *testing.F) {
	for _, s := range []string{`"3"`, `W/"3"`, "*", `"1","2"`, "", `"`, `""`, "3", ` "3" `, `"03"`} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, match, noneMatch string) {
		for _, h := range []http.Header{
			{ifMatch: {match}}, {ifNoneMatch: {noneMatch}}, {ifMatch: {match}, ifNoneMatch: {noneMatch}},
			{ifMatch: {match, noneMatch}},
		} {
			c, err := setCondition(h)
			if err != nil {
				if p := front.ProblemOf(err); p.Status != 422 || p.Field == "" {
					t.Fatalf("%q: %+v", h, p)
				}
				continue
			}
			if c.Kind == clock.AnyRow || c.Generation < 0 {
				t.Fatalf("%q was ignored: %+v", h, c)
			}
		}
	})
}
