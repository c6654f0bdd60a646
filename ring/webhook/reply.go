package webhook

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

const (
	// maxResponse bounds the bytes of a response's body that are read. The connection of a longer body is closed.
	maxResponse = 64 << 10
	// bodyTime bounds the time in which the body of a response is read.
	bodyTime = time.Second
	// maxHeadBytes bounds the bytes of a response before its body, informational responses (1xx) included.
	maxHeadBytes = 64 << 10
)

// outcomeOf returns the outcome of a response. body is the beginning of its body, for the reason. now is the time of the response.
func outcomeOf(res *http.Response, body []byte, now time.Time) clock.Outcome {
	switch {
	case res.StatusCode == http.StatusAccepted:
		return clock.Outcome{Kind: clock.Confirmed}
	case isSuccess(res.StatusCode):
		return clock.Outcome{Kind: clock.Confirmed, Acknowledged: true}
	}
	o := clock.Outcome{Kind: clock.Nacked, Reason: "the receiver answered " + statusText(res.StatusCode)}
	switch {
	case res.StatusCode >= 300 && res.StatusCode < 400:
		o.Reason += ", and redirects are not followed"
	case res.StatusCode == http.StatusGone:
		o.Reason, o.Final = o.Reason+": it wants no further try", true
	case res.StatusCode == http.StatusTooManyRequests, res.StatusCode == http.StatusServiceUnavailable:
		o.RetryAfter = retryAfter(res.Header, now)
	}
	if text := printable(body); text != "" {
		o.Reason += ": " + text
	}
	o.Reason = cut(o.Reason)
	return o
}

func isSuccess(status int) bool { return status >= 200 && status < 300 }

func statusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return strconv.Itoa(code) + " " + text
	}
	return strconv.Itoa(code)
}

// retryAfter returns the wait that the header Retry-After demands, 0 if there is none or it is not valid. A date counts from the date of the response, if
// it has one, because the receiver's clock may be wrong.
func retryAfter(h http.Header, now time.Time) time.Duration {
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

// printable returns text as it may be stored and shown: valid UTF-8, one line, without control characters.
func printable(text []byte) string {
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

// cut cuts text to clock.MaxReason bytes, between characters.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), clock.MaxReason)], "")
}

// readBody reads the body of a response for at most bodyTime and up to maxResponse bytes. It returns the beginning. cancel ends the
// request.
func readBody(res *http.Response, cancel func()) []byte {
	if res.StatusCode == http.StatusSwitchingProtocols { // the body would be the connection
		_ = res.Body.Close()
		return nil
	}
	timer := time.AfterFunc(bodyTime, cancel)
	defer timer.Stop()
	start := make([]byte, 2*clock.MaxReason)
	n, err := io.ReadFull(res.Body, start)
	if err == nil {
		_, _ = io.CopyN(io.Discard, res.Body, maxResponse-int64(n)) // the rest is of no use
	}
	_ = res.Body.Close()
	return start[:n]
}

// reasonOf returns the reason of a request without a reply. Errors of the HTTP client may repeat the names and addresses of this host's own
// servers of names, and they are left out.
func reasonOf(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return cut(fmt.Sprintf("cannot resolve %s: %s", printable([]byte(dns.Name)), printable([]byte(dns.Err))))
	case errors.Is(err, context.DeadlineExceeded):
		return "timeout"
	case errors.Is(err, io.EOF):
		return "the receiver closed the connection"
	}
	return cut(printable([]byte(err.Error())))
}
