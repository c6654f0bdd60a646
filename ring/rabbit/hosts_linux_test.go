package rabbit

import (
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
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
	_, host := dialledHost(t, cfg)
	if host != second {
		t.Errorf("the connection leads to %s, want %s", host, second)
	}
}
