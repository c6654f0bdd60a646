package clockhttp

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// limitedListener limits the open connections, in total and by remote host. It refuses further connections at once
// instead of letting them wait. A refused probe tells more than a waiting probe, and only an accepted connection has a
// known address.
type limitedListener struct {
	*net.TCPListener
	maxOpen    int // most open connections
	maxPerHost int // most open connections of one remote host; 0: no limit
	refused    prometheus.Counter
	unserved   atomic.Int64  // see streamWatch
	headTime   time.Duration // longest time for a request's head

	mu         sync.Mutex
	open       int
	openByHost map[netip.Addr]int
}

// refusal is the response to a refused connection. A client sees it only if it reads before it notices the close.
const refusal = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"

// refusalTimeout is the longest time to write a refusal. A new connection takes these few bytes at once.
const refusalTimeout = 100 * time.Millisecond

func newLimitedListener(l *net.TCPListener, cfg Config, refused prometheus.Counter) *limitedListener {
	return &limitedListener{TCPListener: l, maxOpen: cfg.Connections, maxPerHost: cfg.ConnectionsPerAddress,
		refused: refused, headTime: cfg.ReadHeaderTimeout, openByHost: map[netip.Addr]int{}}
}

// Accept returns the next connection within the limits. It refuses all connections over a limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		address := remoteHost(conn)
		if l.admit(address) {
			c := &limitedConn{TCPConn: conn, streams: newStreamWatch(&l.unserved, l.headTime)}
			c.leave = sync.OnceFunc(func() { c.streams.close(); l.leave(address) })
			return c, nil
		}
		l.refused.Inc()
		_ = conn.SetWriteDeadline(time.Now().Add(refusalTimeout))
		_, err = conn.Write([]byte(refusal))
		_ = errors.Join(err, conn.Close())
	}
}

func (l *limitedListener) admit(address netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open >= l.maxOpen || l.maxPerHost > 0 && l.openByHost[address] >= l.maxPerHost {
		return false
	}
	l.open++
	l.openByHost[address]++
	return true
}

func (l *limitedListener) leave(address netip.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open--
	if l.openByHost[address]--; l.openByHost[address] == 0 {
		delete(l.openByHost, address)
	}
}

// remoteHost returns the address that stands for the connection's remote host.
func remoteHost(conn *net.TCPConn) netip.Addr {
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
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

// limitedConn is a connection that counts against the limits until it is closed.
type limitedConn struct {
	*net.TCPConn
	leave   func()
	writes  writeCount
	streams *streamWatch
}

// Read reads into b once streams allows it.
func (c *limitedConn) Read(b []byte) (int, error) {
	if err := c.streams.awaitTurn(); err != nil {
		return 0, err
	}
	n, err := c.TCPConn.Read(b)
	c.streams.read(b[:n])
	return n, err
}

// Write writes b, and counts the write.
func (c *limitedConn) Write(b []byte) (int, error) {
	number := c.writes.begin()
	n, err := c.TCPConn.Write(b)
	c.streams.wrote(b[:n])
	if err == nil {
		c.writes.end(number)
	}
	return n, err
}

// Close closes the connection and makes room for a new connection.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.TCPConn.Close()
}
