package webhook

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/httpcall"
)

// Headers of a request, beside the headers of the ring (httpcall.RingHeader).
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// sender is what all requests of one endpoint have in common.
type sender struct {
	endpoint *Endpoint
	url      *url.URL
	address  string // host and port
	keys     [][]byte
	header   http.Header
	secrets  []string // texts that no reason may repeat
}

var _ httpcall.Sender = (*sender)(nil)

// newSender returns the sender of a valid endpoint.
func newSender(e *Endpoint, userAgent string) *sender {
	u, _ := httpcall.ParseURL(e.URL)
	s := &sender{endpoint: e, url: u, address: httpcall.AddressOf(u), header: http.Header{}}
	s.header.Set("User-Agent", userAgent)
	for name, value := range e.Headers {
		httpcall.SetHeader(s.header, name, value)
	}
	s.secrets = slices.Concat(httpcall.HeaderSecrets(e.Headers), httpcall.QuerySecrets(u))
	for _, secret := range e.Secrets {
		key, _ := secret.key()
		s.keys = append(s.keys, key)
		s.secrets = append(s.secrets, string(secret), secret.encoded())
	}
	return s
}

// Address returns the host and port of the endpoint.
func (s *sender) Address() string { return s.address }

// Concurrency returns the most requests of the application under way at once.
func (s *sender) Concurrency() int { return s.endpoint.Concurrency }

// Timeout returns the time for a request.
func (s *sender) Timeout() time.Duration { return s.endpoint.Timeout }

// NewExchange returns the request of a ring.
func (s *sender) NewExchange(r *clock.Ring) (httpcall.Exchange, error) {
	req, body, err := s.request(r)
	return &exchange{request: req, body: body, secrets: s.secrets}, err
}

// request returns the request of a ring, and its body. The timestamp is the time of the claim, by the database's clock.
func (s *sender) request(r *clock.Ring) (*http.Request, *httpcall.Body, error) {
	content, contentType := r.Payload, r.ContentType
	switch {
	case !s.endpoint.hasBody():
		content = nil
	case s.endpoint.Body == EnvelopeBody:
		var err error
		if content, err = envelope(r); err != nil {
			return nil, nil, err
		}
		contentType = "application/json"
	}
	header := httpcall.NewRingHeader(s.header)
	req := &http.Request{
		Method: s.endpoint.Method, URL: s.url, Host: s.url.Host, Header: header.Header, Proto: "HTTP/1.1",
		ProtoMajor: 1, ProtoMinor: 1,
		ContentLength: int64(len(content)), Body: http.NoBody,
	}
	body := httpcall.NewBody(content)
	switch {
	case len(content) > 0:
		req.GetBody = body.Reader
		req.Body, _ = body.Reader()
	case req.Method == http.MethodGet:
		// net/http repeats a GET whose connection has ended without a response, if it knows that it has no body.
		req.Body = unknownBody{}
	}
	id, seconds := r.MessageID(), int64(r.RungAt)/1000
	if s.endpoint.hasBody() {
		header.Set("Content-Type", contentType)
	}
	header.Set(headerID, id)
	header.Set(headerTimestamp, strconv.FormatInt(seconds, 10))
	header.Set(headerSignature, signatures(s.keys, id, seconds, content))
	header.SetRing(r)
	return req, body, nil
}

// unknownBody is an empty body that net/http does not know to be empty.
type unknownBody struct{}

func (unknownBody) Read([]byte) (int, error) { return 0, io.EOF }

func (unknownBody) Close() error { return nil }

// ringEnvelope is the JSON of a ring, with the names of the stream's events. The payload follows the last member.
type ringEnvelope struct {
	MessageID   string              `json:"message_id"`
	Application string              `json:"application"`
	BusinessID  string              `json:"business_id"`
	Generation  int64               `json:"generation"`
	RingNo      int                 `json:"ring_no"`
	RetryTimes  int                 `json:"retry_times"`
	RingAt      string              `json:"ring_at"`
	RungAt      string              `json:"rung_at"`
	ClaimID     string              `json:"claim_id"`
	ContentType string              `json:"content_type"`
	Occurrence  *occurrenceEnvelope `json:"occurrence,omitempty"` // nil: the alarm rings once, or a person triggered the ring
}

// occurrenceEnvelope is the occurrence of a repeating alarm.
type occurrenceEnvelope struct {
	Number     *int64  `json:"number"`      // nil: an occurrence of a backfill
	At         string  `json:"at"`          // without jitter
	PreviousAt *string `json:"previous_at"` // nil: the first occurrence
	NextAt     *string `json:"next_at"`     // nil: the last occurrence
}

func occurrenceOf(r *clock.Ring) *occurrenceEnvelope {
	o := r.Occurrence()
	if o.At == 0 {
		return nil
	}
	var number *int64
	if o.Number != 0 {
		number = &o.Number
	}
	text := func(at clock.Instant) *string {
		if at == clock.NoInstant {
			return nil
		}
		return new(timeText(at))
	}
	previous, next := r.OccurrencesBeside()
	return &occurrenceEnvelope{Number: number, At: timeText(clock.Instant(o.At)), PreviousAt: text(previous), NextAt: text(next)}
}

// envelope returns the ring as a JSON object, with its payload in the form in which it was given: JSON byte for byte.
func envelope(r *clock.Ring) ([]byte, error) {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(ringEnvelope{
		MessageID: r.MessageID(), Application: r.Application, BusinessID: r.BusinessID, Generation: r.Generation,
		RingNo:     r.RingNo,
		RetryTimes: r.RetryTimes(), RingAt: timeText(r.RingAt), RungAt: timeText(r.RungAt), ClaimID: r.ClaimID,
		ContentType: r.ContentType,
		Occurrence:  occurrenceOf(r),
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
	case clock.Binary, clock.MessagePayload: // a message has this kind only if it could not be unpacked
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
