package targettest

import (
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// Gateway is one server with many addresses. All receivers use it.
type Gateway struct {
	hanging atomic.Bool // requests of Hang get no reply
	port    string
}

// Serve starts the server, which ends with the test.
func (g *Gateway) Serve(t *testing.T, server *http.Server) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	_, g.port, _ = net.SplitHostPort(listener.Addr().String())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-ended
	})
}

// URL returns the address of a host of the gateway.
func (g *Gateway) URL(host int) string { return fmt.Sprintf("http://127.0.0.%d:%s", 1+host, g.port) }

// StartHanging makes Hang wait from now on.
func (g *Gateway) StartHanging() { g.hanging.Store(true) }

// Hang is called with each request to a receiver that may hang. Once receivers hang, Hang returns when the client has
// left.
func (g *Gateway) Hang(r *http.Request) {
	if g.hanging.Load() {
		<-r.Context().Done()
	}
}
