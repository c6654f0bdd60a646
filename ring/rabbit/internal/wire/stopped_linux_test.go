package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/clockd/clockd/ring"
)

// Places at which the child of TestStoppedProcessDoesNotWriteLate is stopped.
const (
	inTheWait     = "in the wait" // waits for space in the socket's buffer
	afterTheClock = "after the clock"
)

// maxLate is the most bytes that a connection may write late, as the documentation of package ring promises.
const maxLate = 64 << 10

// childLimit is the write limit of the child, from its first byte on. It is longer than a busy machine takes to stop
// the child.
const childLimit = 2 * time.Second

// A process is stopped in a write, and continues after the limit, when there is space. It writes at most one piece
// more, and only if it was stopped between its look at the clock and the system call.
func TestStoppedProcessDoesNotWriteLate(t *testing.T) {
	t.Parallel()
	if addr := os.Getenv("TEST_WRITE_TO"); addr != "" {
		writeWithLimit(t, addr, os.Getenv("TEST_STOP"))
		return
	}
	for _, place := range []string{inTheWait, afterTheClock} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			c := startChild(t, place)
			switch place {
			case inTheWait:
				c.awaitLine("waits")
				c.signal(syscall.SIGSTOP)
			case afterTheClock:
				c.awaitLine("stops")
			}
			c.awaitStopped()
			written := c.drainPast(time.Now().Add(childLimit)) // the child's limit began before now
			c.signal(syscall.SIGCONT)
			_ = c.conn.SetReadDeadline(time.Now().Add(hangLimit))
			late, _ := io.Copy(io.Discard, c.conn) // ends with the child's reset
			rest, _ := io.ReadAll(c.out)
			t.Logf("%d bytes before the limit, %d after it", written, late)
			if err := c.cmd.Wait(); err != nil {
				t.Errorf("the child: %v; its output: %s", err, rest)
			}
			if late > maxLate {
				t.Errorf("%d bytes before the limit, %d after it; want at most %d", written, late, maxLate)
			}
			if place == inTheWait && written == 0 || place == afterTheClock && late == 0 {
				t.Errorf("the child was not stopped %s", place)
			}
		})
	}
}

// child is a process that writes with a limit.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  *bufio.Reader
	conn net.Conn // far end of its connection
}

func startChild(t *testing.T, place string) *child {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	c := &child{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestStoppedProcessDoesNotWriteLate$")}
	c.cmd.Env = append(os.Environ(), "TEST_WRITE_TO="+listener.Addr().String(), "TEST_STOP="+place)
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill() // an error means that it has ended
		_ = c.cmd.Wait()
	})
	_ = listener.(*net.TCPListener).SetDeadline(farDeadline())
	if c.conn, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.conn.Close() })
	return c
}

// awaitLine waits until the child has written the line to its output.
func (c *child) awaitLine(want string) {
	c.t.Helper()
	for {
		switch line, err := c.out.ReadString('\n'); {
		case err != nil:
			c.t.Fatalf("the child ended before it wrote %q: %v", want, err)
		case strings.TrimSpace(line) == want:
			return
		}
	}
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// awaitStopped waits until every thread of the child is stopped. A thread may run on for a while after the signal was
// sent.
func (c *child) awaitStopped() {
	c.t.Helper()
	for begun := time.Now(); !c.isStopped(); time.Sleep(time.Millisecond) {
		if time.Since(begun) > hangLimit {
			c.t.Fatal("not every thread is stopped")
		}
	}
}

// isStopped reports whether every thread of the child is stopped.
func (c *child) isStopped() bool {
	c.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		c.t.Fatalf("the child has ended: %v", err)
	}
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			return false // a thread has ended: read the others again
		}
		_, state, _ := bytes.Cut(stat[bytes.LastIndexByte(stat, ')')+1:], []byte(" ")) // the name may have parentheses
		if err != nil || !bytes.HasPrefix(state, []byte("T")) {
			return false
		}
	}
	return true
}

// quiet is the time without a byte after which a stopped child's connection is empty. The kernel needs no thread of the
// child to send its buffer.
const quiet = 300 * time.Millisecond

// drainPast reads until the time has passed and the connection is empty. It returns the number of bytes.
func (c *child) drainPast(limit time.Time) (n int64) {
	c.t.Helper()
	for empty := false; !empty || time.Now().Before(limit); {
		_ = c.conn.SetReadDeadline(time.Now().Add(quiet))
		read, err := io.CopyN(io.Discard, c.conn, 1<<20)
		n += read
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			c.t.Fatalf("the child closed the connection: %v", err)
		}
		empty = read == 0
	}
	return n
}

// writeWithLimit runs in the child. It fills the buffers, and then writes more than they hold.
func writeWithLimit(t *testing.T, addr, place string) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 256<<20)
	if place == inTheWait {
		fillBuffers(t, conn)
	}
	w := newWire(conn, time.Minute, 0)
	limits := ring.Limits{WriteBy: time.Now().Add(childLimit)}
	looks := 0
	limits.Suspended = func() time.Duration { // called after the look at the clock, before the write
		switch looks++; {
		case place == inTheWait && looks == 1:
			fmt.Println("waits") // from the next system call on: the buffers are full
		case place == afterTheClock && looks == 1:
			fmt.Println("stops")
			stopThisProcess(t)
		}
		return 0
	}
	w.beginDelivery(limits)
	if _, err := w.Write(p); err == nil {
		t.Error("the write succeeded")
	}
}

// fillBuffers writes until the socket takes nothing for a moment.
func fillBuffers(t *testing.T, conn net.Conn) {
	t.Helper()
	p := make([]byte, 1<<20)
	for n, err := 1, error(nil); n > 0; {
		_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
		if n, err = conn.Write(p); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal(err)
		}
	}
}

// stopThisProcess stops all threads of this process. The calling thread runs no further instruction before SIGCONT: the
// signal is for this thread, so the kernel handles it at the end of the system call.
func stopThisProcess(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Tgkill(unix.Getpid(), unix.Gettid(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}
