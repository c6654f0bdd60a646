package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/clockd/clockd/clock"
)

// Headers of a request. Those of the ring have the names of the AMQP headers, with the prefix x-clockd.
const (
	headerID           = "Webhook-Id"
	headerTimestamp    = "Webhook-Timestamp"
	headerSignature    = "Webhook-Signature"
	headerApplication  = "X-Clockd-Application"
	headerBusinessID   = "X-Clockd-Business-Id" // percent-encoded, as in a path
	headerGeneration   = "X-Clockd-Generation"
	headerRingNo       = "X-Clockd-Ring-No"
	headerTargetRingAt = "X-Clockd-Target-Ring-At" // ms since the epoch
	headerRungAt       = "X-Clockd-Rung-At"        // ms since the epoch
	headerRetryTimes   = "X-Clockd-Retry-Times"
	headerClaimID      = "X-Clockd-Claim-Id"
	headerAckTimeout   = "X-Clockd-Ack-Timeout" // ms; only with ack_timeout
)

// sender is what all requests of one endpoint have in common.
type sender struct {
	endpoint *clock.Webhook
	url      *url.URL
	address  string // host and port
	keys     [][]byte
	header   http.Header
}

// newSender returns the sender of an endpoint. The error says why the endpoint is not valid.
func newSender(e *clock.Webhook, userAgent string) (*sender, error) {
	if err := e.Validate(); err != nil {
		return nil, err
	}
	u, err := e.ParsedURL()
	if err != nil {
		return nil, err
	}
	keys, err := e.Keys()
	if err != nil {
		return nil, err
	}
	s := &sender{endpoint: e, url: u, address: addressOf(u), keys: keys, header: http.Header{}}
	s.header.Set("User-Agent", userAgent)
	for name, value := range e.Headers {
		s.header.Set(name, value)
	}
	return s, nil
}

// addressOf returns the host and port of a URL.
func addressOf(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return joinHostPort(canonicalHost(u.Hostname()), port)
}

// request returns the request of a ring, and its body. The timestamp is the time of the claim, by the database's clock.
func (s *sender) request(ctx context.Context, r *clock.Ring) (*http.Request, *requestBody, error) {
	content, contentType := r.Payload, r.ContentType
	if s.endpoint.Body == clock.EnvelopeBody {
		var err error
		if content, err = envelope(r); err != nil {
			return nil, nil, err
		}
		contentType = "application/json"
	}
	req := (&http.Request{
		Method: s.endpoint.Method, URL: s.url, Host: s.url.Host, Header: s.header.Clone(), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(content)), Body: http.NoBody,
	}).WithContext(ctx)
	body := &requestBody{content: content}
	if len(content) > 0 {
		req.GetBody = body.reader
		req.Body, _ = body.reader()
	}
	id, seconds := r.MessageID(), int64(r.RungAt)/1000
	set := req.Header.Set
	set("Content-Type", contentType)
	set(headerID, id)
	set(headerTimestamp, strconv.FormatInt(seconds, 10))
	set(headerSignature, signatures(s.keys, id, seconds, content))
	set(headerApplication, r.Application)
	set(headerBusinessID, url.PathEscape(r.BusinessID))
	set(headerGeneration, strconv.FormatInt(r.Generation, 10))
	set(headerRingNo, strconv.Itoa(r.RingNo))
	set(headerTargetRingAt, strconv.FormatInt(int64(r.RingAt), 10))
	set(headerRungAt, strconv.FormatInt(int64(r.RungAt), 10))
	set(headerRetryTimes, strconv.Itoa(r.RetryTimes()))
	set(headerClaimID, r.ClaimID)
	if r.AckTimeout > 0 {
		set(headerAckTimeout, strconv.FormatInt(r.AckTimeout.Milliseconds(), 10))
	}
	if r.Traceparent != "" {
		set("Traceparent", r.Traceparent)
	}
	return req, body, nil
}

// smallContent is the size up to which the content of a request is kept until its reply. The HTTP client writes it together with the headers.
const smallContent = 16 << 10

// requestBody holds the content of a request. Large content is forgotten when no further byte of it may be written.
type requestBody struct {
	mu      sync.Mutex
	content []byte
	dropped bool
}

// drop forgets the content, which many late replies would otherwise keep in memory.
func (b *requestBody) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.content, b.dropped = nil, true
}

func (b *requestBody) isDropped() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.dropped
}

// reader returns a reader of the whole content. The HTTP client reads it again only if nothing was written, or if the receiver said that it has
// not begun the request.
func (b *requestBody) reader() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.dropped:
		return nil, errTooLate
	case len(b.content) <= smallContent:
		return io.NopCloser(bytes.NewReader(b.content)), nil
	}
	return &bodyReader{body: b}, nil
}

// bodyReader reads a large requestBody. Reading fails after it was dropped.
type bodyReader struct {
	body *requestBody
	at   int
}

func (r *bodyReader) Read(p []byte) (int, error) {
	r.body.mu.Lock()
	defer r.body.mu.Unlock()
	switch {
	case r.body.dropped:
		return 0, errTooLate
	case r.at == len(r.body.content):
		return 0, io.EOF
	}
	n := copy(p, r.body.content[r.at:])
	r.at += n
	return n, nil
}

func (r *bodyReader) Close() error { return nil }

// ringEnvelope is the JSON of a ring, with the names of the stream's events. The payload follows the last member.
type ringEnvelope struct {
	MessageID   string `json:"message_id"`
	Application string `json:"application"`
	BusinessID  string `json:"business_id"`
	Generation  int64  `json:"generation"`
	RingNo      int    `json:"ring_no"`
	RetryTimes  int    `json:"retry_times"`
	RingAt      string `json:"ring_at"`
	RungAt      string `json:"rung_at"`
	ClaimID     string `json:"claim_id"`
	ContentType string `json:"content_type"`
}

// envelope returns the ring as a JSON object, with its payload in the form in which it was given: JSON byte for byte.
func envelope(r *clock.Ring) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(ringEnvelope{
		MessageID: r.MessageID(), Application: r.Application, BusinessID: r.BusinessID, Generation: r.Generation, RingNo: r.RingNo,
		RetryTimes: r.RetryTimes(), RingAt: timeText(r.RingAt), RungAt: timeText(r.RungAt), ClaimID: r.ClaimID, ContentType: r.ContentType,
	})
	if err != nil {
		return nil, fmt.Errorf("encode the ring: %w", err)
	}
	b.Truncate(bytes.LastIndexByte(b.Bytes(), '}'))
	switch r.PayloadKind {
	case clock.JSON:
		b.WriteString(`,"payload":`)
		b.Write(r.Payload)
	case clock.Text:
		b.WriteString(`,"text":`)
		if err := encoder.Encode(string(r.Payload)); err != nil {
			return nil, fmt.Errorf("encode the payload: %w", err)
		}
	case clock.Binary:
		b.WriteString(`,"base64":`)
		if err := encoder.Encode(r.Payload); err != nil {
			return nil, fmt.Errorf("encode the payload: %w", err)
		}
	case clock.NoPayload:
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func timeText(i clock.Instant) string { return i.Time().UTC().Format("2006-01-02T15:04:05.000Z07:00") }
