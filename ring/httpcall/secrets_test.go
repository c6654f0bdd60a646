package httpcall

import (
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

func TestSecretsAreRedactedHoweverTheyAreEscaped(t *testing.T) {
	const secret = `Digest u="a+b/c==",  k='<&>%\'`
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	asJSON := strings.Trim(string(quoted), `"`)
	for name, echo := range map[string]string{
		"plain": secret, "JSON": asJSON, "JSON of PHP": strings.ReplaceAll(asJSON, "/", `\/`),
		"HTML":   html.EscapeString(secret),
		"a path": url.PathEscape(secret), "a query": url.QueryEscape(secret),
	} {
		if got := Redact(Printable([]byte("got "+echo+", sorry")), []string{"abc", "", secret}); got != "got [redacted], sorry" {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A text that was cut within a secret shows at most the few bytes that could be the beginning of any word.
func TestSecretAtTheEndOfACutTextIsRedacted(t *testing.T) {
	const secret = "tok/en+0123456789"
	for _, echo := range []string{secret, url.QueryEscape(secret), html.EscapeString(secret), strings.ReplaceAll(secret, "+", `\u002b`)} {
		for n := range len(echo) {
			if got := Redact("got "+echo[:n], []string{secret}); len(got) > len("got ")+maxEscape ||
				strings.Contains(got, secret[:minSecret+1]) {
				t.Errorf("%q: %q", echo[:n], got)
			}
		}
	}
}

func TestOtherTextIsNotRedacted(t *testing.T) {
	const text = `the receiver answered 500: %zz \u00 &amp; &; 100% & \`
	if got := Redact(text, []string{"500", "answer!", "receivers", "abcd"}); got != text {
		t.Errorf("got %q", got)
	}
}

func TestSecretsOfARequest(t *testing.T) {
	u, err := url.Parse("https://hooks.example/x?token=a%2Fbcd&loose")
	if err != nil {
		t.Fatal(err)
	}
	secrets := slices.Concat(
		HeaderSecrets(map[string]string{"authorization": "Basic dXNlcjpodW50ZXIy", "x-key": "key-0815"}),
		QuerySecrets(u),
		SignatureSecrets(http.Header{"Webhook-Signature": {"v1,c2lnMQ== v1,c2lnMg=="}}, "Webhook-Signature"))
	for _, want := range []string{
		"Basic dXNlcjpodW50ZXIy", "dXNlcjpodW50ZXIy", "user:hunter2", "hunter2", "key-0815", "token=a%2Fbcd&loose",
		"a%2Fbcd", "a/bcd", "loose",
		"v1,c2lnMQ== v1,c2lnMg==", "v1,c2lnMQ==", "c2lnMg==",
	} {
		if !slices.Contains(secrets, want) {
			t.Errorf("%q is not in %q", want, secrets)
		}
	}
}

// FuzzRedact checks that no text keeps a secret, and that the result ends.
func FuzzRedact(f *testing.F) {
	f.Add(`a\u002bsecret%`, "secret")
	f.Add("tok&#43;en&", "tok+en")
	f.Fuzz(func(t *testing.T, text, secret string) {
		got := Redact(text, []string{secret})
		if len(secret) >= minSecret && !strings.Contains(redacted, secret) &&
			strings.Contains(strings.ReplaceAll(got, redacted, "\x00"), secret) {
			t.Errorf("Redact(%q, %q) = %q", text, secret, got)
		}
		if len(got) > len(text)*len(redacted) || len(Cut(got)) > clock.MaxReason {
			t.Errorf("%d bytes became %d", len(text), len(got))
		}
	})
}
