package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

const minimal = `{"url":"https://shop.example/rings","secrets":["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]}`

// with returns the minimal endpoint with one more member, or with another value of a member.
func with(name, value string) string {
	switch name {
	case "url":
		return `{"url":` + value + `,"secrets":["` + string(oldSecret) + `"]}`
	case "secrets":
		return `{"url":"https://shop.example/rings","secrets":` + value + `}`
	}
	return strings.TrimSuffix(minimal, "}") + `,"` + name + `":` + value + `}`
}

func TestEndpointHasDefaults(t *testing.T) {
	e, err := ParseEndpoint([]byte(minimal))
	want := &Endpoint{
		URL: "https://shop.example/rings", Method: "POST", Body: PayloadBody, Timeout: 15 * time.Second, Concurrency: 16, Secrets: []Secret{oldSecret},
	}
	if err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestEndpointIsWrittenAsItIsRead(t *testing.T) {
	e, err := ParseEndpoint([]byte(`{"url":"http://[fd00::1]:8080/?a=b","method":"PATCH","headers":{"X-Key":"k","authorization":"Bearer <>"},` +
		`"body":"envelope","timeout":"1500ms","concurrency":256,"secrets":["` + string(oldSecret) + `","` + string(newSecret) + `"]}`))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var again Endpoint
	if err := json.Unmarshal(b, &again); err != nil || !reflect.DeepEqual(&again, e) {
		t.Errorf("%+v, %v, from %s", again, err, b)
	}
}

func TestRedactedEndpointHidesWhatMayBeSecret(t *testing.T) {
	e := NewEndpoint("https://shop.example/rings?token=hush", oldSecret)
	e.Headers = map[string]string{"authorization": "Bearer hush"}
	b, err := json.Marshal(e.Redacted())
	if err != nil {
		t.Fatal(err)
	}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("endpoint", "secret", e.Secrets[0])
	for _, text := range []string{string(b), fmt.Sprintf("%v %+v %#v %s", e.Redacted(), e.Redacted(), e.Redacted(), e.Secrets), logged.String()} {
		if strings.Contains(text, "hush") || strings.Contains(text, "C2FVsB") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
	if !strings.Contains(string(b), `"url":"https://shop.example/rings?..."`) || !strings.Contains(string(b), `"authorization":"..."`) {
		t.Errorf("%s", b)
	}
	if e.Headers["authorization"] != "Bearer hush" {
		t.Error("the endpoint itself was changed")
	}
}

func TestWrongEndpointIsRefusedWithItsField(t *testing.T) {
	long := strings.Repeat("a", 9000)
	for _, c := range []struct{ in, code, field string }{
		{"", clock.CodeInvalidValue, ""},
		{"[]", clock.CodeInvalidValue, ""},
		{"null", clock.CodeInvalidValue, ""},
		{minimal + "x", clock.CodeInvalidValue, ""},
		{"{\"url\":\"\xff\"}", clock.CodeInvalidValue, ""},
		{`{}`, clock.CodeRequired, "url"},
		{with("uri", `1`), clock.CodeUnknownField, "uri"},
		{with("URL", `1`), clock.CodeUnknownField, "URL"},
		{with("a\\u0000b", `1`), clock.CodeUnknownField, `"a\x00b"`},
		{with("method", `"POST","method":"PUT"`), clock.CodeAmbiguous, "method"},
		{with("url", `1`), clock.CodeInvalidValue, "url"},
		{with("url", `null`), clock.CodeInvalidValue, "url"},
		{with("url", `"shop.example"`), clock.CodeInvalidValue, "url"},
		{with("url", `"ftp://shop.example"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https:///rings"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://:443/"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://a:0/"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://a:/"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://a:65536/"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://u:p@a/"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://@a/"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://a/#f"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://a/#"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://a b/"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://ä.example/"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://a%00b/"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://[fe80::1%25eth0]/"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://a/\r\nx: y"`), clock.CodeInvalidValue, "url"},
		{with("url", `"https://a/`+long+`"`), clock.CodeOutOfRange, "url"},
		{with("method", `"GET"`), clock.CodeInvalidValue, "method"},
		{with("method", `"post"`), clock.CodeInvalidValue, "method"},
		{with("method", `""`), clock.CodeInvalidValue, "method"},
		{with("body", `"xml"`), clock.CodeInvalidValue, "body"},
		{with("headers", `[]`), clock.CodeInvalidValue, "headers"},
		{with("headers", `{"a b":"c"}`), clock.CodeInvalidValue, "headers.a b"},
		{with("headers", `{"":"c"}`), clock.CodeInvalidValue, "headers."},
		{with("headers", `{"a":1}`), clock.CodeInvalidValue, "headers.a"},
		{with("headers", `{"a":"b\r\nc: d"}`), clock.CodeInvalidValue, "headers.a"},
		{with("headers", `{"a":""}`), clock.CodeInvalidValue, "headers.a"},
		{with("headers", `{"a":" b"}`), clock.CodeInvalidValue, "headers.a"},
		{with("headers", `{"a":"ä"}`), clock.CodeInvalidValue, "headers.a"},
		{with("headers", `{"a":"b","A":"c"}`), clock.CodeAmbiguous, "headers.a"},
		{with("headers", `{"a":"b","a":"c"}`), clock.CodeAmbiguous, "headers.a"},
		{with("headers", `{"Host":"b"}`), clock.CodeInvalidValue, "headers.Host"},
		{with("headers", `{"Webhook-Id":"b"}`), clock.CodeInvalidValue, "headers.Webhook-Id"},
		{with("headers", `{"X-Clockd-Foo":"b"}`), clock.CodeInvalidValue, "headers.X-Clockd-Foo"},
		{with("headers", `{"proxy-authorization":"b"}`), clock.CodeInvalidValue, "headers.proxy-authorization"},
		{with("headers", `{"transfer-encoding":"b"}`), clock.CodeInvalidValue, "headers.transfer-encoding"},
		{with("headers", `{"a":"`+long+`"}`), clock.CodeOutOfRange, "headers"},
		{with("timeout", `"999ms"`), clock.CodeOutOfRange, "timeout"},
		{with("timeout", `"301s"`), clock.CodeOutOfRange, "timeout"},
		{with("timeout", `"15"`), clock.CodeInvalidValue, "timeout"},
		{with("timeout", `"soon"`), clock.CodeInvalidValue, "timeout"},
		{with("timeout", `-1`), clock.CodeInvalidValue, "timeout"},
		{with("timeout", `null`), clock.CodeInvalidValue, "timeout"},
		{with("concurrency", `0`), clock.CodeOutOfRange, "concurrency"},
		{with("concurrency", `257`), clock.CodeOutOfRange, "concurrency"},
		{with("concurrency", `99999999999999999999`), clock.CodeOutOfRange, "concurrency"},
		{with("concurrency", `1.5`), clock.CodeInvalidValue, "concurrency"},
		{with("concurrency", `"1"`), clock.CodeInvalidValue, "concurrency"},
		{with("secrets", `[]`), clock.CodeRequired, "secrets"},
		{with("secrets", `"whsec_"`), clock.CodeInvalidValue, "secrets"},
		{with("secrets", `[1]`), clock.CodeInvalidValue, "secrets[0]"},
		{with("secrets", `["C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]`), clock.CodeInvalidValue, "secrets[0]"},
		{with("secrets", `["`+string(oldSecret)+`","whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7o"]`), clock.CodeInvalidValue, "secrets[1]"},
		{with("secrets", `["`+string(oldSecret)+`","`+string(oldSecret)+`"]`), clock.CodeAmbiguous, "secrets[1]"},
		{with("secrets", `["whsec_`+strings.Repeat("AAAA", 7)+`"]`), clock.CodeInvalidValue, "secrets[0]"},
		{with("secrets", `["whsec_`+strings.Repeat("AAAA", 22)+`"]`), clock.CodeInvalidValue, "secrets[0]"},
	} {
		_, err := ParseEndpoint([]byte(c.in))
		got, ok := errors.AsType[*clock.Error](err)
		if !ok || !errors.Is(err, clock.ErrInvalid) || got.Code != c.code || got.Field != c.field || got.Detail == "" {
			t.Errorf("%.80s: %+v, want code %s, field %s", c.in, got, c.code, c.field)
		}
		if err != nil && strings.Contains(err.Error(), "C2FVsB") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}

// A valid endpoint can be written, read again and used. No other input panics.
func FuzzParseEndpoint(f *testing.F) {
	for _, seed := range []string{
		minimal, `{}`, with("headers", `{"a":"b"}`), with("timeout", `1500`), with("timeout", `"2m"`), with("concurrency", `7`), with("url", `"http://[::1]:1/%2f?q"`),
		with("body", `"envelope"`), with("method", `"PUT"`),
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		e, err := ParseEndpoint(in)
		if err != nil {
			if got, ok := errors.AsType[*clock.Error](err); !ok || got.Code == "" {
				t.Fatalf("%v has no code", err)
			}
			return
		}
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseEndpoint(b)
		if err != nil || !reflect.DeepEqual(again, e) {
			t.Fatalf("%s was read as %+v, %v, want %+v", b, again, err, e)
		}
		s, err := newSender(e, "test")
		if err != nil {
			t.Fatal(err)
		}
		ring := rings("shop", 1)[0]
		req, _, err := s.request(t.Context(), &ring)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := req.Write(&out); err != nil {
			t.Fatalf("the request cannot be written: %v", err)
		}
		if heads, _, _ := strings.Cut(out.String(), "\r\n\r\n"); strings.Count(heads, "\r\n") != 15+len(e.Headers)+agents(e) {
			t.Fatalf("the endpoint adds headers: %q", heads)
		}
	})
}

// agents returns -1 if the endpoint replaces the header user-agent.
func agents(e *Endpoint) int {
	for name := range e.Headers {
		if strings.EqualFold(name, "user-agent") {
			return -1
		}
	}
	return 0
}
