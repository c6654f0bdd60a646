package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
)

// wire is a proxy between the service and one of its servers that counts what passes. It forwards what it cannot read as
// it came, and counts nothing of it.
type wire struct {
	target   string
	listener net.Listener
	protocol protocol
	counts   wireCounts
	wait     sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[net.Conn]struct{}
}

// wireCounts is what has passed so far.
type wireCounts struct {
	statements   atomic.Int64
	roundTrips   atomic.Int64
	transactions atomic.Int64
	toServer     passed
	fromServer   passed
}

// passed is what went one way.
type passed struct {
	bytes  atomic.Int64
	frames [frameTypes]atomic.Int64 // AMQP alone
}

// protocol reads one connection: what each side sends is cut into frames.
type protocol func(counts *wireCounts) (toServer, fromServer *cutter)

// newWire listens for the service, and connects it to target, host:port.
func newWire(ctx context.Context, target string, p protocol) (*wire, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen to count: %w", err)
	}
	w := &wire{target: target, listener: listener, protocol: p, conns: map[net.Conn]struct{}{}}
	w.wait.Go(func() { w.accept(context.WithoutCancel(ctx)) })
	return w, nil
}

// address is where the service finds its server.
func (w *wire) address() string { return w.listener.Addr().String() }

// close cuts what is still connected.
func (w *wire) close() error {
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

func (w *wire) accept(ctx context.Context) {
	for {
		conn, err := w.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				continue // of the one connection
			}
			return
		}
		w.wait.Go(func() { w.join(ctx, conn) })
	}
}

// join connects one connection through, until either side ends.
func (w *wire) join(ctx context.Context, client net.Conn) {
	defer w.drop(client)
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.DialContext(ctx, "tcp", w.target)
	if err != nil {
		return // the service sees its connection end
	}
	defer w.drop(server)
	if !w.keep(client, server) {
		return
	}
	toServer, fromServer := w.protocol(&w.counts)
	w.wait.Go(func() {
		forward(client, server, fromServer, &w.counts.fromServer)
		_ = client.Close()
	})
	forward(server, client, toServer, &w.counts.toServer)
}

// keep notes connections to be cut by close, unless that has been.
func (w *wire) keep(conns ...net.Conn) bool {
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

func (w *wire) drop(conn net.Conn) {
	_ = conn.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, conn)
}

// wireBuffer is as much as is forwarded at once.
const wireBuffer = 64 << 10

// forward copies until either end is closed. What passes is counted before it is there: an answer to it comes later.
func forward(to, from net.Conn, c *cutter, p *passed) {
	buffer := make([]byte, wireBuffer)
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

// cutter cuts what one side sends into frames, in whatever pieces it comes.
type cutter struct {
	// frame reads the head of a frame. It returns how many bytes more of it it must see, or 0 and how many of the frame follow.
	frame func(head []byte) (lacks, rest int)
	least int // bytes of the shortest head

	head  []byte // of the frame under way
	lacks int    // bytes of it that are still to come
	rest  int    // bytes of the frame that are still to pass
}

func newCutter(least int, frame func(head []byte) (lacks, rest int)) *cutter {
	return &cutter{frame: frame, least: least, lacks: least}
}

// take reads what comes next.
func (c *cutter) take(p []byte) {
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
