package ring

import (
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// tcpPair returns both ends of a TCP connection. They are closed at the end of the test.
func tcpPair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if near, err = net.Dial("tcp", listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close() })
	if far, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { far.Close() })
	return near, far
}

// partialConn is a connection that is no TCP connection. It notes the sizes of its writes, and takes at most a number
// of bytes of all writes.
type partialConn struct {
	net.Conn

	takes  int
	writes []int
}

var errFull = errors.New("the connection is full")

func (c *partialConn) Write(p []byte) (int, error) {
	c.writes = append(c.writes, len(p))
	n := min(len(p), c.takes)
	if c.takes -= n; n < len(p) {
		return n, errFull
	}
	return n, nil
}

// A process may be stopped after any look at the clock. So the last look that allows a write lets one piece go, not all
// that the socket has room for.
func TestOneLookWritesAtMostOnePiece(t *testing.T) {
	const piece = 64 << 10 // as the package documentation promises
	refused := errors.New("too late")
	for name, looks := range map[string]int{"no look": 0, "one look": 1, "three looks": 3} {
		t.Run(name, func(t *testing.T) {
			near, _ := tcpPair(t)
			_ = near.(*net.TCPConn).SetWriteBuffer(8 << 20) // one write would take several pieces
			_ = near.SetWriteDeadline(time.Now().Add(10 * time.Second))
			conns := map[string]net.Conn{"TCP": near, "another connection": &partialConn{takes: 8 << 20}}
			for kind, conn := range conns {
				asked := 0
				n, err := WriteWhile(conn, make([]byte, 8<<20), func() error {
					if asked++; asked > looks {
						return refused
					}
					return nil
				})
				if !errors.Is(err, refused) || n > looks*piece || (n == 0) != (looks == 0) {
					t.Errorf("%s: %d bytes after %d looks, %v", kind, n, looks, err)
				}
			}
		})
	}
}

func TestWriteWhileWritesAllPieces(t *testing.T) {
	near, far := tcpPair(t)
	sent := make([]byte, 5*WritePiece+7)
	for i := range sent {
		sent[i] = byte(i / 1000)
	}
	got := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(far) // the wrong bytes fail the test
		got <- b
	}()
	looks := 0
	n, err := WriteWhile(near, sent, func() error { looks++; return nil })
	if n != len(sent) || err != nil || looks < 6 {
		t.Errorf("%d of %d bytes, %d looks, %v", n, len(sent), looks, err)
	}
	_ = near.Close()
	if !slices.Equal(<-got, sent) {
		t.Error("the far end has other bytes")
	}
}

func TestWriteWhileCountsTheBytesBeforeAnError(t *testing.T) {
	may := func() error { return nil }
	c := &partialConn{takes: WritePiece + 5}
	if n, err := WriteWhile(c, make([]byte, 3*WritePiece), may); n != WritePiece+5 || !errors.Is(err, errFull) ||
		!slices.Equal(c.writes, []int{WritePiece, WritePiece}) {
		t.Errorf("%d bytes in writes of %v, %v", n, c.writes, err)
	}
	near, far := tcpPair(t)
	more := make([]byte, 64<<20)
	_ = near.SetWriteDeadline(time.Now().Add(time.Second))
	n, err := WriteWhile(near, more, may)
	var timeout net.Error
	if !errors.As(err, &timeout) || !timeout.Timeout() || n == 0 || n == 64<<20 {
		t.Errorf("%d bytes by the deadline, %v", n, err)
	}
	_ = near.Close()
	if got, err := io.Copy(io.Discard, far); got != int64(n) || err != nil {
		t.Errorf("the far end has %d bytes, want %d, %v", got, n, err)
	}
}
