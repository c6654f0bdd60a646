package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/clockd/clockd/ring"
)

// hangLimit is the time after which a test gives up.
const hangLimit = time.Minute

// pair returns a wire and the far end of its connection.
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

func farDeadline() time.Time { return time.Now().Add(hangLimit) }

func mustWrite(t *testing.T, w *wire, p string) {
	t.Helper()
	if n, err := w.Write([]byte(p)); err != nil || n != len(p) {
		t.Fatalf("write: %d, %v", n, err)
	}
}

func mustRead(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	_ = c.SetReadDeadline(farDeadline())
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Fatalf("read %q, %v; want %q", got, err, want)
	}
}

func mustBeSilent(t *testing.T, c net.Conn) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, %v; want silence", n, err)
	}
}

func TestWireGathersOnlyInADelivery(t *testing.T) {
	t.Parallel()
	w, far := pair(t, 10)
	mustWrite(t, w, "hello")
	mustRead(t, far, "hello") // without a flush
	w.beginDelivery(ring.Limits{WriteBy: farDeadline()})
	mustWrite(t, w, "abc")
	mustWrite(t, w, "def")
	mustBeSilent(t, far)
	if w.sent() != 5 || w.mark() != 11 {
		t.Errorf("sent %d of %d", w.sent(), w.mark())
	}
	mustWrite(t, w, "ghijk") // does not fit any more
	mustRead(t, far, "abcdef")
	mustWrite(t, w, "0123456789+") // larger than the buffer
	mustRead(t, far, "ghijk0123456789+")
	mustWrite(t, w, "l")
	if n, err := w.endDelivery(); n != 4 || err != nil {
		t.Errorf("%d writes, %v", n, err)
	}
	mustRead(t, far, "l")
	if w.sent() != w.mark() {
		t.Errorf("sent %d of %d", w.sent(), w.mark())
	}
	mustWrite(t, w, "bye")
	mustRead(t, far, "bye")
}

func TestWireRefusesLateWrites(t *testing.T) {
	t.Parallel()
	for _, flushed := range []bool{false, true} {
		w, far := pair(t, 100)
		limit := time.Now().Add(20 * time.Millisecond)
		w.beginDelivery(ring.Limits{WriteBy: limit})
		mustWrite(t, w, "abc")
		<-time.After(time.Until(limit))
		var err error
		if flushed {
			_, err = w.Write(make([]byte, 200))
		} else {
			_, err = w.endDelivery()
		}
		if err == nil || w.sent() != 0 {
			t.Fatalf("a late write: %v, sent %d", err, w.sent())
		}
		if _, err := w.Write([]byte("x")); err == nil {
			t.Fatal("a write on a broken wire succeeded")
		}
		if _, err := w.endDelivery(); err == nil {
			t.Fatal("the error is lost")
		}
		_ = far.SetReadDeadline(farDeadline())
		if n, err := far.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("the far end read %d bytes, %v", n, err)
		}
	}
}

// A write that waits for buffer space ends at its limit. The count of written bytes is exact.
func TestWireBoundsABlockedWrite(t *testing.T) {
	t.Parallel()
	w, far := pair(t, 0)
	frames := make([]byte, 64<<20)
	limit := time.Now().Add(time.Second) // the first write needs a part of it on a machine that others use
	w.beginDelivery(ring.Limits{WriteBy: limit})
	if _, err := w.Write(frames); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, ErrTooLate) {
		t.Fatalf("error %v", err)
	}
	if left := time.Until(limit); left > 0 {
		t.Errorf("it ended %s before the limit", left)
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
	t.Parallel()
	w, _ := pair(t, 0)
	if _, err := w.Write(make([]byte, 64<<20)); !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, ErrTooLate) {
		t.Fatalf("error %v", err)
	}
}

func TestKillEndsABlockedWrite(t *testing.T) {
	t.Parallel()
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
			t.Fatal("the write succeeded")
		}
	case <-time.After(hangLimit):
		t.Fatal("the write goes on")
	}
	if w.failure() == nil {
		t.Error("the wire is not broken")
	}
}

// Frames written during a delivery, like heartbeats, stay whole, and none is lost or left in the buffer.
func TestWireKeepsFramesWhole(t *testing.T) {
	t.Parallel()
	w, far := pair(t, 1000)
	w.timeout = hangLimit // a write may wait for a core
	var wait sync.WaitGroup
	defer wait.Wait()
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
			w.beginDelivery(ring.Limits{WriteBy: farDeadline()})
			_, _ = w.Write([]byte("<frame>"))
			if _, err := w.endDelivery(); err != nil {
				t.Error(err)
			}
		}
	})
	total += 50 * 7
	got := make([]byte, total)
	_ = far.SetReadDeadline(farDeadline())
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
