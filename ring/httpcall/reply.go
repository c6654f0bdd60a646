package httpcall

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/clockd/clockd/clock"
)

// RetryAfter returns the wait that the header Retry-After demands, 0 if there is none or it is not valid. A date counts
// from the date of the response, if it has one, because the receiver's clock may be wrong.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	value := strings.TrimSpace(h.Get("Retry-After"))
	if seconds, err := strconv.ParseUint(value, 10, 32); err == nil {
		return time.Duration(seconds) * time.Second
	} else if errors.Is(err, strconv.ErrRange) {
		return time.Duration(1<<32) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(0, at.Sub(now))
}

// Printable returns text as it may be stored and shown: valid UTF-8, one line, without control characters.
func Printable(text []byte) string {
	var b strings.Builder
	blank := false
	for _, r := range strings.ToValidUTF8(string(text[:min(len(text), 2*clock.MaxReason)]), "") {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			blank = b.Len() > 0
		case unicode.IsPrint(r):
			if blank {
				b.WriteByte(' ')
				blank = false
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Cut cuts text to clock.MaxReason bytes, between characters.
func Cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), clock.MaxReason)], "")
}

// ReasonOf returns the reason of a request without a reply. Errors of the HTTP client may repeat the names and
// addresses of this host's own servers of names, and they are left out.
func ReasonOf(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return Cut(fmt.Sprintf("cannot resolve %s: %s", Printable([]byte(dns.Name)), Printable([]byte(dns.Err))))
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, io.EOF):
		return "the receiver closed the connection"
	}
	return Cut(Printable([]byte(err.Error())))
}
