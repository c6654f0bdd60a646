package httpcall

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
		if got := RetryAfter(h, now); got != c.want {
			t.Errorf("%q, date %q: %s, want %s", c.value, c.date, got, c.want)
		}
	}
}

func TestReasonsShowNoServerOfNames(t *testing.T) {
	err := &net.OpError{Op: "dial",
		Err: &net.DNSError{Err: "no such host", Name: "shop.example", Server: "10.0.0.53:53"}}
	if got := ReasonOf(err); got != "cannot resolve shop.example: no such host" {
		t.Errorf("got %q", got)
	}
	if got := ReasonOf(errors.New(strings.Repeat("ä", 1000))); len(got) > clock.MaxReason || !utf8.ValidString(got) {
		t.Errorf("got %q", got)
	}
}
