package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// countingProxy is a proxy between the service and a server. It counts statements, round trips, transactions and
// frames. It forwards bytes that it cannot parse unchanged, without counting them.
type countingProxy struct {
	target   string
	listener net.Listener
	protocol protocol
	counts   proxyCounts
	slowdown *slowdown // of what the server sends; nil: none
	wait     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// proxyCounts holds the counts so far.
type proxyCounts struct {
	statements   atomic.Int64
	roundTrips   atomic.Int64
	transactions atomic.Int64
	toServer     traffic
	fromServer   traffic
}

// traffic counts one direction.
type traffic struct {
	bytes  atomic.Int64
	frames [frameTypes]atomic.Int64 // by frame type; AMQP only
}

// protocol returns the framers of one connection: they cut the bytes of each side into frames and count them.
type protocol func(counts *proxyCounts) (toServer, fromServer *framer)

// newCountingProxy returns a proxy that listens for the service and connects it to target, a host:port.
func newCountingProxy(ctx context.Context, target string, p protocol, slow *slowdown) (*countingProxy, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen to count: %w", err)
	}
	w := &countingProxy{target: target, listener: listener, protocol: p, slowdown: slow, conns: map[net.Conn]struct{}{}}
	w.wait.Go(func() { w.accept(context.WithoutCancel(ctx)) })
	return w, nil
}

// address returns the address to which the service connects.
func (w *countingProxy) address() string { return w.listener.Addr().String() }

// close closes the listener and all open connections.
func (w *countingProxy) close() error {
	w.mu.Lock()
	w.closed = true
	for conn := range w.conns {
		_ = conn.Close()
	}
	w.mu.Unlock()
	err := w.listener.Close()
	w.wait.Wait()
	return err
}

func (w *countingProxy) accept(ctx context.Context) {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				continue // the error concerns one connection
			}
			return
		}
		w.wait.Go(func() { w.relay(ctx, conn) })
	}
}

// relay connects one client to the server, until either side ends.
func (w *countingProxy) relay(ctx context.Context, client net.Conn) {
	defer w.untrack(client)
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(ctx, "tcp", w.target)
	if err != nil {
		return // the service sees the end of its connection
	}
	defer w.untrack(server)
	if !w.track(client, server) {
		return
	}
	toServer, fromServer := w.protocol(&w.counts)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w.wait.Go(func() {
		if w.slowdown != nil {
			w.slowdown.forward(ctx, client, server, fromServer, &w.counts.fromServer)
		} else {
			forward(client, server, fromServer, &w.counts.fromServer)
		}
		_ = client.Close()
	})
	forward(server, client, toServer, &w.counts.toServer)
}

// track registers connections, so that close can close them. It returns false if the proxy is already closed.
func (w *countingProxy) track(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false
	}
	for _, conn := range conns {
		w.conns[conn] = struct{}{}
	}
	return true
}

func (w *countingProxy) untrack(conn net.Conn) {
	_ = conn.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, conn)
}

// proxyBuffer is the largest number of bytes that are forwarded at once.
const proxyBuffer = 64 << 10

// forward copies bytes until either side fails. It counts bytes before it forwards them, so that they are counted
// before the reply.
func forward(to io.Writer, from net.Conn, c *framer, p *traffic) {
	buffer := make([]byte, proxyBuffer)
	for {
		n, err := from.Read(buffer)
		p.bytes.Add(int64(n))
		c.take(buffer[:n])
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// framer cuts the bytes of one side into frames. The bytes may come in any pieces.
type framer struct {
	// frame parses the head of a frame. It returns how many more bytes of the head it needs, or 0 and the number of
	// remaining bytes of the frame.
	frame func(head []byte) (lacks, rest int)
	least int // length of the shortest head, in bytes

	head  []byte // head of the current frame so far
	lacks int    // bytes of the head still to come
	rest  int    // bytes of the frame still to come after its head
}

func newFramer(least int, frame func(head []byte) (lacks, rest int)) *framer {
	return &framer{frame: frame, least: least, lacks: least}
}

// take parses the next bytes.
func (c *framer) take(p []byte) {
	for len(p) > 0 {
		if c.rest > 0 {
			n := min(c.rest, len(p))
			c.rest -= n
			p = p[n:]
			continue
		}
		n := min(c.lacks, len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
		if c.lacks -= n; c.lacks > 0 {
			return
		}
		if c.lacks, c.rest = c.frame(c.head); c.lacks == 0 {
			c.head, c.lacks = c.head[:0], c.least
		}
	}
}
