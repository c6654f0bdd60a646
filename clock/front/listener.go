package front

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// listener limits the open connections, in total and by remote host. It refuses further connections at once
// instead of letting them wait. A refused probe tells more than a waiting probe, and only an accepted connection has a
// known address.
type listener struct {
	*net.TCPListener
	certificates *Certificates // nil: the port speaks plain HTTP

	maxOpen    int // most open connections
	maxPerHost int // most open connections of one remote host; 0: no limit
	refused    prometheus.Counter
	unserved   atomic.Int64  // see streamWatch
	headTime   time.Duration // longest time for a request's head
	writeTime  time.Duration // longest time for a write

	mu         sync.Mutex
	open       int
	openByHost map[netip.Addr]int
}

// refusal is the response to a refused connection. A client sees it only if it reads before it notices the close.
const refusal = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// refusalTimeout is the longest time to write a refusal. A new connection takes these few bytes at once.
const refusalTimeout = 100 * time.Millisecond

// Listen opens the port, with the limits of cfg for its connections. With certificates it speaks TLS.
func Listen(
	ctx context.Context, cfg Config, certificates *Certificates, into prometheus.Registerer,
) (net.Listener, error) {
	refused := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "clockd_http_connections_refused_total",
		Help: "Connections closed at once, because too many were open in total or from one address.",
	})
	if err := into.Register(refused); err != nil {
		return nil, fmt.Errorf("register metrics: %w", err)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.Listen)
	if op, is := errors.AsType[*net.OpError](err); is {
		err = op.Err // the OpError repeats the address
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", cfg.Listen, err)
	}
	tcp, ok := l.(*net.TCPListener)
	if !ok {
		return nil, errors.Join(fmt.Errorf("listen on %s: not a TCP listener", cfg.Listen), l.Close())
	}
	return &listener{TCPListener: tcp, certificates: certificates,
		maxOpen: cfg.Connections, maxPerHost: cfg.ConnectionsPerAddress,
		refused: refused, headTime: cfg.ReadHeaderTimeout, writeTime: cfg.WriteTimeout,
		openByHost: map[netip.Addr]int{}}, nil
}

// NewServer returns an HTTP server for the connections of Listen. It speaks HTTP/1.1, and HTTP/2 with clients that
// begin with its preface.
func NewServer(cfg Config, h http.Handler, log *slog.Logger) *http.Server {
	server := &http.Server{
		Handler: counted(h), ReadHeaderTimeout: cfg.ReadHeaderTimeout, IdleTimeout: cfg.IdleTimeout,
		MaxHeaderBytes: cfg.MaxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
	}
	speakHTTP2(server, cfg)
	return server
}

// counted returns h, whose running calls over HTTP/2 count at their connection. Requests tell of their TLS.
func counted(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := connOf(r)
		if c != nil && r.ProtoMajor > 1 {
			defer c.streams.serve()()
		}
		if c != nil {
			r.TLS = c.state()
		}
		h.ServeHTTP(w, r)
	})
}

// connKey is the key of a request's connection in the request's context.
type connKey struct{}

// connOf returns the connection of a request, nil if it did not come through Listen.
func connOf(r *http.Request) *conn {
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}

// Accept returns the next connection within the limits. It refuses all connections over a limit.
func (l *listener) Accept() (net.Conn, error) {
	for {
		tcp, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		address := remoteHost(tcp)
		if l.admit(address) {
			c := &conn{Conn: tcp, tcp: tcp, streams: newStreamWatch(&l.unserved, l.headTime)}
			if l.certificates != nil {
				c.Conn = l.certificates.secure(tcp, l.writeTime)
			}
			c.leave = sync.OnceFunc(func() { c.streams.close(); l.leave(address) })
			return c, nil
		}
		l.refused.Inc()
		l.refuse(tcp)
	}
}

// refuse closes a connection over a limit. Without TLS its client is told why.
func (l *listener) refuse(tcp *net.TCPConn) {
	if l.certificates == nil {
		_ = tcp.SetWriteDeadline(time.Now().Add(refusalTimeout))
		_, _ = tcp.Write([]byte(refusal))
	}
	_ = tcp.Close()
}

func (l *listener) admit(address netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.maxOpen || l.maxPerHost > 0 && l.openByHost[address] >= l.maxPerHost {
		return false
	}
	l.open++
	l.openByHost[address]++
	return true
}

func (l *listener) leave(address netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.openByHost[address]--; l.openByHost[address] == 0 {
		delete(l.openByHost, address)
	}
}

// remoteHost returns the address that stands for the connection's remote host.
func remoteHost(tcp *net.TCPConn) netip.Addr {
	remote, ok := tcp.RemoteAddr().(*net.TCPAddr)
	if !ok {
		return netip.Addr{}
	}
	return hostOf(remote.AddrPort().Addr())
}

// hostOf returns the address that stands for a host: an IPv4 address itself, or the first address of an IPv6 /64,
// because one IPv6 host can use its whole /64.
func hostOf(address netip.Addr) netip.Addr {
	address = address.Unmap()
	if !address.Is6() {
		return address
	}
	prefix, err := address.WithZone("").Prefix(64)
	if err != nil {
		return address
	}
	return prefix.Addr()
}

// conn is a connection that counts against the limits until it is closed.
type conn struct {
	net.Conn // tcp, or TLS on it

	tcp     *net.TCPConn
	leave   func()
	writes  writeCount
	streams *streamWatch
}

// Read reads into b once streams allows it.
func (c *conn) Read(b []byte) (int, error) {
	if err := c.streams.awaitTurn(); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	c.streams.read(b[:n])
	return n, err
}

// Write writes b, and counts the write.
func (c *conn) Write(b []byte) (int, error) {
	number := c.writes.begin()
	n, err := c.Conn.Write(b)
	c.streams.wrote(b[:n])
	if err == nil {
		c.writes.end(number)
	}
	return n, err
}

// Close closes the connection and makes room for a new connection.
func (c *conn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// state returns the state of TLS, nil without TLS.
func (c *conn) state() *tls.ConnectionState {
	secured, is := c.Conn.(*tlsConn)
	if !is {
		return nil
	}
	state := secured.ConnectionState()
	return &state
}

// CloseWrite tells the client that no more comes. net/http calls it before it closes a connection that the client may
// still write to.
func (c *conn) CloseWrite() error {
	if half, is := c.Conn.(interface{ CloseWrite() error }); is {
		return half.CloseWrite()
	}
	return nil
}

// ResetOnClose makes the close of the request's connection drop the bytes that the client has not taken. Use it for a
// client that does not read. Without it, the kernel offers these bytes for minutes, and meanwhile the client may not
// learn that the connection is closed. It does nothing on HTTP/2, where other requests share the connection.
func ResetOnClose(r *http.Request) {
	if c := connOf(r); c != nil && r.ProtoMajor == 1 {
		_ = c.tcp.SetLinger(0) // fails only on a broken connection
	}
}
