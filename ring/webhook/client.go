package webhook

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"
)

// newTransport returns a HTTP client. It follows no redirects, keeps no cookies, and unpacks no compressed bodies.
func (t *Target) newTransport() *http.Transport {
	transport := &http.Transport{
		DialContext:            t.Dial,
		DialTLSContext:         t.dialTLS,
		TLSClientConfig:        t.tlsConfig(""), // behind a proxy
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConns:           t.cfg.InFlight,
		MaxIdleConnsPerHost:    t.cfg.HostConcurrency,
		MaxConnsPerHost:        t.cfg.HostConcurrency,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxHeadBytes,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second,
			WriteByteTimeout: 5 * time.Second},
	}
	if t.cfg.EnvironmentProxy {
		transport.Proxy = t.proxy
	}
	return transport
}

func (t *Target) tlsConfig(host string) *tls.Config {
	return &tls.Config{ServerName: host, RootCAs: t.rootCAs, MinVersion: tls.VersionTLS12,
		NextProtos: []string{"h2", "http/1.1"}}
}

// dialTLS connects to an address, and shakes hands.
func (t *Target) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	return t.DialTLS(ctx, network, address, t.tlsConfig(host))
}
