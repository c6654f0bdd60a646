//go:build linux

package clockhttp

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/clockd/clockd/clock"
)

// vanish makes the kernel drop every packet for the connection, as if its host had lost power. The kernel then
// acknowledges nothing and sends no reset.
func vanish(t *testing.T, conn net.Conn) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	dropAll := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: 0}}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER,
			&unix.SockFprog{Len: 1, Filter: &dropAll[0]})
	})
	if err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}

// TestVanishedSubscriberIsFound has two subscribers whose hosts lose power: the first is idle, the second just gets a
// ring.
func TestVanishedSubscriberIsFound(t *testing.T) {
	t.Parallel()
	for name, rings := range map[string]int{"idle": 0, "while a ring is sent": 1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			source := newFakeStreams()
			h := start(t, withStreams(source))
			conn := h.dial()
			if _, err := conn.Write([]byte("GET /v1/applications/shop/rings HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
				t.Fatal(line, err)
			}
			vanish(t, conn)
			for range rings {
				source.deliveries <- clock.Delivery{Rings: []clock.Ring{testRing(clock.Text, "x")},
					Done: func(int, int, error) {}}
			}
			begun := time.Now()
			select {
			case <-source.closed:
				t.Logf("noticed after %s", time.Since(begun).Round(100*time.Millisecond))
			case <-time.After(3 * time.Minute): // the kernel's own limit is 15 minutes
				t.Error("the server did not notice the vanished subscriber")
			}
		})
	}
}

func TestRingsRequestWithABodyIsRefused(t *testing.T) {
	t.Parallel()
	h := start(t, withStreams(newFakeStreams()))
	conn := h.dial()
	if _, err := conn.Write([]byte("GET /v1/applications/shop/rings HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, "400") {
		t.Errorf("first line %q, %v", line, err)
	}
}
