package httpcall

import (
	"context"
	"crypto/tls"
	"net"
)

// Dial connects to an address within Config.ConnectTimeout. A connection goes on when its ring no longer waits for it,
// so that the next ring finds it open.
func (t *Target) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.connect(ctx, network, address, nil, false)
	t.dials.note(canonicalAddress(address), err)
	return conn, err
}

// DialHTTP2 connects to an address as Dial does. The connection will speak HTTP/2 in plain text.
func (t *Target) DialHTTP2(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := t.connect(ctx, network, address, nil, true)
	t.dials.note(canonicalAddress(address), err)
	return conn, err
}

// DialTLS connects to an address as Dial does, and shakes hands.
func (t *Target) DialTLS(ctx context.Context, network, address string, encrypt *tls.Config) (net.Conn, error) {
	conn, err := t.connect(ctx, network, address, encrypt, false)
	t.dials.note(canonicalAddress(address), err)
	return conn, err
}

// connect connects within ConnectTimeout. encrypt is nil for a connection in plain text; with http2 it will speak
// HTTP/2.
func (t *Target) connect(
	ctx context.Context, network, address string, encrypt *tls.Config, http2 bool,
) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, t.cfg.ConnectTimeout)
	defer cancel()
	defer context.AfterFunc(t.ctx, cancel)()
	conn, err := t.deps.Dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	plain := &ringConn{Conn: conn, http2: http2}
	if encrypt == nil {
		return plain, nil
	}
	encrypted := tls.Client(plain, encrypt)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return encrypted, nil
}
