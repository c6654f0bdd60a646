package client

import (
	"bytes"
	"encoding/json"
	"net/http"
	"testing"
	"time"
	"unicode/utf8"
)

func TestRetryAfterMayBeATime(t *testing.T) {
	t.Parallel()
	in := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	if got := retryAfter(in); got < 58*time.Minute || got > time.Hour {
		t.Errorf("%s: %s", in, got)
	}
}

// FuzzRefusal reads problems that a proxy or an attacker may have written.
func FuzzRefusal(f *testing.F) {
	f.Add(503, "3", []byte(`{"code":"unavailable","detail":"x"}`))
	f.Add(409, "",
		[]byte(`{"code":"already_rung","detail":"x","alarm":{"business_id":"x","state":"rung","payload":{"a":1},"ack_timeout":"1h30m"}}`))
	f.Add(412, "Mon, 02 Jan 2006 15:04:05 GMT",
		[]byte(`{"code":"condition_failed","alarm":{"business_id":"x","state":"rung","base64":"!"}}`))
	f.Add(500, "-", []byte(`<html>`))
	f.Fuzz(func(t *testing.T, status int, after string, body []byte) {
		e := refusal(status, http.Header{"Retry-After": {after}}, body)
		if e.Status != status || e.RetryAfter < 0 || e.Error() == "" || e.Alarm != nil && e.Alarm.BusinessID == "" {
			t.Errorf("%+v", e)
		}
		if wait := backoff(1, e.RetryAfter); wait > 2*longestRetryAfter {
			t.Errorf("would wait %s", wait)
		}
	})
}

// FuzzResult reads lines of results.
func FuzzResult(f *testing.F) {
	f.Add([]byte("{\"line\":1,\"status\":201,\"business_id\":\"x\"}\n{\"line\":2,\"status\":422,\"code\":\"required\"}\n"))
	f.Add([]byte("{\"line\":1}\n{\"line\":3}\n"))
	f.Add([]byte("\n{"))
	f.Fuzz(func(t *testing.T, body []byte) {
		lines := &lineSource{ctx: t.Context()}
		lines.whole, lines.sent = true, 2
		count := int64(0)
		err := readResults(t.Context(), bytes.NewReader(body), lines, func(r Result, err error) bool {
			if count++; r.Line != count || err != nil {
				t.Errorf("result %d: %+v, %v", count, r, err)
			}
			return true
		})
		if (err == nil) != (count == 2) && err == nil {
			t.Errorf("%d results without an error", count)
		}
	})
}

// FuzzSet encodes payloads and ids. The result must be one JSON object in one line.
func FuzzSet(f *testing.F) {
	f.Add("order-1", []byte("{\"a\":\n1}"), uint8(JSONPayload))
	f.Add("\xff", []byte("\xff"), uint8(TextPayload))
	f.Add("a\"b", []byte{0}, uint8(BinaryPayload))
	f.Fuzz(func(t *testing.T, id string, payload []byte, kind uint8) {
		change := Change{BusinessID: id,
			Set: &Set{When: After(time.Hour), Payload: Payload{kind: PayloadKind(kind % 4), data: payload}}}
		line, failed := change.encodeLine()
		if failed != nil {
			return
		}
		var f struct {
			BusinessID string `json:"business_id"`
			payloadFields
		}
		if !utf8.Valid(line) || json.Unmarshal(line, &f) != nil || f.BusinessID != id {
			t.Fatalf("%q encodes as %q", id, line)
		}
		got, err := f.payload()
		if err != nil || got.kind != change.Set.Payload.kind ||
			got.kind != JSONPayload && got.kind != NoPayload && got.String() != string(payload) {
			t.Errorf("payload %q (%d) reads as %q (%d), %v", payload, kind%4, got.data, got.kind, err)
		}
	})
}
