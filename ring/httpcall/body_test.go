package httpcall

import (
	"bytes"
	"errors"
	"io"
	"testing"
)

// Large content is forgotten, also by a reader that is in the middle of it. Small content is kept by the reader that
// has it.
func TestContentIsForgotten(t *testing.T) {
	for _, size := range []int{0, smallContent, smallContent + 1} {
		content := bytes.Repeat([]byte("a"), size)
		b := NewBody(content)
		for range 2 {
			r, err := b.Reader()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
				t.Errorf("read %d of %d bytes: %v", len(got), size, err)
			}
		}
		r, err := b.Reader()
		if err != nil {
			t.Fatal(err)
		}
		b.Drop()
		got, err := io.ReadAll(r)
		if large := size > smallContent; large != errors.Is(err, ErrTooLate) || large && len(got) > 0 ||
			b.content != nil {
			t.Errorf("read %d of %d dropped bytes: %v", len(got), size, err)
		}
		if _, err := b.Reader(); !errors.Is(err, ErrTooLate) {
			t.Errorf("dropped content can be read: %v", err)
		}
	}
}
