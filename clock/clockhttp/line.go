package clockhttp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/clockd/clockd/clock/front"
)

var (
	errEndOfLines  = errors.New("end of lines")
	errLineTooLong = &front.Problem{
		Status: http.StatusRequestEntityTooLarge, Code: codeLineTooLong,
		Detail: fmt.Sprintf("the line is longer than %d bytes; it was skipped", LineBytes),
	}
)

// lineRoom is the size in bytes of the longest line with its "\r\n".
const lineRoom = LineBytes + 2

// firstLineBuffer is the size in bytes of a stream's buffer before a longer line arrives.
const firstLineBuffer = 16 << 10

// lineReader cuts a body into lines. Its buffer grows as the bytes of a line arrive, up to lineRoom.
type lineReader struct {
	from       *timedReader
	grow       func(ctx context.Context, more int64) error // waits until the stream may hold this many more bytes
	buffer     []byte
	start, end int // range in buffer of the bytes that next has not returned yet
}

// newLineReader returns a reader with a buffer of firstLineBuffer bytes. It calls grow before the buffer grows.
func newLineReader(from *timedReader, grow func(ctx context.Context, more int64) error) *lineReader {
	return &lineReader{from: from, grow: grow, buffer: make([]byte, firstLineBuffer)}
}

// held returns the number of bytes that the buffer has beyond firstLineBuffer.
func (r *lineReader) held() int64 { return int64(len(r.buffer) - firstLineBuffer) }

// next returns the next line without its line break, valid until the next call. The last line needs no line break. next
// returns errLineTooLong for a line over the cap, which it has skipped, and errEndOfLines at the end of the body. Any
// other error means that the body broke off, maybe within a line.
func (r *lineReader) next(ctx context.Context) ([]byte, error) {
	r.from.ctx = ctx
	for searched := 0; ; {
		if n := bytes.IndexByte(r.buffer[r.start+searched:r.end], '\n'); n >= 0 {
			return r.cut(searched + n + 1)
		}
		searched = r.end - r.start
		if searched == lineRoom {
			return nil, r.skip()
		}
		switch err := r.fill(ctx); {
		case err == nil:
		case !errors.Is(err, io.EOF):
			return nil, err
		case searched == 0 && r.start == r.end:
			return nil, errEndOfLines
		case bytes.IndexByte(r.buffer[r.start:r.end], '\n') < 0:
			return r.cut(r.end - r.start)
		}
	}
}

// cut returns the first n bytes as a line.
func (r *lineReader) cut(n int) ([]byte, error) {
	line := trimBreak(r.buffer[r.start : r.start+n])
	r.start += n
	if len(line) > LineBytes {
		return nil, errLineTooLong
	}
	return line, nil
}

// fill makes room in the buffer and reads once. It may return io.EOF together with new bytes.
func (r *lineReader) fill(ctx context.Context) error {
	if r.start > 0 {
		copy(r.buffer, r.buffer[r.start:r.end])
		r.start, r.end = 0, r.end-r.start
	}
	if r.end == len(r.buffer) {
		size := min(bufferGrowth*len(r.buffer), lineRoom)
		if err := r.grow(ctx, int64(size-len(r.buffer))); err != nil {
			return err
		}
		larger := make([]byte, size)
		copy(larger, r.buffer)
		r.buffer = larger
	}
	n, err := r.from.Read(r.buffer[r.end:])
	r.end += n
	return err
}

// skip reads to the end of a line that is too long.
func (r *lineReader) skip() error {
	for {
		r.start, r.end = 0, 0
		n, err := r.from.Read(r.buffer)
		r.end = n
		if i := bytes.IndexByte(r.buffer[:n], '\n'); i >= 0 {
			r.start = i + 1
			return errLineTooLong
		}
		switch {
		case errors.Is(err, io.EOF):
			r.end = 0
			return errLineTooLong
		case err != nil:
			return err
		}
	}
}

func trimBreak(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}
