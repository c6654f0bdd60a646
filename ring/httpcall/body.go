package httpcall

import (
	"bytes"
	"io"
	"sync"
)

// smallContent is the size up to which the content of a request is kept until its reply. The HTTP client writes it
// together with the headers.
const smallContent = 16 << 10

// Body holds the content of a request. Large content is forgotten when no further byte of it may be written.
type Body struct {
	size int

	mu      sync.Mutex
	content []byte
	dropped bool
}

// NewBody returns a body with the content.
func NewBody(content []byte) *Body { return &Body{size: len(content), content: content} }

// Size returns the bytes of the whole content.
func (b *Body) Size() int { return b.size }

// Drop forgets the content, which many late replies would otherwise keep in memory.
func (b *Body) Drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.content, b.dropped = nil, true
}

// Reader returns a reader of the whole content. The HTTP client reads it again only if nothing was written, or if the
// receiver said that it has not begun the request.
func (b *Body) Reader() (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.dropped:
		return nil, ErrTooLate
	case len(b.content) <= smallContent:
		return io.NopCloser(bytes.NewReader(b.content)), nil
	}
	return &bodyReader{body: b}, nil
}

// bodyReader reads a large Body. Reading fails after it was dropped.
type bodyReader struct {
	body *Body
	at   int
}

func (r *bodyReader) Read(p []byte) (int, error) {
	r.body.mu.Lock()
	defer r.body.mu.Unlock()
	switch {
	case r.body.dropped:
		return 0, ErrTooLate
	case r.at == len(r.body.content):
		return 0, io.EOF
	}
	n := copy(p, r.body.content[r.at:])
	r.at += n
	return n, nil
}

func (r *bodyReader) Close() error { return nil }
