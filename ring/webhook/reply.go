package webhook

import (
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/httpcall"
)

const (
	// maxResponse bounds the bytes of a response's body that are read. The connection of a longer body is closed.
	maxResponse = 64 << 10
	// bodyTime bounds the time in which the body of a response is read.
	bodyTime = time.Second
	// maxHeadBytes bounds the bytes of a response before its body, informational responses (1xx) included.
	maxHeadBytes = 64 << 10
)

// outcomeOf returns the outcome of a response. body is the beginning of its body, for the reason. now is the time of
// the response.
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
		o.RetryAfter = httpcall.RetryAfter(res.Header, now)
	}
	if text := httpcall.Printable(body); text != "" {
		o.Reason += ": " + text
	}
	o.Reason = httpcall.Cut(o.Reason)
	return o
}

func isSuccess(status int) bool { return status >= 200 && status < 300 }

func statusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return strconv.Itoa(code) + " " + text
	}
	return strconv.Itoa(code)
}

// readBody reads the body of a response for at most bodyTime and up to maxResponse bytes. It returns the beginning.
// cancel ends the request.
func readBody(res *http.Response, cancel func()) []byte {
	if res.StatusCode == http.StatusSwitchingProtocols || // the body would be the connection
		res.Body == http.NoBody {
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
