//go:build unix

package rabbit

import (
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/clockd/clockd/ring"
)

// A process is stopped while its write waits for buffer space, and continues after the limit, when there is space. It must not write another
// byte.
func TestStoppedProcessDoesNotWriteLate(t *testing.T) {
	if addr := os.Getenv("TEST_WRITE_TO"); addr != "" {
		writeWithLimit(t, addr)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	child := exec.Command(os.Args[0], "-test.run=^TestStoppedProcessDoesNotWriteLate$", "-test.v")
	child.Env = append(os.Environ(), "TEST_WRITE_TO="+listener.Addr().String())
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // the limit of the child has begun
		t.Fatal(err)
	}
	<-time.After(300 * time.Millisecond) // the child writes until the buffers are full, and waits
	if err := child.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	written := drainFor(t, conn, lateLimit) // past the limit
	if err := child.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	late, _ := io.Copy(io.Discard, conn)
	said, _ := io.ReadAll(out)
	_ = child.Wait()
	if written == 0 || late > 0 {
		t.Errorf("%d bytes before the limit, %d after it; output of the process: %s", written, late, said)
	}
}

// lateLimit is longer than a busy machine takes to fill the buffers.
const lateLimit = 1500 * time.Millisecond

func writeWithLimit(t *testing.T, addr string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(conn, time.Minute, 0)
	w.beginDelivery(ring.Limits{WriteBy: time.Now().Add(lateLimit)})
	_, err = w.Write(make([]byte, 256<<20))
	t.Logf("%d bytes, %v", w.sent(), err)
}

// drainFor reads until d has passed, and returns the number of bytes.
func drainFor(t *testing.T, conn net.Conn, d time.Duration) (n int64) {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(d))
	n, err := io.Copy(io.Discard, conn)
	if err == nil {
		t.Fatal("the other end closed the connection")
	}
	return n
}
