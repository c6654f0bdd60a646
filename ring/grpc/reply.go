package grpc

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/httpcall"
)

const (
	// maxResponse bounds the bytes of a response's message that are read. A longer response has no status that clockd
	// knows.
	maxResponse = 1 << 20
	// maxHeadBytes bounds the bytes of a response's metadata.
	maxHeadBytes = 64 << 10
)

// statusNames are the names of the statuses of gRPC, by code.
var statusNames = []string{
	"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS",
	"PERMISSION_DENIED", "RESOURCE_EXHAUSTED",
	"FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS",
	"UNAUTHENTICATED",
}

// The codes that decide about further tries.
const (
	codeOK                 = 0
	codeUnknown            = 2
	codeResourceExhausted  = 8
	codeFailedPrecondition = 9
	codeUnavailable        = 14
)

// status is the status of a call.
type status struct {
	code     int
	message  string // as a reason shows it
	pushback time.Duration
}

var errNoStatus = errors.New("the response has no status")

// statusOf returns the status in the trailers of a response, or in its head if it has no message.
func statusOf(h http.Header) (status, error) {
	text := h.Get("Grpc-Status")
	if text == "" {
		return status{}, errNoStatus
	}
	code, err := strconv.Atoi(text)
	if err != nil || code < 0 || code >= len(statusNames) {
		code = codeUnknown // as the protocol says
	}
	s := status{code: code, message: messageOf(h.Get("Grpc-Message"))}
	if ms, err := strconv.ParseUint(h.Get("Grpc-Retry-Pushback-Ms"), 10, 32); err == nil {
		s.pushback = time.Duration(ms) * time.Millisecond
	}
	return s, nil
}

// messageOf decodes a grpc-message: percent-encoded UTF-8. A message that cannot be decoded is shown as it is.
func messageOf(encoded string) string {
	text := encoded[:min(len(encoded), 3*clock.MaxReason)]
	if decoded, err := url.PathUnescape(text); err == nil {
		text = decoded
	}
	return httpcall.Printable([]byte(text))
}

// outcome returns the outcome of a call with the status and the metadata, which comes before or after the message.
func (s status) outcome(head, trailer http.Header) clock.Outcome {
	if s.code == codeOK {
		later := strings.EqualFold(head.Get("X-Clockd-Ack"), "later") ||
			strings.EqualFold(trailer.Get("X-Clockd-Ack"), "later")
		return clock.Outcome{Kind: clock.Confirmed, Acknowledged: !later}
	}
	o := clock.Outcome{Kind: clock.Nacked, Reason: "the receiver answered " + statusNames[s.code]}
	switch s.code {
	case codeFailedPrecondition:
		o.Reason, o.Final = o.Reason+": it wants no further try", true
	case codeUnavailable, codeResourceExhausted:
		o.RetryAfter = s.pushback
	}
	if s.message != "" {
		o.Reason += ": " + s.message
	}
	o.Reason = httpcall.Cut(o.Reason)
	return o
}

// exchange is the call of one ring.
type exchange struct {
	request *http.Request
	body    *httpcall.Body
	secrets []string // of the method; see Secrets
}

// Do sends the call and reads its status; see httpcall.Exchange.
func (x *exchange) Do(c *httpcall.Call) error {
	res, err := c.Transport().RoundTrip(x.request.WithContext(c.Context()))
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	if reason := notGRPC(res); reason != "" {
		c.Replied(statusNames[codeUnknown])
		c.Report(clock.Outcome{Kind: clock.Nacked, Reason: httpcall.Cut(reason)})
		return nil
	}
	n, err := io.Copy(io.Discard, io.LimitReader(res.Body, maxResponse+1))
	if err != nil {
		return err
	}
	if n > maxResponse {
		return fmt.Errorf("the response has more than %d bytes", maxResponse)
	}
	trailer := res.Trailer
	if trailer.Get("Grpc-Status") == "" {
		trailer = res.Header // a response without a message has its status in the head
	}
	s, err := statusOf(trailer)
	if err != nil {
		return err
	}
	c.Replied(statusNames[s.code])
	c.Report(s.outcome(res.Header, res.Trailer))
	return nil
}

// notGRPC returns why a response is not one of gRPC; empty if it is.
func notGRPC(res *http.Response) string {
	kind := res.Header.Get("Content-Type")
	switch {
	case res.StatusCode != http.StatusOK:
		return "the receiver answered with the HTTP status " + strconv.Itoa(res.StatusCode) + " instead of a status of gRPC"
	case kind != "application/grpc" &&
		!slices.ContainsFunc([]string{"application/grpc+", "application/grpc;"},
			func(p string) bool { return strings.HasPrefix(kind, p) }):
		return "the receiver answered with the type " + httpcall.Printable([]byte(kind)) + " instead of application/grpc"
	}
	return ""
}

// Size returns the bytes of the body.
func (x *exchange) Size() int { return x.body.Size() }

// Drop forgets a large body.
func (x *exchange) Drop() { x.body.Drop() }

// Secrets returns the method's metadata; see httpcall.Exchange.
func (x *exchange) Secrets() []string { return x.secrets }
