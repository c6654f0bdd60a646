package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

const (
	oldSecret WebhookSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	newSecret WebhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="
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
	e, err := parseWebhook([]byte(minimal))
	want := &Webhook{
		URL: "https://shop.example/rings", Method: "POST", Body: PayloadBody, Timeout: 15 * time.Second,
		Concurrency: 16, Secrets: []WebhookSecret{oldSecret},
	}
	if err != nil || !reflect.DeepEqual(e, want) {
		t.Errorf("%+v, %v", e, err)
	}
}

func TestEndpointIsWrittenAsItIsRead(t *testing.T) {
	e, err := parseWebhook([]byte(`{"url":"http://[fd00::1]:8080/?a=b","method":"PATCH","headers":{"X-Key":"k","authorization":"Bearer <>"},` +
		`"body":"envelope","timeout":"1500ms","concurrency":256,"secrets":["` + string(oldSecret) + `","` + string(newSecret) + `"]}`))
	if err != nil {
		t.Fatal(err)
	}
	s := Settings{Defaults: clock.Defaults{Target: clock.TargetWebhook}, Webhook: e}
	if again, err := Parse(s.Encode()); err != nil || !reflect.DeepEqual(again, s) {
		t.Errorf("%+v, %v, from %s", again, err, s.Encode())
	}
}

func TestRedactedEndpointHidesWhatMayBeSecret(t *testing.T) {
	e := NewWebhook("https://shop.example/rings?token=hush", oldSecret)
	e.Headers = map[string]string{"authorization": "Bearer hush"}
	redacted := (&Settings{Webhook: e}).Redacted()
	b := redacted.Encode()
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("endpoint", "secret", e.Secrets[0])
	for _, text := range []string{b, fmt.Sprintf("%v %+v %#v %s", e.Redacted(), e.Redacted(), e.Redacted(), e.Secrets), logged.String()} {
		if strings.Contains(text, "hush") || strings.Contains(text, "C2FVsB") {
			t.Errorf("a secret is shown: %s", text)
		}
	}
	if !strings.Contains(b, `"url":"https://shop.example/rings?..."`) || !strings.Contains(b, `"authorization":"..."`) {
		t.Error(b)
	}
	if e.Headers["authorization"] != "Bearer hush" {
		t.Error("the endpoint itself was changed")
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
		_, err := parseWebhook([]byte(c.in))
		got, ok := errors.AsType[*clock.Error](err)
		if !ok || !errors.Is(err, clock.ErrInvalid) || got.Code != c.code || got.Field != webhookField(c.field) ||
			got.Detail == "" {
			t.Errorf("%.80s: %+v, want code %s, field %s", c.in, got, c.code, c.field)
		}
		if err != nil && strings.Contains(err.Error(), "C2FVsB") {
			t.Errorf("the error shows a secret: %v", err)
		}
	}
}

// webhookField returns the field of an error in a settings document.
func webhookField(field string) string {
	if field == "" {
		return "webhook"
	}
	return "webhook." + field
}
