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

// Metadata of a call, beside the headers of the ring (httpcall.RingHeader).
const (
	metadataID          = "X-Clockd-Message-Id"
	metadataContentType = "X-Clockd-Content-Type"
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

// newSender returns the sender of a valid method.
func newSender(m *Method, t *Target) *sender {
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
	return s
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
	body, header := httpcall.NewBody(append(message, r.Payload...)), httpcall.NewRingHeader(s.header)
	req := &http.Request{
		Method: http.MethodPost, URL: s.url, Host: s.url.Host, Header: header.Header, Proto: "HTTP/2.0",
		ProtoMajor:    2,
		ContentLength: int64(prefixBytes + len(r.Payload)), GetBody: body.Reader,
	}
	req.Body, _ = body.Reader()
	header.Set(metadataID, r.MessageID())
	header.Set(metadataContentType, r.ContentType)
	header.SetRing(r)
	return req, body
}
