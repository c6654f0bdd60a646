package rabbittest

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clockd/clockd/ring/rabbit/internal/scripted"
)

// Proxy forwards connections between a session and the broker, and can stall or cut them.
type Proxy struct {
	listener net.Listener
	target   string
	wait     sync.WaitGroup
	DropAcks atomic.Bool // new connections get no basic.ack from the broker

	mu      sync.Mutex
	changed *sync.Cond
	stalled bool
	readLag time.Duration // delay of each read from the broker
	budget  int64         // bytes to the broker until all connections are cut; negative: no cut
	largest int           // a larger read from a client is lost, with all later bytes of its connection; 0: no limit
	ended   bool
	conns   map[net.Conn]bool
}

// ProxyTo starts a proxy to the broker of target. It returns the proxy and the URL that leads through it.
func ProxyTo(tb testing.TB, target string) (p *Proxy, via string) {
	tb.Helper()
	u, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	u.Host = listener.Addr().String()
	return relay(tb, listener, target), u.String()
}

// ProxyToTLS is like ProxyTo, with TLS between the session and the proxy.
func ProxyToTLS(tb testing.TB, target string) (p *Proxy, via string) {
	tb.Helper()
	u, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	certificate, file := selfSigned(tb)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		tb.Fatal(err)
	}
	u.Scheme, u.Host, u.RawQuery = "amqps", listener.Addr().String(), url.Values{"cacertfile": {file}}.Encode()
	return relay(tb, listener, target), u.String()
}

// selfSigned returns a certificate for 127.0.0.1 and the name of its file.
func selfSigned(tb testing.TB) (certificate tls.Certificate, file string) {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		tb.Fatal(err)
	}
	file = filepath.Join(tb.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		tb.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func relay(tb testing.TB, listener net.Listener, target string) *Proxy {
	tb.Helper()
	u, err := url.Parse(target)
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{listener: listener, target: u.Host, budget: -1, conns: map[net.Conn]bool{}}
	p.changed = sync.NewCond(&p.mu)
	p.wait.Go(p.accept)
	tb.Cleanup(p.Close)
	return p
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if p.DropAcks.Load() {
			server = &acklessConn{Conn: server, frames: &scripted.Broker{Reader: bufio.NewReader(server)}}
		}
		if !p.add(client, server) {
			return
		}
		p.wait.Go(func() { p.forward(server, client, true) })
		p.wait.Go(func() { p.forward(client, server, false) })
	}
}

// acklessConn is a connection to a broker whose acks get lost.
type acklessConn struct {
	net.Conn
	frames  *scripted.Broker // reads the frames of the connection
	pending []byte           // bytes of the current frame still to hand out
}

func (c *acklessConn) Read(p []byte) (int, error) {
	for len(c.pending) == 0 {
		f := c.frames.Read()
		if f.Kind == 0 {
			return 0, io.EOF
		}
		if f.Method() != scripted.MethodAck {
			c.pending = scripted.Encode(f)
		}
	}
	n := copy(p, c.pending)
	c.pending = c.pending[n:]
	return n, nil
}

func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		if p.ended {
			_ = c.Close()
		} else {
			p.conns[c] = true
		}
	}
	return !p.ended
}

func (p *Proxy) forward(destination, source net.Conn, toBroker bool) {
	defer destination.Close()
	defer source.Close()
	buf := make([]byte, 4096)
	for lost := false; ; {
		n, err := source.Read(buf)
		if lost = lost || toBroker && p.loses(n); lost && err == nil {
			continue
		}
		if !toBroker {
			<-time.After(p.currentLag())
		}
		if !p.pass(&n, toBroker) {
			_, _ = destination.Write(buf[:n])
			p.Cut()
			return
		}
		if _, werr := destination.Write(buf[:n]); werr != nil || err != nil {
			return
		}
	}
}

// pass waits while the proxy is stalled. It reports false if the budget ends within these n bytes, and then sets n to
// the remaining budget.
func (p *Proxy) pass(n *int, toBroker bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.stalled && !p.ended {
		p.changed.Wait()
	}
	if !toBroker || p.budget < 0 {
		return true
	}
	if int64(*n) >= p.budget {
		*n = int(p.budget)
		p.budget = -1
		return false
	}
	p.budget -= int64(*n)
	return true
}

// Lag delays each read from the broker by d.
func (p *Proxy) Lag(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.readLag = d
}

// currentLag returns the delay of each read from the broker.
func (p *Proxy) currentLag() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.readLag
}

// loses reports whether a read of n bytes from a client is lost.
func (p *Proxy) loses(n int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.largest > 0 && n > p.largest
}

// LoseLarger loses reads of more than n bytes from clients.
func (p *Proxy) LoseLarger(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.largest = n
}

// Stall stops both directions, or lets them continue.
func (p *Proxy) Stall(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = on
	p.changed.Broadcast()
}

// CutAfter cuts all connections after n more bytes to the broker.
func (p *Proxy) CutAfter(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.budget = n
}

// Cut ends all connections. New connections work.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
	clear(p.conns)
}

// Close ends the proxy. The end of the test closes it too.
func (p *Proxy) Close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.ended = true
	p.changed.Broadcast()
	p.mu.Unlock()
	p.Cut()
	p.wait.Wait()
}
