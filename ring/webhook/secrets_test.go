package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// No reason repeats a secret of the request, whatever part of the request a receiver quotes in its response, and
// wherever the quote is cut.
func TestEchoingReceiverPutsNoSecretIntoTheReason(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{
		"Authorization": "Basic dXNlcjpvcGVuL3Nlc2FtZSs4NA==", "X-Api-Key": `k"1/2+3=<4567>`,
		"Idempotency-Key": "idem-4711-0815",
	}
	const query = "token=to%2Bken-9876&sig=5678abcd"
	var escape func(string) string
	var before int
	b := openTarget(t)
	handler := func(w http.ResponseWriter, r *http.Request) {
		echo := fmt.Sprintf("%s Cannot POST %s, with %s and the secret %s:", strings.Repeat("x", before), r.URL,
			r.Header.Get(headerSignature), newSecret.encoded())
		for name, values := range r.Header {
			echo += " " + name + ": " + values[0]
		}
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, escape(echo))
	}
	server := b.serve("shop", handler)
	b.point("shop", server.URL+"/hook?"+query, func(e *Endpoint) {
		e.Headers, e.Secrets = secrets, []Secret{newSecret, oldSecret}
	})
	hidden := []string{"dXNlcjpvcGVuL3Nlc2FtZSs4NA", "open/sesame", "4567", "idem-4711", "9876", "5678abcd",
		newSecret.encoded()[:12]}
	for name, f := range map[string]func(string) string{
		"plain": func(s string) string { return s }, "HTML": html.EscapeString, "URL": url.QueryEscape,
		"JSON": func(s string) string { quoted, _ := json.Marshal(s); return string(bytes.Trim(quoted, `"`)) },
	} {
		for escape, before = f, 0; before < 1000; before += 23 {
			o := b.deliver(rings("shop", 1)...)[0]
			if o.Kind != clock.Nacked || len(o.Reason) > clock.MaxReason {
				t.Fatalf("%s: %+v", name, o)
			}
			for _, secret := range hidden {
				if strings.Contains(o.Reason, secret) {
					t.Fatalf("%s, after %d bytes: the reason has %s: %s", name, before, secret, o.Reason)
				}
			}
			if at := strings.Index(o.Reason, "v1,"); at >= 0 && len(o.Reason) > at+len("v1,")+2 {
				t.Fatalf("%s, after %d bytes: the reason has a signature: %s", name, before, o.Reason)
			}
			if before == 0 && !strings.Contains(o.Reason, "[redacted]") {
				t.Errorf("%s: the reason has no quote: %s", name, o.Reason)
			}
		}
	}
}

// A receiver that sends the bytes of the request back has no status. The HTTP client's error quotes a part of the
// request line.
func TestEchoOfTheRequestLineIsRedacted(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	b.raw("shop", func(_ int, conn net.Conn) {
		buffer := make([]byte, 64<<10)
		n, _ := conn.Read(buffer)
		_, _ = conn.Write(buffer[:n])
	})
	e := b.endpoints.get("shop")
	b.point("shop", e.URL+"/hook?token=4711-0815")
	if o := b.deliver(rings("shop", 1)...)[0]; o.Kind != clock.Doubtful || strings.Contains(o.Reason, "4711") ||
		!strings.Contains(o.Reason, "[redacted]") {
		t.Errorf("got %+v", o)
	}
}
