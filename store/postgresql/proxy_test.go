package postgresql

import (
	"bytes"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
)

// proxy forwards connections between a store and its server. It counts round trips, cuts connections, keeps back cancel
// requests and changes settings.
type proxy struct {
	url string

	mu     sync.Mutex
	trips  int
	cutAt  []byte // bytes from the client that trigger the cut; nil: no cut
	passOn bool   // whether the server still receives those bytes

	keepsCancels  bool // whether requests to cancel a statement never reach the server
	stallsCancels bool // whether they wait in the proxy, without a reply
	localizes     bool // whether each set_config lasts only for its transaction
}

// cancelRequest is how a connection begins that cancels a statement: its length and its code.
var cancelRequest = []byte{0, 0, 0, 16, 4, 210, 22, 46}

// newProxy returns a proxy to the server of a database URL.
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
	clientSpokeLast, cut := false, false // guarded by mu
	both.Go(func() {
		defer func() { _ = client.Close() }()
		p.copy(client, server, func([]byte) (last, forward bool) {
			clientSpokeLast = false
			return cut, !cut // the reply to the bytes that triggered the cut never arrives
		})
	})
	p.copy(server, client, func(said []byte) (last, forward bool) {
		if (p.keepsCancels || p.stallsCancels) && bytes.HasPrefix(said, cancelRequest) {
			return !p.stallsCancels, false
		}
		if p.localizes {
			copy(said, bytes.ReplaceAll(said, []byte(", false)"), []byte(", true )")))
		}
		if !clientSpokeLast && !bytes.Contains(said, ping) {
			p.trips++
		}
		clientSpokeLast = true
		cut = p.cutAt != nil && bytes.Contains(said, p.cutAt)
		return cut, !cut || p.passOn
	})
	p.mu.Lock()
	awaitsReply := cut && p.passOn
	p.mu.Unlock()
	if awaitsReply {
		both.Wait() // when the server replies, it has done what the bytes demand
	}
	_ = client.Close()
	_ = server.Close()
	both.Wait()
}

// copy forwards bytes until the end of src. It calls decide under the lock: last ends the copying, forward says whether
// these bytes are forwarded.
func (p *proxy) copy(dst io.Writer, src io.Reader, decide func([]byte) (last, forward bool)) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := src.Read(buffer)
		if n > 0 {
			p.mu.Lock()
			last, forward := decide(buffer[:n])
			p.mu.Unlock()
			if forward {
				_, _ = dst.Write(buffer[:n])
			}
			if last {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// ping is what the pool asks a connection that was idle for more than a second, as happens on a machine under load.
var ping = []byte("-- ping\x00")

// count returns how many round trips do takes, without pings.
func (p *proxy) count(do func()) int {
	p.mu.Lock()
	p.trips = 0
	p.mu.Unlock()
	do()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.trips
}
