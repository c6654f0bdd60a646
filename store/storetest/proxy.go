package storetest

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"testing"
)

// Proxy stands between a store and its server. Once it stalls it passes nothing on in either direction, reads nothing and
// closes nothing: to the server, its client is a process that was stopped, or a host that vanished.
type Proxy struct {
	address string
	server  string
	done    chan struct{} // it was closed
	close   func()
	stalled chan struct{}
	ends    sync.WaitGroup

	mu      sync.Mutex
	stall   bool
	texts   []string // of the client, in lower case: one of them is held back, but for the first bytes from there
	after   int
	told    bool // one of texts was said
	answers int  // bytes of the server that are still passed on; -1: all
}

// NewProxy returns a Proxy before a server's address.
func NewProxy(tb testing.TB, server string) *Proxy {
	tb.Helper()
	front, err := net.Listen("tcp", "127.0.0.1:0")
	ok(tb, err, "listen")
	p := &Proxy{address: front.Addr().String(), server: server, done: make(chan struct{}), stalled: make(chan struct{}), answers: -1}
	p.ends.Go(func() {
		for {
			client, err := front.Accept()
			if err != nil {
				return
			}
			p.ends.Go(func() { p.serve(client) })
		}
	})
	p.close = sync.OnceFunc(func() {
		_ = front.Close()
		close(p.done)
		p.ends.Wait()
	})
	tb.Cleanup(p.close)
	return p
}

// Close cuts all connections; the end of the test does too.
func (p *Proxy) Close() { p.close() }

// Address is where the store is to connect to.
func (p *Proxy) Address() string { return p.address }

// Stalled is closed when the proxy stalls.
func (p *Proxy) Stalled() <-chan struct{} { return p.stalled }

// Stall stalls now.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stop()
}

// StallAt stalls when the client says one of the texts (in any case), after so many bytes more; 0: before what holds the text.
func (p *Proxy) StallAt(after int, texts ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.texts, p.after = texts, after
}

// StallAnswer stalls when the server has said so many bytes more.
func (p *Proxy) StallAnswer(after int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = after
}

func (p *Proxy) stop() {
	if !p.stall {
		p.stall = true
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
	both.Go(func() { p.copy(client, server, p.answered) })
	both.Go(func() { p.copy(server, client, p.asked) })
	both.Wait()
}

// copy passes on what may be, and closes both ends when one is closed; of a stalled proxy only when that is closed.
func (p *Proxy) copy(to, from net.Conn, pass func(said []byte) int) {
	defer func() {
		if p.isStalled() {
			<-p.done
		}
		_, _ = to.Close(), from.Close()
	}()
	stop := make(chan struct{})
	defer close(stop)
	go func() { // so that Close does not wait for a silent connection
		select {
		case <-p.done:
			_, _ = to.Close(), from.Close()
		case <-stop:
		}
	}()
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		passed := pass(buffer[:n])
		if passed > 0 {
			if _, err := to.Write(buffer[:passed]); err != nil {
				return
			}
		}
		if err != nil || passed < n || p.isStalled() {
			return
		}
	}
}

func (p *Proxy) isStalled() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stall
}

// asked returns how much of what the client says is passed on.
func (p *Proxy) asked(said []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stall:
		return 0
	case !p.told && !p.tells(said):
		return len(said)
	}
	p.told = true
	if p.after > len(said) {
		p.after -= len(said)
		return len(said)
	}
	p.stop()
	return p.after
}

func (p *Proxy) tells(said []byte) bool {
	said = bytes.ToLower(said)
	return slices.ContainsFunc(p.texts, func(text string) bool { return bytes.Contains(said, []byte(text)) })
}

// answered returns how much of what the server says is passed on.
func (p *Proxy) answered(said []byte) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stall:
		return 0
	case p.answers < 0 || len(said) < p.answers:
		if p.answers > 0 {
			p.answers -= len(said)
		}
		return len(said)
	}
	n := p.answers
	p.stop()
	return n
}
