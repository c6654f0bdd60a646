package webhook

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// newTransport returns the one HTTP client of a target. It follows no redirects, keeps no cookies, and unpacks no compressed bodies.
func (t *Target) newTransport() *http.Transport {
	transport := &http.Transport{
		DialContext:            t.dial,
		DialTLSContext:         t.dialTLS,
		TLSClientConfig:        t.tlsConfig(""), // behind a proxy
		ForceAttemptHTTP2:      true,
		DisableCompression:     true,
		MaxIdleConns:           t.cfg.InFlight,
		MaxIdleConnsPerHost:    t.cfg.HostConcurrency,
		MaxConnsPerHost:        t.cfg.HostConcurrency,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: maxHeadBytes,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second, WriteByteTimeout: 5 * time.Second},
	}
	if t.cfg.EnvironmentProxy {
		transport.Proxy = http.ProxyFromEnvironment
	}
	return transport
}

func (t *Target) tlsConfig(host string) *tls.Config {
	return &tls.Config{ServerName: host, RootCAs: t.deps.RootCAs, MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}}
}

// dial connects to an address. A connection goes on when its ring no longer waits for it, so that the next ring finds it open.
func (t *Target) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.connect(ctx, network, address, false)
	t.dials.note(canonicalAddress(address), err)
	return conn, err
}

// dialTLS connects to an address, and shakes hands.
func (t *Target) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.connect(ctx, network, address, true)
	t.dials.note(canonicalAddress(address), err)
	return conn, err
}

// connect connects within ConnectTimeout.
func (t *Target) connect(ctx context.Context, network, address string, encrypt bool) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.ConnectTimeout)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	conn, err := t.deps.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	plain := &ringConn{Conn: conn}
	if !encrypt {
		return plain, nil
	}
	host, _, err := net.SplitHostPort(address)
	if err == nil {
		encrypted := tls.Client(plain, t.tlsConfig(host))
		if err = encrypted.HandshakeContext(ctx); err == nil {
			return encrypted, nil
		}
	}
	_ = conn.Close()
	return nil, err
}

// canonicalAddress returns the address as addressOf writes it.
func canonicalAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return joinHostPort(canonicalHost(host), port)
}

// joinHostPort joins a host and a port. Addresses of IPv6 get their one short form.
func joinHostPort(host, port string) string {
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		host = ip.String()
	}
	return net.JoinHostPort(host, port)
}
