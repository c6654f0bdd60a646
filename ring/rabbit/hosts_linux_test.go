package rabbit

import (
	"net"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// fullHost returns the address of a listener whose backlog is full. The operating system drops further attempts to
// connect.
func fullHost(tb testing.TB) string {
	tb.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		tb.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		tb.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		tb.Fatal(err)
	}
	address := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*syscall.SockaddrInet4).Port}).String()
	for { // until an attempt stays without a reply
		conn, err := net.DialTimeout("tcp", address, 500*time.Millisecond)
		if err != nil {
			return address
		}
		tb.Cleanup(func() { _ = conn.Close() })
	}
}

// The first host does not reply to the TCP connect. One dial reaches the next host too.
func TestHostThatIsCutOffLeavesTimeForTheNext(t *testing.T) {
	t.Parallel()
	b := rabbittest.Shared(t)
	second := rabbittest.HostOf(t, b.URL)
	cfg := configOf(b)
	cfg.URL = rabbittest.WithHosts(t, b.URL, fullHost(t), second)
	cfg.DialTimeout = 5 * time.Second
	s, err := New(cfg, Deps{})
	if err != nil {
		t.Fatal(err)
	}
	var watchers sync.WaitGroup
	l, err := s.broker.Dial(t.Context(), roleControl, wire.Plain, &watchers)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	watchers.Wait()
	if l.Host().Name() != second {
		t.Errorf("the connection leads to %s, want %s", l.Host().Name(), second)
	}
}
