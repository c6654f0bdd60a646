package webhook

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
)

func TestStatusDecidesTheOutcome(t *testing.T) {
	b := openTarget(t)
	var status int
	header := map[string]string{}
	b.serve("shop", func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(" no\tstock\x00 \xff\u202e left\n"))
	})
	const said = "the receiver answered "
	for _, c := range []struct {
		status int
		header map[string]string
		want   clock.Outcome
	}{
		{200, nil, clock.Outcome{Kind: clock.Confirmed, Acknowledged: true}},
		{201, nil, clock.Outcome{Kind: clock.Confirmed, Acknowledged: true}},
		{202, nil, clock.Outcome{Kind: clock.Confirmed}},
		{299, nil, clock.Outcome{Kind: clock.Confirmed, Acknowledged: true}},
		{410, nil, clock.Outcome{Kind: clock.Nacked, Final: true, Reason: said + "410 Gone: it wants no further try: no stock left"}},
		{400, nil, clock.Outcome{Kind: clock.Nacked, Reason: said + "400 Bad Request: no stock left"}},
		{404, map[string]string{"Retry-After": "7"}, clock.Outcome{Kind: clock.Nacked, Reason: said + "404 Not Found: no stock left"}},
		{429, nil, clock.Outcome{Kind: clock.Nacked, Reason: said + "429 Too Many Requests: no stock left"}},
		{429, map[string]string{"Retry-After": "7"}, clock.Outcome{Kind: clock.Nacked, Reason: said + "429 Too Many Requests: no stock left", RetryAfter: 7 * time.Second}},
		{503, map[string]string{"Retry-After": "8"}, clock.Outcome{Kind: clock.Nacked, Reason: said + "503 Service Unavailable: no stock left", RetryAfter: 8 * time.Second}},
		{500, nil, clock.Outcome{Kind: clock.Nacked, Reason: said + "500 Internal Server Error: no stock left"}},
		{999, nil, clock.Outcome{Kind: clock.Nacked, Reason: said + "999: no stock left"}},
		{301, map[string]string{"Location": "/other"}, clock.Outcome{Kind: clock.Nacked, Reason: said + "301 Moved Permanently, and redirects are not followed: no stock left"}},
	} {
		status, header = c.status, c.header
		b.receivers.all = map[string]*receiver{} // no pause of the case before
		if got := b.deliver(rings("shop", 1)...)[0]; got != c.want {
			t.Errorf("%d: %+v, want %+v", c.status, got, c.want)
		}
	}
}

func TestRetryAfterIsRead(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"0", "", 0},
		{"120", "", 2 * time.Minute},
		{" 120 ", "", 2 * time.Minute},
		{"-1", "", 0},
		{"1.5", "", 0},
		{"soon", "", 0},
		{"99999999999999999999", "", 1 << 32 * time.Second},
		{"Mon, 23 Nov 2026 12:01:00 GMT", "", time.Minute},
		{"Mon, 23 Nov 2026 11:59:00 GMT", "", 0},
		{"Mon, 23 Nov 2026 09:01:00 GMT", "Mon, 23 Nov 2026 09:00:00 GMT", time.Minute},
		{"Mon, 23 Nov 2026 12:01:00 GMT", "wrong", time.Minute},
	} {
		h := http.Header{}
		h.Set("Retry-After", c.value)
		h.Set("Date", c.date)
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("%q, date %q: %s, want %s", c.value, c.date, got, c.want)
		}
	}
}

// FuzzReply checks that no response makes a reason that cannot be stored, or a wait that is negative.
func FuzzReply(f *testing.F) {
	f.Add(500, "7", "Mon, 23 Nov 2026 12:01:00 GMT", []byte("text"))
	f.Add(429, "Mon, 23 Nov 2026 12:01:00 GMT", "", []byte("\xff\x00\u2028"))
	f.Add(302, strings.Repeat("9", 30), "x", []byte(strings.Repeat("ä", 1000)))
	f.Fuzz(func(t *testing.T, status int, after, date string, body []byte) {
		o := outcomeOf(&http.Response{StatusCode: status, Header: http.Header{"Retry-After": {after}, "Date": {date}}}, body, time.Unix(1, 0))
		if len(o.Reason) > clock.MaxReason || !utf8.ValidString(o.Reason) || strings.ContainsAny(o.Reason, "\x00\n\r\t") || o.RetryAfter < 0 {
			t.Fatalf("%+v", o)
		}
		if (o.Kind == clock.Confirmed) != (o.Reason == "") {
			t.Fatalf("%+v", o)
		}
	})
}

func TestReasonsShowNoServerOfNames(t *testing.T) {
	err := &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", Name: "shop.example", Server: "10.0.0.53:53"}}
	if got := reasonOf(err); got != "cannot resolve shop.example: no such host" {
		t.Errorf("got %q", got)
	}
	if got := reasonOf(errors.New(strings.Repeat("ä", 1000))); len(got) > clock.MaxReason || !utf8.ValidString(got) {
		t.Errorf("got %q", got)
	}
}
