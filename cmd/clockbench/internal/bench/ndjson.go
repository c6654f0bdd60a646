package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httputil"
	"time"
)

// lineChunk is the approximate number of bytes of a stream that are written at once.
const lineChunk = 32 << 10

// streamLines sends the application's alarms from..to-1 as lines over a connection of its own, and reads the results
// while it sends. line appends the line of alarm n. The result of every line must have the status want.
func streamLines(
	ctx context.Context, base, application string, from, to, want int, line func(b []byte, n int) []byte,
) error {
	c, err := dialHTTP(ctx, base)
	if err != nil {
		return err
	}
	c.use(application)
	defer c.close()
	stop := context.AfterFunc(ctx, c.close)
	defer stop()
	sent := make(chan error, 1)
	go func() { sent <- c.sendLines(from, to, line) }()
	err = c.readLines(to-from, want)
	if err != nil {
		c.close() // ends the goroutine that sends
	}
	return errors.Join(err, <-sent)
}

func (c *httpConn) sendLines(from, to int, line func(b []byte, n int) []byte) error {
	c.head(http.MethodPost, nil)
	c.out = append(c.out,
		"Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"...)
	if _, err := c.conn.Write(c.out); err != nil {
		return err
	}
	out := bufio.NewWriterSize(c.conn, lineChunk+1024)
	chunks := httputil.NewChunkedWriter(out)
	var b []byte
	for n := from; n < to; {
		for b = b[:0]; n < to && len(b) < lineChunk; n++ {
			b = append(line(b, n), '\n')
		}
		if _, err := chunks.Write(b); err != nil {
			return err
		}
		if err := c.conn.SetWriteDeadline(time.Now().Add(exchangeTimeout)); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	if err := chunks.Close(); err != nil {
		return err
	}
	_, err := out.WriteString("\r\n")
	return errors.Join(err, out.Flush())
}

// readLines reads this number of result lines. All must have the status want.
func (c *httpConn) readLines(lines, want int) error {
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if err := expect(res.StatusCode, nil, http.StatusOK); err != nil {
		return fmt.Errorf("stream: %w", err)
	}
	mark := statusMark(want)
	in := bufio.NewReaderSize(res.Body, 64<<10)
	for n := range lines {
		line, err := in.ReadSlice('\n')
		if err != nil {
			return fmt.Errorf("stream: %d of %d lines have a result: %w", n, lines, err)
		}
		if !bytes.Contains(line, mark) {
			return fmt.Errorf("stream: the result of a line is not %d: %.300s", want, line)
		}
	}
	return nil
}
