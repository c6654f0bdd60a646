package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"
)

const (
	ndjsonType = "application/x-ndjson"
	// applyWindow is the number of encoded changes that wait to be sent.
	applyWindow = 64
	// resultLine is the size of the longest line of results that is read, in bytes.
	resultLine = 1 << 20
)

// Apply streams changes to the service, and returns their results while it sends: one result for each change, in order.
// The service makes the changes one after the other, as if each were a call of its own, so a Result may be a refusal
// (Result.Err). An error ends the results. Then the changes without a result may have been made or not. Apply repeats
// nothing.
//
// A goroutine pulls the changes as the service takes them, so there may be any number. A pause of 30 s between two
// changes ends the stream, and so does a caller that takes no result for 30 s. Apply returns when changes has returned
// too, so changes should end with ctx.
func (c *Client) Apply(ctx context.Context, application string, changes iter.Seq[Change]) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var sending sync.WaitGroup
		defer sending.Wait()
		defer cancel()
		lines := &lineSource{ctx: ctx, lines: make(chan []byte, applyWindow)}
		sending.Add(1)
		go func() {
			defer sending.Done()
			lines.pull(changes)
		}()
		if err := c.exchange(ctx, application, lines, yield); err != nil {
			yield(Result{}, err)
		}
	}
}

// exchange sends the lines and yields their results. It returns the error that ends the stream, nil if yield has ended
// it.
func (c *Client) exchange(
	ctx context.Context, application string, lines *lineSource, yield func(Result, error) bool,
) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+alarmsPath(application), lines)
	if err != nil {
		return &Error{Err: errServerURL}
	}
	req.Header.Set("Content-Type", ndjsonType)
	c.authorize(req)
	res, err := c.http.Do(req)
	if err != nil {
		return ended(ctx, broken(err))
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		body, _ := readAll(res.Body) // a part of a problem is no problem: refusal finds out
		return refusal(res.StatusCode, res.Header, body)
	}
	return readResults(ctx, res.Body, lines, yield)
}

// readResults yields the results until the last change has its result.
func readResults(ctx context.Context, body io.Reader, lines *lineSource, yield func(Result, error) bool) error {
	results := bufio.NewScanner(body)
	results.Buffer(nil, resultLine)
	count := int64(0)
	for results.Scan() {
		var r Result
		if err := json.Unmarshal(results.Bytes(), &r); err != nil {
			if ctx.Err() != nil || results.Err() != nil {
				break // half a line, where the stream was cut
			}
			return unreadable(http.StatusOK, err)
		}
		if count++; r.Line != count {
			return unreadable(http.StatusOK, fmt.Errorf("line %d where line %d is expected", r.Line, count))
		}
		if !yield(r, nil) {
			return nil
		}
	}
	if ctx.Err() != nil {
		return &Error{Err: context.Cause(ctx), Unconfirmed: true}
	}
	return lines.end(count, results.Err())
}

// lineSource is the body of the request: one line for each change.
type lineSource struct {
	ctx   context.Context //nolint:containedctx // the context of the call, which the lines must not outlive
	lines chan []byte     // closed after the last line
	rest  []byte          // unread part of the line that is being read

	mu     sync.Mutex
	sent   int64  // lines that were put into the channel
	whole  bool   // all changes are in the channel
	failed *Error // fault of the change that ended the lines; nil if none
}

// pull encodes the changes until they end, a change is wrong, or the context ends.
func (s *lineSource) pull(changes iter.Seq[Change]) {
	defer close(s.lines)
	for change := range changes {
		line, failed := change.encodeLine()
		if failed != nil {
			s.stop(failed)
			return
		}
		select {
		case s.lines <- line:
		case <-s.ctx.Done():
			return
		}
		s.mu.Lock()
		s.sent++
		s.mu.Unlock()
	}
	s.mu.Lock()
	s.whole = true
	s.mu.Unlock()
}

func (s *lineSource) stop(failed *Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed.Detail = fmt.Sprintf("change %d: %s", s.sent+1, failed.Detail)
	s.failed, s.whole = failed, true
}

// Read returns the bytes of the next line, and of the lines behind it that are ready.
func (s *lineSource) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(s.rest) == 0 && !s.next(n == 0) {
			break
		}
		copied := copy(p[n:], s.rest)
		n, s.rest = n+copied, s.rest[copied:]
	}
	switch {
	case n > 0:
		return n, nil
	case s.ctx.Err() != nil:
		return 0, s.ctx.Err()
	default:
		return 0, io.EOF
	}
}

// next takes the next line. It returns false at the end of the lines, and if it must not wait and no line is ready.
func (s *lineSource) next(wait bool) (more bool) {
	if !wait {
		select {
		case s.rest, more = <-s.lines:
		default:
		}
		return more
	}
	select {
	case s.rest, more = <-s.lines:
	case <-s.ctx.Done():
	}
	return more
}

// end returns the error of a stream that the service has ended after count results, nil if all changes have results.
func (s *lineSource) end(count int64, cause error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.whole && count == s.sent && s.failed == nil:
		return nil
	case s.whole && count == s.sent:
		return s.failed
	case cause == nil:
		cause = io.ErrUnexpectedEOF
	}
	failed := broken(cause)
	failed.Detail = fmt.Sprintf("the stream ended after %d results: %v", count, cause)
	return failed
}

// encodeLine returns the change as a line with its line break.
func (c *Change) encodeLine() ([]byte, *Error) {
	if failed := c.check(); failed != nil {
		return nil, failed
	}
	if c.Set == nil {
		return append(appendQuoted([]byte(`{"cancel":`), c.BusinessID), "}\n"...), nil
	}
	b, failed := c.Set.encode(c.BusinessID)
	if failed != nil {
		return nil, failed
	}
	// valid JSON has line breaks only between tokens
	b = bytes.ReplaceAll(bytes.ReplaceAll(b, []byte("\n"), []byte(" ")), []byte("\r"), []byte(" "))
	return append(b, '\n'), nil
}
