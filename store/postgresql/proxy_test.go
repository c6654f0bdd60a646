package postgresql

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"
)

// proxy stands between a store and its server; it counts round trips and cuts connections.
type proxy struct {
	url string

	mu     sync.Mutex
	trips  int
	cutAt  []byte // what the client must say for its connection to be cut
	passOn bool   // whether the server still gets that
}

// newProxy returns a proxy before the server of a database.
func newProxy(t *testing.T, database string) *proxy {
	t.Helper()
	u, err := url.Parse(database)
	ok(t, err, "parse the URL")
	server := u.Host
	front, err := net.Listen("tcp", "127.0.0.1:0")
	ok(t, err, "listen")
	u.Host = front.Addr().String()
	p := &proxy{url: u.String()}
	var connections sync.WaitGroup
	t.Cleanup(func() {
		_ = front.Close()
		connections.Wait()
	})
	connections.Go(func() {
		for {
			client, err := front.Accept()
			if err != nil {
				return
			}
			connections.Go(func() { p.serve(client, server) })
		}
	})
	return p
}

func (p *proxy) serve(client net.Conn, address string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	var both sync.WaitGroup
	asked := false // the client spoke last
	both.Go(func() {
		defer func() { _ = client.Close() }()
		p.copy(client, server, func([]byte) bool {
			asked = false
			return false
		})
	})
	p.copy(server, client, func(said []byte) bool {
		if !asked {
			p.trips++
		}
		asked = true
		return p.cutAt != nil && bytes.Contains(said, p.cutAt)
	})
	_ = client.Close()
	if p.passOn {
		time.Sleep(50 * time.Millisecond) // the server must have read it before it sees the end
	}
	_ = server.Close()
	both.Wait()
}

// copy passes on until the end, or until look, under the lock, says to cut.
func (p *proxy) copy(to io.Writer, from io.Reader, look func([]byte) bool) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			p.mu.Lock()
			cut := look(buffer[:n])
			p.mu.Unlock()
			if !cut || p.passOn {
				_, _ = to.Write(buffer[:n])
			}
			if cut {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// count returns how many round trips do takes.
func (p *proxy) count(do func()) int {
	p.mu.Lock()
	p.trips = 0
	p.mu.Unlock()
	do()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips
}
