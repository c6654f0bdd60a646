package grpc

import (
	"encoding/binary"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/httpcall"
)

// Metadata of a call. The names are those of webhooks.
const (
	metadataID           = "X-Clockd-Message-Id"
	metadataApplication  = "X-Clockd-Application"
	metadataBusinessID   = "X-Clockd-Business-Id" // percent-encoded, as in a path
	metadataContentType  = "X-Clockd-Content-Type"
	metadataGeneration   = "X-Clockd-Generation"
	metadataRingNo       = "X-Clockd-Ring-No"
	metadataTargetRingAt = "X-Clockd-Target-Ring-At" // ms since the epoch
	metadataRungAt       = "X-Clockd-Rung-At"        // ms since the epoch
	metadataRetryTimes   = "X-Clockd-Retry-Times"
	metadataClaimID      = "X-Clockd-Claim-Id"
	metadataAckTimeout   = "X-Clockd-Ack-Timeout"   // ms; only with ack_timeout
	metadataOccurrence   = "X-Clockd-Occurrence"    // number of the occurrence; only in rings of repeating alarms
	metadataOccurrenceAt = "X-Clockd-Occurrence-At" // time of the occurrence, without jitter; ms since the epoch
	// Times of the occurrences before and after it, if there are any.
	metadataOccurrencePrevious = "X-Clockd-Occurrence-Previous-At"
	metadataOccurrenceNext     = "X-Clockd-Occurrence-Next-At"
)

// prefixBytes is the length of what precedes a message: a byte that says that it is not compressed, and its length.
const prefixBytes = 5

// sender is what all calls of one method have in common.
type sender struct {
	method  *Method
	url     *url.URL
	address string // host and port
	header  http.Header
	secrets []string // texts that no reason may repeat
}

var _ httpcall.Sender = (*sender)(nil)

// newSender returns the sender of a method. The error says why the method is not valid.
func newSender(m *Method, t *Target) (*sender, error) {
	if err := Part.Validate(m); err != nil {
		return nil, err
	}
	u, _ := httpcall.ParseURL(m.URL)
	u.Path = "/" + m.Name
	s := &sender{method: m, url: u, address: httpcall.AddressOf(u), header: http.Header{},
		secrets: httpcall.HeaderSecrets(m.Metadata)}
	for name, value := range m.Metadata {
		httpcall.SetHeader(s.header, name, value)
	}
	s.header.Set("User-Agent", t.cfg.UserAgent)
	s.header.Set("Content-Type", "application/grpc")
	s.header.Set("Te", "trailers")
	s.header.Set("Grpc-Timeout", strconv.FormatInt(m.Timeout.Milliseconds(), 10)+"m")
	return s, nil
}

// Address returns the host and port of the server.
func (s *sender) Address() string { return s.address }

// Concurrency returns the most calls of the application under way at once.
func (s *sender) Concurrency() int { return s.method.Concurrency }

// Timeout returns the deadline of a call, from its begin.
func (s *sender) Timeout() time.Duration { return s.method.Timeout }

// NewExchange returns the call of a ring.
func (s *sender) NewExchange(r *clock.Ring) (httpcall.Exchange, error) {
	req, body := s.request(r)
	return &exchange{request: req, body: body, secrets: s.secrets}, nil
}

// request returns the request of a ring, and its body.
func (s *sender) request(r *clock.Ring) (*http.Request, *httpcall.Body) {
	message := make([]byte, prefixBytes, prefixBytes+len(r.Payload))
	binary.BigEndian.PutUint32(message[1:], uint32(len(r.Payload)))
	body := httpcall.NewBody(append(message, r.Payload...))
	req := &http.Request{
		Method: http.MethodPost, URL: s.url, Host: s.url.Host, Header: s.header.Clone(), Proto: "HTTP/2.0",
		ProtoMajor:    2,
		ContentLength: int64(prefixBytes + len(r.Payload)), GetBody: body.Reader,
	}
	req.Body, _ = body.Reader()
	set := req.Header.Set
	set(metadataID, r.MessageID())
	set(metadataApplication, r.Application)
	set(metadataBusinessID, url.PathEscape(r.BusinessID))
	set(metadataContentType, r.ContentType)
	set(metadataGeneration, strconv.FormatInt(r.Generation, 10))
	set(metadataRingNo, strconv.Itoa(r.RingNo))
	set(metadataTargetRingAt, strconv.FormatInt(int64(r.RingAt), 10))
	set(metadataRungAt, strconv.FormatInt(int64(r.RungAt), 10))
	set(metadataRetryTimes, strconv.Itoa(r.RetryTimes()))
	set(metadataClaimID, r.ClaimID)
	if r.AckTimeout > 0 {
		set(metadataAckTimeout, strconv.FormatInt(r.AckTimeout.Milliseconds(), 10))
	}
	if r.Traceparent != "" {
		set("Traceparent", r.Traceparent)
	}
	if o := r.Occurrence(); o.Number != 0 {
		set(metadataOccurrence, strconv.FormatInt(o.Number, 10))
		set(metadataOccurrenceAt, strconv.FormatInt(o.At, 10))
		previous, next := r.OccurrencesBeside()
		if previous != clock.NoInstant {
			set(metadataOccurrencePrevious, strconv.FormatInt(int64(previous), 10))
		}
		if next != clock.NoInstant {
			set(metadataOccurrenceNext, strconv.FormatInt(int64(next), 10))
		}
	}
	return req, body
}
