package webhook

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
)

func TestStatusDecidesTheOutcome(t *testing.T) {
	t.Parallel()
	b := openTarget(t)
	var status int
	header := map[string]string{}
	server := b.serve("shop", func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(" no\tstock\x00 \xff\u202e left\n"))
	})
	const said = "the receiver answered "
	for i, c := range []struct {
		status int
		header map[string]string
		want   clock.Outcome
	}{
		{200, nil, clock.Outcome{Kind: clock.Confirmed, Acknowledged: true}},
		{201, nil, clock.Outcome{Kind: clock.Confirmed, Acknowledged: true}},
		{202, nil, clock.Outcome{Kind: clock.Confirmed}},
		{299, nil, clock.Outcome{Kind: clock.Confirmed, Acknowledged: true}},
		{410, nil,
			clock.Outcome{Kind: clock.Nacked, Final: true,
				Reason: said + "410 Gone: it wants no further try: no stock left"}},
		{400, nil, clock.Outcome{Kind: clock.Nacked, Reason: said + "400 Bad Request: no stock left"}},
		{404, map[string]string{"Retry-After": "7"},
			clock.Outcome{Kind: clock.Nacked, Reason: said + "404 Not Found: no stock left"}},
		{429, nil, clock.Outcome{Kind: clock.Nacked, Reason: said + "429 Too Many Requests: no stock left"}},
		{429, map[string]string{"Retry-After": "7"},
			clock.Outcome{Kind: clock.Nacked, Reason: said + "429 Too Many Requests: no stock left",
				RetryAfter: 7 * time.Second}},
		{503, map[string]string{"Retry-After": "8"},
			clock.Outcome{Kind: clock.Nacked, Reason: said + "503 Service Unavailable: no stock left",
				RetryAfter: 8 * time.Second}},
		{500, nil, clock.Outcome{Kind: clock.Nacked, Reason: said + "500 Internal Server Error: no stock left"}},
		{999, nil, clock.Outcome{Kind: clock.Nacked, Reason: said + "999: no stock left"}},
		{301, map[string]string{"Location": "/other"},
			clock.Outcome{Kind: clock.Nacked,
				Reason: said + "301 Moved Permanently, and redirects are not followed: no stock left"}},
	} {
		status, header = c.status, c.header
		application := fmt.Sprint("shop", i) // no pause of the case before
		b.point(application, server.URL)
		if got := b.deliver(rings(application, 1)...)[0]; got != c.want {
			t.Errorf("%d: %+v, want %+v", c.status, got, c.want)
		}
	}
}

// FuzzReply checks that no response makes a reason that cannot be stored, or a wait that is negative.
func FuzzReply(f *testing.F) {
	f.Add(500, "7", "Mon, 23 Nov 2026 12:01:00 GMT", []byte("text"))
	f.Add(429, "Mon, 23 Nov 2026 12:01:00 GMT", "", []byte("\xff\x00\u2028"))
	f.Add(302, strings.Repeat("9", 30), "x", []byte(strings.Repeat("ä", 1000)))
	f.Fuzz(func(t *testing.T, status int, after, date string, body []byte) {
		o := outcomeOf(&http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}, "Date": {date}}},
			body, time.Unix(1, 0))
		if len(o.Reason) > clock.MaxReason || !utf8.ValidString(o.Reason) ||
			strings.ContainsAny(o.Reason, "\x00\n\r\t") || o.RetryAfter < 0 {
			t.Fatalf("%+v", o)
		}
		if (o.Kind == clock.Confirmed) != (o.Reason == "") {
			t.Fatalf("%+v", o)
		}
	})
}
