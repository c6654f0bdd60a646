package grpc

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/httpcall"
)

var _ ring.Target = (*Target)(nil)

// Target calls the applications' methods.
type Target struct {
	*httpcall.Target

	cfg     Config
	rootCAs *x509.CertPool
}

// New returns a Target. It calls nothing by itself.
func New(cfg Config, deps Deps) (*Target, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := &Target{cfg: cfg, rootCAs: deps.RootCAs}
	var err error
	t.Target, err = httpcall.New(cfg.Config, httpcall.Deps{
		Endpoint: func(receiver string) (httpcall.Endpoint, bool) {
			m := deps.Methods(receiver)
			return openMethod{Method: m, target: t}, m != nil
		},
		OwnSender: func(r *clock.Ring) (httpcall.Sender, error) {
			m, err := deps.Own(r)
			if err != nil {
				return nil, err
			}
			return newSender(m, t), nil
		},
		Registerer: deps.Registerer, Dial: deps.Dial, NewTransport: t.newTransport,
		Metrics: httpcall.MetricNames{Prefix: "clockd_grpc_", Noun: "calls", Label: "status", Classes: statusNames,
			Help: "their status"},
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// bySchemeTransport is a HTTP/2 client with a client of its own for TLS. One client for both would keep its connections
// by host and port alone, and send a call over TLS on a connection in plain text (golang.org/issue/81656).
type bySchemeTransport struct{ encrypted, plain *http.Transport }

// RoundTrip sends a request.
func (t *bySchemeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return t.encrypted.RoundTrip(r)
	}
	return t.plain.RoundTrip(r)
}

// CloseIdleConnections closes the connections that no request uses.
func (t *bySchemeTransport) CloseIdleConnections() {
	t.encrypted.CloseIdleConnections()
	t.plain.CloseIdleConnections()
}

// newTransport returns a HTTP/2 client.
func (t *Target) newTransport() httpcall.Transport {
	encrypted, plain := t.newHTTP2Transport(), t.newHTTP2Transport()
	encrypted.Protocols.SetHTTP2(true)
	plain.Protocols.SetUnencryptedHTTP2(true)
	return &bySchemeTransport{encrypted: encrypted, plain: plain}
}

// newHTTP2Transport returns a transport without a protocol. It unpacks no compressed bodies.
func (t *Target) newHTTP2Transport() *http.Transport {
	return &http.Transport{
		DialContext:            t.DialHTTP2,
		DialTLSContext:         t.dialTLS,
		Protocols:              new(http.Protocols),
		DisableCompression:     true,
		MaxIdleConns:           t.cfg.InFlight,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxHeadBytes,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second,
			WriteByteTimeout: 5 * time.Second},
	}
}

// errNoHTTP2 is the failure of a connection to a server that chose another protocol.
var errNoHTTP2 = errors.New("the server does not speak HTTP/2")

// dialTLS connects to an address, and shakes hands.
func (t *Target) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conn, err := t.DialTLS(ctx, network, address,
		&tls.Config{ServerName: host, RootCAs: t.rootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2"}})
	if err != nil {
		return nil, err
	}
	if encrypted, is := conn.(*tls.Conn); is && encrypted.ConnectionState().NegotiatedProtocol != "h2" {
		_ = conn.Close()
		return nil, errNoHTTP2
	}
	return conn, nil
}

// openMethod is the method of an application with the target that calls it.
type openMethod struct {
	*Method

	target *Target
}

// NewSender returns the sender of the method.
func (m openMethod) NewSender() (httpcall.Sender, error) {
	if err := Part.Validate(m.Method); err != nil {
		return nil, err
	}
	return newSender(m.Method, m.target), nil
}
