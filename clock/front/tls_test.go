package front

import (
	"net"
	"testing"
	"time"
)

// unread returns the server's end of a connection whose client reads nothing.
func unread(t *testing.T) *net.TCPConn {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := l.AcceptTCP()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close(); _ = server.Close() })
	return server
}

// more than the kernel takes for a client that does not read.
var more = make([]byte, 64<<20)

func TestWritesOfTLSWithoutADeadlineEnd(t *testing.T) {
	t.Parallel()
	server := unread(t)
	c := &boundedConn{TCPConn: server, longest: 10 * time.Millisecond}
	if _, err := c.Write(more); err == nil {
		t.Error("the client has taken all")
	}
	c.longest = time.Hour
	if err := c.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(more); err == nil {
		t.Error("the client has taken all before the deadline")
	}
}

// A read of TLS may write, and holds a lock meanwhile that the goodbye needs.
func TestCloseOfTLSEndsAWriteThatWaits(t *testing.T) {
	t.Parallel()
	server := unread(t)
	c := &boundedConn{TCPConn: server, longest: time.Hour}
	ended := make(chan error)
	go func() {
		_, err := c.Write(more)
		ended <- err
	}()
	c.close()
	if err := <-ended; err == nil {
		t.Error("the client has taken all")
	}
	if err := c.SetWriteDeadline(time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write(more); err == nil {
		t.Error("a closing connection has another deadline")
	}
}

func TestLettersBeginARequestOfHTTP(t *testing.T) {
	t.Parallel()
	for begin, want := range map[string]bool{"GET /": true, "CONNE": true, "PRI *": true, "\x16\x03\x01\x02\x00": false} {
		if got := startsHTTP([5]byte([]byte(begin))); got != want {
			t.Errorf("%q: %v", begin, got)
		}
	}
}
