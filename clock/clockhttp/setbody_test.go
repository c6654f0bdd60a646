package clockhttp

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
)

// deepJSON returns a JSON value with this many levels.
func deepJSON(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

// The deepest payload is readable with encoding/json, and one level more is refused on each way in.
func TestDeepestPayloadIsReadable(t *testing.T) {
	t.Parallel()
	h := start(t)
	deepest, deeper := deepJSON(clock.MaxPayloadDepth), deepJSON(clock.MaxPayloadDepth+1)
	line := func(id, payload string) string {
		return `{"business_id":"` + id + `","delay":"1h","payload":` + payload + `}`
	}
	results := h.batch(`{"set":[` + line("a", deepest) + "," + line("b", deeper) + `]}`)
	if results[0].Status != 201 || results[1].String() != "b 422 0  out_of_range payload" {
		t.Errorf("batch: %v", results)
	}
	c := h.stream()
	c.send(line("c", deeper) + "\n")
	c.expect(1, "c 422 0  out_of_range payload")
	_ = c.in.Close()
	c.expectEnd()
	var page struct {
		Alarms []struct{ Payload json.RawMessage }
	}
	r := h.expect(200, "", "GET", alarms, "")
	if err := json.Unmarshal(r.body, &page); err != nil || len(page.Alarms) != 1 ||
		string(page.Alarms[0].Payload) != deepest {
		t.Errorf("%v: %.200s", err, r.body)
	}
}

func TestInvalidSetBodiesAreRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, c := range []struct {
		body        string
		status      int
		code, field string
	}{
		{``, 400, "not_json", ""},
		{` `, 400, "not_json", ""},
		{`{`, 400, "not_json", ""},
		{`{"delay":1}x`, 400, "not_json", ""},
		{`{"delay":01}`, 400, "not_json", ""},
		{`{"delay":1,}`, 400, "not_json", ""},
		{"{\"delay\":1,\"text\":\"\xff\"}", 400, "not_json", ""},
		{"\ufeff" + `{"delay":1}`, 400, "not_json", ""},
		{`[]`, 422, "invalid_value", ""},
		{`null`, 422, "invalid_value", ""},
		{`"x"`, 422, "invalid_value", ""},
		{`{}`, 422, "required", "ring_at"},
		{`{"ring_at":null}`, 422, "required", "ring_at"},
		{`{"delya":"1m"}`, 422, "unknown_field", "delya"},
		{`{"Delay":"1m"}`, 422, "unknown_field", "Delay"},
		{`{"delay":1,"business_id":"x"}`, 422, "unknown_field", "business_id"},
		{`{"delay":1,"cancel":"x"}`, 422, "unknown_field", "cancel"},
		{`{"delay":1,"delay":1}`, 422, "duplicate_field", "delay"},
		{`{"delay":1,"\u0064elay":1}`, 422, "duplicate_field", "delay"},
		{`{"payload":1,"payload":1,"delay":1}`, 422, "duplicate_field", "payload"},
		{`{"delay":1,"ring_at":100000000001}`, 422, "ambiguous", "delay"},
		{`{"delay":1,"payload":1,"text":"x"}`, 422, "ambiguous", "text"},
		{`{"delay":1,"base64":"","payload":null}`, 422, "ambiguous", "payload"},
		{`{"ring_at":true}`, 422, "invalid_value", "ring_at"},
		{`{"ring_at":"2030-01-31T18:30:00"}`, 422, "invalid_value", "ring_at"},
		{`{"ring_at":"2030"}`, 422, "invalid_value", "ring_at"},
		{`{"ring_at":"+2030"}`, 422, "invalid_value", "ring_at"},
		{`{"ring_at":"tomorrow"}`, 422, "invalid_value", "ring_at"},
		{`{"ring_at":"` + strings.Repeat("x", 1000) + `"}`, 422, "invalid_value", "ring_at"},
		{`{"ring_at":1.5}`, 422, "invalid_value", "ring_at"},
		{`{"ring_at":-1}`, 422, "out_of_range", "ring_at"},
		{`{"ring_at":253402300800000}`, 422, "out_of_range", "ring_at"},
		{`{"ring_at":1e300}`, 422, "out_of_range", "ring_at"},
		{`{"ring_at":1764000000}`, 422, "out_of_range", "ring_at"},
		{`{"ring_at":-0}`, 422, "out_of_range", "ring_at"},
		{`{"ring_at":1e999}`, 422, "out_of_range", "ring_at"},
		{`{"ring_at":99999999999999999999}`, 422, "out_of_range", "ring_at"},
		{`{"ring_at":200000002000,"latest_ring_at":200000001999}`, 422, "out_of_range", "latest_ring_at"},
		{`{"delay":"1h","latest_ring_at":200000001999}`, 422, "out_of_range", "latest_ring_at"},
		{`{"delay":-1}`, 422, "out_of_range", "delay"},
		{`{"delay":"-1s"}`, 422, "out_of_range", "delay"},
		{`{"delay":"30"}`, 422, "invalid_value", "delay"},
		{`{"delay":"+30"}`, 422, "invalid_value", "delay"},
		{`{"delay":"soon"}`, 422, "invalid_value", "delay"},
		{`{"delay":""}`, 422, "invalid_value", "delay"},
		{`{"delay":{}}`, 422, "invalid_value", "delay"},
		{`{"delay":9223372036854775807}`, 422, "out_of_range", "delay"},
		{`{"delay":"40000d"}`, 422, "out_of_range", "delay"},
		{`{"delay":1,"payload":` + deepJSON(clock.MaxPayloadDepth+1) + `}`, 422, "out_of_range", "payload"},
		{`{"delay":1,"payload":` + deepJSON(9998) + `}`, 422, "out_of_range", "payload"},
		{`{"delay":1,"text":1}`, 422, "invalid_value", "text"},
		{`{"delay":1,"text":"\ud800"}`, 422, "invalid_value", "text"},
		{`{"delay":1,"text":"\ud800\u0041"}`, 422, "invalid_value", "text"},
		{`{"delay":1,"base64":"a"}`, 422, "invalid_value", "base64"},
		{`{"delay":1,"base64":"-_--"}`, 422, "invalid_value", "base64"},
		{`{"delay":1,"content_type":""}`, 422, "invalid_value", "content_type"},
		{`{"delay":1,"content_type":"a\nb"}`, 422, "invalid_value", "content_type"},
		{`{"delay":1,"content_type":"ä"}`, 422, "invalid_value", "content_type"},
		{`{"delay":1,"if":"present"}`, 422, "invalid_value", "if"},
		{`{"delay":1,"if":{"generation":1}}`, 422, "invalid_value", "if"},
		{`{"delay":1,"retry":3}`, 422, "invalid_value", "retry"},
		{`{"delay":1,"retry":{"tries":3}}`, 422, "unknown_field", "retry.tries"},
		{`{"delay":1,"retry":{"limit":3,"limit":3}}`, 422, "duplicate_field", "retry.limit"},
		{`{"delay":1,"retry":{"limit":-1}}`, 422, "out_of_range", "retry.limit"},
		{`{"delay":1,"retry":{"limit":"3"}}`, 422, "invalid_value", "retry.limit"},
		{`{"delay":1,"retry":{"factor":0.5}}`, 422, "out_of_range", "retry.factor"},
		{`{"delay":1,"retry":{"factor":1e999}}`, 422, "out_of_range", "retry.factor"},
		{`{"delay":1,"retry":{"initial":0}}`, 422, "out_of_range", "retry.initial"},
		{`{"delay":1,"retry":{"initial":"1m","cap":"1s"}}`, 422, "out_of_range", "retry.cap"},
		{`{"delay":1,"retry":{"initial":"1m"}}`, 422, "out_of_range", "retry.cap"},
		{`{"delay":1,"ack_timeout":"999ms"}`, 422, "out_of_range", "ack_timeout"},
		{`{"delay":1,"ack_timeout":"25h"}`, 422, "out_of_range", "ack_timeout"},
		{`{"delay":1,"max_rings":0}`, 422, "out_of_range", "max_rings"},
		{`{"delay":1,"max_rings":"3"}`, 422, "invalid_value", "max_rings"},
		{`{"delay":1,"priority":10}`, 422, "out_of_range", "priority"},
		{`{"delay":1,"priority":-1}`, 422, "out_of_range", "priority"},
		{`{"delay":1,"priority":4294967297}`, 422, "out_of_range", "priority"},
		{`{"delay":1,"priority":1.5}`, 422, "invalid_value", "priority"},
		{`{"delay":1,"text":"` + strings.Repeat("x", clock.DefaultMaxPayload+1) + `"}`, 413, "payload_too_large",
			"payload"},
		{strings.Repeat(" ", 7*clock.DefaultMaxPayload), 413, "body_too_large", ""},
		{strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000), 400, "not_json", ""},
	} {
		r := h.expect(c.status, c.code, "PUT", alarms+"/x", c.body)
		if got, _ := r.field("field").(string); got != c.field {
			t.Errorf("%.100s: field %q, want %q: %s", c.body, got, c.field, r.body)
		}
	}
	if len(h.store.rows) != 0 {
		t.Errorf("%d alarms were set", len(h.store.rows))
	}
}

func TestValidSetBodiesAreDecoded(t *testing.T) {
	t.Parallel()
	ms := func(n int64) func(*clock.Set) bool {
		return func(s *clock.Set) bool { return s.RingAt == clock.Instant(n) && !s.Delay.Given }
	}
	delay := func(d time.Duration) func(*clock.Set) bool {
		return func(s *clock.Set) bool {
			return s.Delay == clock.Delay{Given: true, Span: d} && s.RingAt == clock.NoInstant
		}
	}
	for body, is := range map[string]func(*clock.Set) bool{
		`{"ring_at":100000000000}`:                        ms(100_000_000_000),
		`{"ring_at":1e12}`:                                ms(1_000_000_000_000),
		`{"ring_at":1764000000123.0}`:                     ms(1_764_000_000_123),
		`{"ring_at":253402300799999}`:                     ms(253402300799999),
		`{"ring_at":"1970-01-01T01:00:00.0019+01:00"}`:    ms(1),
		`{"ring_at":"1970-01-01T00:00:01Z","delay":null}`: ms(1000),
		`{"repeat":{"every":"1s","anchor":0}}`:            func(s *clock.Set) bool { return *s.Repeat.Spec().Anchor == 0 },
		` { "delay" : 5 } `:                               delay(5 * time.Millisecond),
		`{"delay":0}`:                                     delay(0),
		`{"delay":"1h30m"}`:                               delay(90 * time.Minute),
		`{"delay":"7d"}`:                                  delay(7 * 24 * time.Hour),
		`{"\u0064elay":"\u0031s"}`:                        delay(time.Second),
		`{"delay":1,"payload":null,"text":null,"base64":null}`: func(s *clock.Set) bool {
			return s.PayloadKind == clock.JSON && string(s.Payload) == "null" && s.ContentType == "application/json"
		},
		`{"delay":1,"text":""}`: func(s *clock.Set) bool { return s.PayloadKind == clock.Text && len(s.Payload) == 0 },
		`{"delay":1}`: func(s *clock.Set) bool {
			return s.PayloadKind == clock.NoPayload && s.ContentType == "application/octet-stream" &&
				s.MaxRings == 10 &&
				s.Retry == clock.DefaultRetryPolicy() && s.AckTimeout == 0 && s.If.Kind == clock.AnyRow
		},
		`{"delay":1,"retry":{"limit":null,"factor":1.5,"cap":null}}`: func(s *clock.Set) bool {
			return s.Retry == clock.RetryPolicy{Initial: time.Second, Factor: 1.5, Cap: 30 * time.Second,
				Limit: clock.NoLimit}
		},
		`{"delay":1,"if":"later","content_type":"text/csv","text":"a"}`: func(s *clock.Set) bool {
			return s.If.Kind == clock.Later && s.ContentType == "text/csv"
		},
	} {
		b, err := decodeSet([]byte(body), pathBody)
		if err != nil || !is(&b.set) {
			t.Errorf("%s: %+v, %v", body, b.set, err)
		}
	}
}

// payloads are members whose values must come back unchanged.
var payloads = []string{
	`"payload":null`, `"payload":0`, `"payload":-0.0e+00`, `"payload":123456789012345678901234567890.10`,
	`"payload":""`,
	`"payload":{"b":1,"a":2,"b":3}`, "\"payload\":{ \"a\" :\t[ 1 ,\r\n 2 ] }", `"payload":"\u00e9\/\ud83d\ude00\ud800"`,
	`"payload":[]`, `"payload":{}`,
	`"payload":"}],{\\\""`, `"payload":{"\"}":"{"}`, `"payload":"é😀"`, `"payload":true`, `"payload":1E400`,
	"\"payload\":\"\u2028<&>\"",
	`"text":""`, `"text":"a\"b\\c"`, `"text":"` + "é😀\u2028" + `"`, `"text":"\u0000\u0001\u001f` + "\x7f" + `\n\r\t"`,
	`"base64":""`, `"base64":"AP+/"`, `"base64":"YQ=="`,
}

func TestPayloadsComeBackByteForByte(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, p := range payloads {
		h.do("PUT", alarms+"/p", `{"delay":"1h",`+p+`}`)
		r := h.expect(200, "", "GET", alarms+"/p", "")
		if !strings.Contains(string(r.body), ","+p+",") {
			t.Errorf("%s came back in %s", p, r.body)
		}
	}
}

func TestTextIsUnescapedOnce(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		`"\ud83d\ude00"`: "😀", `"\\u0041"`: `\u0041`, `"\/\b\f\n\r\t\"\\"`: "/\b\f\n\r\t\"\\",
		`"\u0041\ufffd"`: "A\ufffd", `"é"`: "é",
	} {
		if got, err := unquote([]byte(given)); got != want || err != nil {
			t.Errorf("%s: %q, %v", given, got, err)
		}
	}
}

func TestBase64MayBeEscaped(t *testing.T) {
	t.Parallel()
	want := []byte{0xff, 0xff, 0xff}
	b, err := decodeSet([]byte(`{"delay":1,"base64":"`+strings.ReplaceAll(base64.StdEncoding.EncodeToString(want), "/", `\/`)+`"}`), pathBody)
	if err != nil || string(b.set.Payload) != string(want) {
		t.Errorf("%x, %v", b.set.Payload, err)
	}
}

// TestDecodedSetSharesNoMemory matters because a body's memory is given back while its sets are still queued.
func TestDecodedSetSharesNoMemory(t *testing.T) {
	t.Parallel()
	for _, p := range payloads {
		body := []byte(`{"business_id":"x","content_type":"a/b","delay":1,` + p + `}`)
		b, err := decodeSet(body, itemBody)
		if err != nil {
			t.Fatal(p, err)
		}
		payload := string(b.set.Payload)
		clear(body)
		if string(b.set.Payload) != payload || b.set.BusinessID != "x" || b.set.ContentType != "a/b" {
			t.Errorf("%s changed with its body", p)
		}
	}
}

// topLevel decodes the members of an object with encoding/json, to compare them with members.
func topLevel(body []byte) (keys []string, values []json.RawMessage, ok bool) {
	d := json.NewDecoder(strings.NewReader(string(body)))
	if first, err := d.Token(); err != nil || first != json.Delim('{') {
		return nil, nil, false
	}
	for d.More() {
		key, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return nil, nil, false
		}
		keys, values = append(keys, key.(string)), append(values, value)
	}
	return keys, values, true
}

func TestIsJSONNestsAsDeepAsTheStandardLibrary(t *testing.T) {
	for _, depth := range []int{1, 9_999, 10_000, 10_001, 1 << 20} {
		body := []byte(strings.Repeat("[", depth) + strings.Repeat("]", depth))
		if got, want := isJSON(body), json.Valid(body); got != want {
			t.Errorf("depth %d is JSON: %t, want %t", depth, got, want)
		}
	}
}

// FuzzIsJSON compares isJSON with the standard library, which explains what is wrong with a refused body.
func FuzzIsJSON(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", "\"\x01\"", ` [1,2.5e+3,-0,null,true] `, `{"a":{"b":[[],{}]}}`,
		`01`, `-`, `1.`, ``, ` `, `{} {}`, "\ufeff{}", `"\u00"`, `"\x"`, `[1,]`, `{"a":1,}`, `{1:2}`, "\u2028", `1e`,
		`nul`, "{\"a\"\n:\t1}\r",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if got, want := isJSON(body), json.Valid(body); got != want {
			t.Fatalf("%q is JSON: %t, want %t", body, got, want)
		}
	})
}

func FuzzMembers(f *testing.F) {
	for _, p := range payloads {
		f.Add([]byte(`{"delay":1,` + p + `}`))
		f.Add([]byte(` {` + p + `, "x" : [ {} , [] , "]" ] }` + "\n"))
	}
	for _, s := range []string{`{}`, ` { } `, `[]`, `{"a":{"b":[1,2,{"c":"\\"}]},"":""}`, `{"\"":"\\\\","\\":1}`, `[1,"a",{},[[]]]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if checkJSON(body) != nil {
			return
		}
		checkMembers(t, body)
		checkElements(t, body)
	})
}

func checkMembers(t *testing.T, body []byte) {
	keys, values, isObject := topLevel(body)
	ms, ok := objectMembers(body)
	if ok != isObject {
		t.Fatalf("%s: object %v", body, ok)
	}
	for i := 0; ok; i++ {
		key, value, more := ms.next()
		if !more {
			if i != len(keys) {
				t.Fatalf("%s: %d members, want %d", body, i, len(keys))
			}
			return
		}
		if string(value) != string(values[i]) {
			t.Fatalf("%s: member %d is %s, want %s", body, i, value, values[i])
		}
		if name, err := unquote(key); err == nil && name != keys[i] {
			t.Fatalf("%s: key %d is %q, want %q", body, i, name, keys[i])
		}
	}
}

func checkElements(t *testing.T, body []byte) {
	es, ok := arrayElements(body)
	if !ok {
		return
	}
	var want []json.RawMessage
	if err := json.Unmarshal(body, &want); err != nil {
		t.Fatal(err)
	}
	for i := 0; ; i++ {
		value, more := es.next()
		if !more {
			if i != len(want) {
				t.Fatalf("%s: %d elements, want %d", body, i, len(want))
			}
			return
		}
		if string(value) != string(want[i]) {
			t.Fatalf("%s: element %d is %s, want %s", body, i, value, want[i])
		}
	}
}

func FuzzString(f *testing.F) {
	for _, s := range append(awkwardIDs, "\x00\x1f\x7f", "\xff\xc0", `\u0041`, "\r\n\t\"\\") {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		quoted := appendString(nil, s)
		var want string
		if err := json.Unmarshal(quoted, &want); err != nil {
			t.Fatalf("%q became %s: %v", s, quoted, err)
		}
		if valid := strings.ToValidUTF8(s, "\ufffd"); !strings.Contains(s, "\ufffd") && valid == s && want != s {
			t.Fatalf("%q became %s", s, quoted)
		}
		if got, err := unquote(quoted); err != nil || got != want {
			t.Fatalf("%s read as %q, want %q: %v", quoted, got, want, err)
		}
	})
}

// FuzzSetBody checks that no body panics, and that the payload of an accepted set is returned byte for byte.
func FuzzSetBody(f *testing.F) {
	for _, p := range payloads {
		f.Add([]byte(`{"delay":1,`+p+`}`), uint8(0))
		f.Add([]byte(`{"business_id":"x","ring_at":"2030-01-31T18:30:00+01:00",`+p+`}`), uint8(1))
	}
	f.Add([]byte(`{"cancel":"x"}`), uint8(2))
	f.Add([]byte(`{"delay":"1m","if":"absent","retry":{"initial":"2s","factor":1,"cap":60000,"limit":3},"ack_timeout":"1m","max_rings":3,"priority":9}`), uint8(0))
	f.Fuzz(func(t *testing.T, body []byte, kind uint8) {
		b, err := decodeSet(body, bodyKind(kind%3))
		if err != nil {
			if p := front.ProblemOf(err); p.Status >= 500 || p.Detail == "" {
				t.Fatalf("%s: %+v", body, p)
			}
			return
		}
		if b.isCancel {
			return
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil {
			t.Fatalf("accepted %s: %v", body, err)
		}
		a := clock.Alarm{RingRow: clock.RingRow{State: clock.Scheduled}, Content: b.set.Content}
		var response map[string]json.RawMessage
		if err := json.Unmarshal(appendAlarm(nil, &a), &response); err != nil {
			t.Fatalf("%s is returned as %s: %v", body, appendAlarm(nil, &a), err)
		}
		checkPayload(t, members, response)
	})
}

func checkPayload(t *testing.T, given, response map[string]json.RawMessage) {
	if want, ok := given["payload"]; ok && string(want) != string(response["payload"]) {
		t.Fatalf("payload %s is returned as %s", want, response["payload"])
	}
	for _, name := range []string{"text", "base64"} {
		var want, got string
		if json.Unmarshal(given[name], &want) != nil || string(given[name]) == "null" {
			continue
		}
		if err := json.Unmarshal(response[name], &got); err != nil {
			t.Fatalf("%s %q is returned as %s", name, want, response[name])
		}
		if name == "base64" {
			w, _ := base64.StdEncoding.DecodeString(want)
			g, _ := base64.StdEncoding.DecodeString(got)
			want, got = string(w), string(g)
		}
		if want != got {
			t.Fatalf("%s %q is returned as %q", name, want, got)
		}
	}
}

const benchmarkBody = `{"business_id":"order-4711","ring_at":"2030-01-31T18:30:00+01:00","payload":{"order":4711,"customer":"a8f2c6",` +
	`"lines":[{"sku":"A-1","n":2},{"sku":"B-7","n":1}],"reason":"unpaid","note":"30 minutes after the order was placed"},"if":"absent"}`

func BenchmarkDecodeSet(b *testing.B) {
	body := []byte(benchmarkBody)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeSet(body, itemBody); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendAlarm(b *testing.B) {
	d, err := decodeSet([]byte(benchmarkBody), itemBody)
	if err != nil {
		b.Fatal(err)
	}
	a := clock.Alarm{
		Key: d.set.Key, Generation: 1, Content: d.set.Content, CreateTime: 1e12,
		RingRow: clock.RingRow{
			State: clock.Scheduled, NextTryTime: d.set.RingAt, RungAt: clock.NoInstant, UpdateTime: 1e12,
			FinishedAt: clock.NoInstant,
		},
	}
	buffer := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buffer = appendAlarm(buffer[:0], &a)
	}
	b.SetBytes(int64(len(buffer)))
}
