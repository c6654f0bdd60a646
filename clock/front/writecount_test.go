package front

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// Flushed bytes are with the kernel for certain once a write that began after the flush has ended. A write under way at
// the flush may not have them, and a write that failed may not either.
func TestFlushedBytesAreWrittenAfterTheNextWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &conn{}
		underWay := c.writes.begin()
		f := flushed{c, c.writes.latest()}
		c.writes.end(underWay)
		if f.Written() {
			t.Error("written by a write that began before the flush")
		}
		c.writes.begin() // fails, so it does not end
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.Await(ctx); !errors.Is(err, context.DeadlineExceeded) || f.Written() {
			t.Errorf("without a further write: %v", err)
		}
		go func() { c.writes.end(c.writes.begin()) }()
		if err := f.Await(t.Context()); err != nil || !f.Written() {
			t.Errorf("after a further write: %v", err)
		}
	})
}

// A flush over HTTP/1.1 writes to the kernel itself.
func TestFlushOfOneRequestWritesAtOnce(t *testing.T) {
	t.Parallel()
	if f := (flushed{}); !f.Written() || f.Await(t.Context()) != nil {
		t.Error("a mark without a connection is not written")
	}
}
