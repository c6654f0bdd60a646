package webhook

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
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
	e, err := Part.Parse([]byte(minimal))
	want := &Endpoint{
		URL: "https://shop.example/rings", Method: "POST", Body: PayloadBody, Timeout: 15 * time.Second,
		Concurrency: 16, Secrets: []Secret{oldSecret},
	}
	if err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("%+v, %v", e, err)
	}
}

// form has the part alone.
var form = settings.NewForm(Part)

func TestEndpointIsWrittenAsItIsRead(t *testing.T) {
	s, err := form.Parse(`{"webhook":{"url":"http://[fd00::1]:8080/?a=b","method":"PATCH","headers":{"X-Key":"k","authorization":"Bearer <>"},` +
		`"body":"envelope","timeout":"1500ms","concurrency":256,"secrets":["` + string(oldSecret) + `","` + string(newSecret) + `"]}}`)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := form.Parse(form.Encode(&s)); err != nil || !reflect.DeepEqual(again, s) || Part.Of(&s) == nil {
		t.Errorf("%+v, %v, from %s", again, err, form.Encode(&s))
	}
}

func TestRedactedEndpointHidesWhatMayBeSecret(t *testing.T) {
	s, err := form.Parse(`{"webhook":{"url":"https://shop.example/rings?token=hush","headers":{"authorization":"Bearer hush"},` +
		`"secrets":["` + string(oldSecret) + `"]}}`)
	if err != nil {
		t.Fatal(err)
	}
	e := Part.Of(&s)
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("endpoint", "secret", e.Secrets[0])
	b := form.Redacted(&s)
	for _, text := range []string{b, form.Effective(&s, clock.TargetStream), fmt.Sprintf("%v %#v %s", e.Secrets, e.Secrets, e.Secrets), logged.String()} {
		if strings.Contains(text, "hush") || strings.Contains(text, "C2FVsB") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
	const want = `{"webhook":{"url":"https://shop.example/rings?...","method":"POST","headers":{"authorization":"..."},` +
		`"body":"payload","timeout":"15s","concurrency":16,"secrets":["whsec_...2dd745ff"]}}`
	if b != want {
		t.Error(b)
	}
}

func TestWrongEndpointIsRefusedWithItsField(t *testing.T) {
	long := strings.Repeat("a", 9000)
	for _, c := range []struct{ in, code, field string }{
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
		{with("url", `null`), clock.CodeRequired, "url"},
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
		{with("method", `"HEAD"`), clock.CodeInvalidValue, "method"},
		{with("method", `"GET","body":"envelope"`), clock.CodeAmbiguous, "body"},
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
		{with("timeout", `"soon"`), clock.CodeInvalidValue, "timeout"},
		{with("timeout", `-1`), clock.CodeInvalidValue, "timeout"},
		{with("concurrency", `0`), clock.CodeOutOfRange, "concurrency"},
		{with("concurrency", `257`), clock.CodeOutOfRange, "concurrency"},
		{with("concurrency", `99999999999999999999`), clock.CodeInvalidValue, "concurrency"},
		{with("concurrency", `1.5`), clock.CodeInvalidValue, "concurrency"},
		{with("concurrency", `"1"`), clock.CodeInvalidValue, "concurrency"},
		{with("secrets", `[]`), clock.CodeRequired, "secrets"},
		{with("secrets", `"whsec_"`), clock.CodeInvalidValue, "secrets"},
		{with("secrets", `[1]`), clock.CodeInvalidValue, "secrets[0]"},
		{with("secrets", `["C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]`), clock.CodeInvalidValue, "secrets[0]"},
		{with("secrets", `["`+string(oldSecret)+`","whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7o"]`), clock.CodeInvalidValue,
			"secrets[1]"},
		{with("secrets", `["`+string(oldSecret)+`","`+string(oldSecret)+`"]`), clock.CodeAmbiguous, "secrets[1]"},
		{with("secrets", `["whsec_`+strings.Repeat("AAAA", 7)+`"]`), clock.CodeInvalidValue, "secrets[0]"},
		{with("secrets", `["whsec_`+strings.Repeat("AAAA", 22)+`"]`), clock.CodeInvalidValue, "secrets[0]"},
	} {
		_, err := Part.Parse([]byte(c.in))
		got, ok := errors.AsType[*clock.Error](err)
		if !ok || !errors.Is(err, clock.ErrInvalid) || got.Code != c.code || got.Field != c.field ||
			got.Detail == "" {
			t.Errorf("%.80s: %+v, want code %s, field %s", c.in, got, c.code, c.field)
		}
		if err != nil && strings.Contains(err.Error(), "C2FVsB") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}

// Every valid endpoint makes a valid request, with no other headers than the endpoint's.
func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{
		`"url":"https://shop.example/rings"`, `"url":"https://shop.example/","headers":{"a":"b"}`,
		`"url":"http://[::1]:1/%2f?q","body":"envelope"`,
		`"url":"https://shop.example/","method":"PUT","timeout":1500`,
	} {
		f.Add(`{` + seed + `,"secrets":["` + string(oldSecret) + `"]}`)
	}
	f.Fuzz(func(t *testing.T, in string) {
		e, err := Part.Parse([]byte(in))
		if err != nil {
			return
		}
		s := newSender(e, "test")
		ring := rings("shop", 1)[0]
		req, _, err := s.request(&ring)
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
