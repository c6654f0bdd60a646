package clockhttp

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
)

var (
	errEndOfLines  = errors.New("end of lines")
	errLineTooLong = &problem{
		Status: http.StatusRequestEntityTooLarge, Code: codeLineTooLong,
		Detail: fmt.Sprintf("the line is longer than %d bytes; it was skipped", LineBytes),
	}
)

// lineReader cuts a body into lines, in constant memory.
type lineReader struct {
	from *timedReader
	in   *bufio.Reader
}

// newLineReader returns a reader whose buffer holds the longest line with "\r\n".
func newLineReader(from *timedReader) *lineReader {
	return &lineReader{from: from, in: bufio.NewReaderSize(from, LineBytes+2)}
}

// next returns the next line without its break, valid until the next call; the last one needs no break. errLineTooLong
// stands for a line over the cap, which has been skipped; errEndOfLines for the end; any other error for a body that
// broke off, also in the midst of a line.
func (r *lineReader) next(ctx context.Context) ([]byte, error) {
	r.from.ctx = ctx
	line, err := r.in.ReadSlice('\n')
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return nil, r.skip()
	case err != nil && err != io.EOF:
		return nil, err
	case err != nil && len(line) == 0:
		return nil, errEndOfLines
	}
	line = trimBreak(line)
	if len(line) > LineBytes {
		return nil, errLineTooLong
	}
	return line, nil
}

// skip reads to the end of a line that is too long.
func (r *lineReader) skip() error {
	for {
		_, err := r.in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil || err == io.EOF:
			return errLineTooLong
		default:
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
