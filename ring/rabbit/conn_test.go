package rabbit

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"
)

// pair returns a wire and the other end of its socket.
func pair(t *testing.T, gather int) (*wire, net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	w := newWire(near, 200*time.Millisecond, gather)
	t.Cleanup(func() { w.kill(); far.Close() })
	return w, far
}

func soon() time.Time { return time.Now().Add(5 * time.Second) }

func write(t *testing.T, w *wire, p string) {
	t.Helper()
	if n, err := w.Write([]byte(p)); err != nil || n != len(p) {
		t.Fatalf("write: %d, %v", n, err)
	}
}

func read(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_ = c.SetReadDeadline(soon())
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

func quiet(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
}

func TestWireGathersOnlyInADelivery(t *testing.T) {
	w, far := pair(t, 10)
	write(t, w, "hello")
	read(t, far, "hello") // nobody flushed
	w.begin(soon())
	write(t, w, "abc")
	write(t, w, "def")
	quiet(t, far)
	if w.sent() != 5 || w.mark() != 11 {
		t.Errorf("sent %d of %d", w.sent(), w.mark())
	}
	write(t, w, "ghijk") // does not fit any more
	read(t, far, "abcdef")
	write(t, w, "0123456789+") // larger than the buffer
	read(t, far, "ghijk0123456789+")
	write(t, w, "l")
	if n, err := w.end(); n != 4 || err != nil {
		t.Errorf("%d writes, %v", n, err)
	}
	read(t, far, "l")
	if w.sent() != w.mark() {
		t.Errorf("sent %d of %d", w.sent(), w.mark())
	}
	write(t, w, "bye")
	read(t, far, "bye")
}

func TestWireRefusesLateWrites(t *testing.T) {
	for _, flushed := range []bool{false, true} {
		w, far := pair(t, 100)
		limit := time.Now().Add(20 * time.Millisecond)
		w.begin(limit)
		write(t, w, "abc")
		<-time.After(time.Until(limit))
		var err error
		if flushed {
			_, err = w.Write(make([]byte, 200))
		} else {
			_, err = w.end()
		}
		if err == nil || w.sent() != 0 {
			t.Fatalf("a late write: %v, sent %d", err, w.sent())
		}
		if _, err := w.Write([]byte("x")); err == nil {
			t.Fatal("a write on a broken wire succeeded")
		}
		if _, err := w.end(); err == nil {
			t.Fatal("the error is lost")
		}
		_ = far.SetReadDeadline(soon())
		if n, err := far.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the far end read %d bytes, %v", n, err)
		}
	}
}

// A write that waits for room ends at its limit, and what has left is counted to the byte.
func TestWireBoundsABlockedWrite(t *testing.T) {
	w, far := pair(t, 0)
	began := time.Now()
	w.begin(began.Add(100 * time.Millisecond))
	if _, err := w.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errTooLate) {
		t.Fatalf("error %v", err)
	}
	if took := time.Since(began); took < 90*time.Millisecond || took > 2*time.Second {
		t.Errorf("took %s", took)
	}
	if sent := w.sent(); sent == 0 || sent >= 64<<20 {
		t.Errorf("sent %d", sent)
	}
	n, _ := io.Copy(io.Discard, far)
	if n > w.sent() {
		t.Errorf("the far end has %d bytes, %d were counted", n, w.sent())
	}
}

func TestWireWritesOutsideADeliveryAreBounded(t *testing.T) {
	w, _ := pair(t, 0)
	if _, err := w.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errTooLate) {
		t.Fatalf("error %v", err)
	}
}

func TestKillEndsABlockedWrite(t *testing.T) {
	w, _ := pair(t, 0)
	w.timeout = time.Minute
	failed := make(chan error)
	go func() {
		_, err := w.Write(make([]byte, 64<<20))
		failed <- err
	}()
	<-time.After(20 * time.Millisecond)
	w.kill()
	w.kill()
	select {
	case err := <-failed:
		if err == nil {
			t.Fatal("written")
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the write goes on")
	}
	if w.failure() == nil {
		t.Error("not broken")
	}
}

// Heartbeats come in while a delivery gathers: nothing is torn, lost or left behind.
func TestWireKeepsFramesWhole(t *testing.T) {
	w, far := pair(t, 1000)
	var wait sync.WaitGroup
	var total int64
	for range 4 {
		wait.Go(func() {
			for range 500 {
				if _, err := w.Write([]byte("<frame>")); err != nil {
					t.Error(err)
				}
			}
		})
		total += 500 * 7
	}
	wait.Go(func() {
		for range 50 {
			w.begin(soon())
			_, _ = w.Write([]byte("<frame>"))
			if _, err := w.end(); err != nil {
				t.Error(err)
			}
		}
	})
	total += 50 * 7
	got := make([]byte, total)
	_ = far.SetReadDeadline(soon())
	if _, err := io.ReadFull(far, got); err != nil {
		t.Fatal(err)
	}
	wait.Wait()
	if n := bytes.Count(got, []byte("<frame>")); n*7 != len(got) {
		t.Errorf("%d whole frames of %d", n, len(got)/7)
	}
	if w.sent() != total || w.mark() != total {
		t.Errorf("sent %d, taken %d, want %d", w.sent(), w.mark(), total)
	}
}
