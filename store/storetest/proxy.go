package storetest

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"testing"
)

// Proxy is a proxy between a store and its server. A stalled proxy passes nothing on in either direction, reads nothing
// and closes nothing. To the server, its client is a stopped process or a vanished host. A proxy that cuts closes all
// connections. To the server, its client is a killed process.
type Proxy struct {
	address     string
	server      string
	done        chan struct{} // closed when all connections are cut
	cutAndWait  func()        // cuts all connections and waits for their end
	cutAll      func()
	stalled     chan struct{}
	connections sync.WaitGroup

	mu               sync.Mutex
	stalling         bool
	stallTexts       []string // lower-case texts of the client that start the stall
	bytesAfterText   int
	textSeen         bool // the client has sent a text of stallTexts
	serverBytesLeft  int  // bytes of the server to pass on before the stall; -1: no limit
	clientWritesLeft int  // writes of the client to pass on before the cut; -1: no limit
	cut              bool
}

// NewProxy returns a Proxy for the server at the address. It is closed when the test ends.
func NewProxy(tb testing.TB, server string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ok(tb, err, "listen")
	p := &Proxy{address: listener.Addr().String(), server: server, done: make(chan struct{}),
		stalled: make(chan struct{}), serverBytesLeft: -1, clientWritesLeft: -1}
	p.connections.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			p.connections.Go(func() { p.serve(client) })
		}
	})
	p.cutAll = sync.OnceFunc(func() {
		_ = listener.Close()
		close(p.done)
	})
	p.cutAndWait = func() {
		p.cutAll()
		p.connections.Wait()
	}
	tb.Cleanup(p.cutAndWait)
	return p
}

// Close cuts all connections. The end of the test does so too.
func (p *Proxy) Close() { p.cutAndWait() }

// Address returns the address for the store to connect to.
func (p *Proxy) Address() string { return p.address }

// Stalled returns a channel that is closed when the proxy stalls.
func (p *Proxy) Stalled() <-chan struct{} { return p.stalled }

// Stall stalls at once.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.startStall()
}

// StallAt stalls when the client sends any of the texts, which must be lower-case. The case of the data does not
// matter. It then passes on the first after bytes, counted from the beginning of the data that contains the text.
func (p *Proxy) StallAt(after int, texts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stallTexts, p.bytesAfterText = texts, after
}

// StallResult stalls when the server has sent that many more bytes.
func (p *Proxy) StallResult(after int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serverBytesLeft = after
}

// CutAfter cuts when the client has written that many more times, once the server has the last write. A client that
// waits for each result writes one statement at a time.
func (p *Proxy) CutAfter(writes int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clientWritesLeft = writes
}

// Cut reports whether the proxy has cut.
func (p *Proxy) Cut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}

func (p *Proxy) startStall() {
	if !p.stalling {
		p.stalling = true
		close(p.stalled)
	}
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		_ = client.Close()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { p.copy(client, server, p.serverBytesToPass) })
	both.Go(func() { p.copy(server, client, p.clientBytesToPass) })
	both.Wait()
}

// copy passes on as many bytes as passable returns. When one end closes, copy closes the other end too. A stalled proxy
// closes its connections only when it is closed itself.
func (p *Proxy) copy(dst, src net.Conn, passable func(data []byte) int) {
	defer func() {
		if p.isStalled() {
			<-p.done
		}
		_, _ = dst.Close(), src.Close()
	}()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // Close must not wait for an idle connection
		select {
		case <-p.done:
			_, _ = dst.Close(), src.Close()
		case <-stop:
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := src.Read(buffer)
		passed := passable(buffer[:n])
		if passed > 0 {
			if _, err := dst.Write(buffer[:passed]); err != nil {
				return
			}
		}
		if p.Cut() {
			p.cutAll()
			return
		}
		if err != nil || passed < n || p.isStalled() {
			return
		}
	}
}

func (p *Proxy) isStalled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalling
}

// clientBytesToPass returns how many bytes of the client's data to pass on.
func (p *Proxy) clientBytesToPass(data []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stalling || p.cut:
		return 0
	case p.clientWritesLeft > 0 && len(data) > 0:
		p.clientWritesLeft--
		p.cut = p.clientWritesLeft == 0
		return len(data)
	case !p.textSeen && !p.containsStallText(data):
		return len(data)
	}
	p.textSeen = true
	if p.bytesAfterText > len(data) {
		p.bytesAfterText -= len(data)
		return len(data)
	}
	p.startStall()
	return p.bytesAfterText
}

func (p *Proxy) containsStallText(data []byte) bool {
	data = bytes.ToLower(data)
	return slices.ContainsFunc(p.stallTexts, func(text string) bool { return bytes.Contains(data, []byte(text)) })
}

// serverBytesToPass returns how many bytes of the server's data to pass on.
func (p *Proxy) serverBytesToPass(data []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stalling:
		return 0
	case p.serverBytesLeft < 0 || len(data) < p.serverBytesLeft:
		if p.serverBytesLeft > 0 {
			p.serverBytesLeft -= len(data)
		}
		return len(data)
	}
	n := p.serverBytesLeft
	p.startStall()
	return n
}
