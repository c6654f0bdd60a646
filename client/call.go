package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"time"
)

// request is one call, which may take several tries.
type request struct {
	method string
	path   string // escaped path and query
	header http.Header
	body   []byte        // JSON; nil: none
	repeat bool          // whether a second effect of the request does no harm
	resend bool          // with repeat false: whether the request is sent again after a try that certainly had no effect
	wait   time.Duration // time that the service may wait before it responds; a try lasts that much longer
}

// response is a whole response with a 2xx status.
type response struct {
	status int
	body   []byte
}

// responseBytes is the size of the largest response that a call reads. A page of a list has about 4 MiB.
const responseBytes = 16 << 20

// Waits between two tries.
const (
	firstWait   = 100 * time.Millisecond
	longestWait = 5 * time.Second
	// longestRetryAfter is the longest Retry-After that a call waits for.
	longestRetryAfter = time.Minute
)

// call sends a request, again if it fails and a repeat is safe, and decodes the response into out.
func (c *Client) call(ctx context.Context, r *request, out any) error {
	res, failed := c.send(ctx, r)
	if failed != nil {
		return failed
	}
	if err := json.Unmarshal(res.body, out); err != nil {
		failed := unreadable(res.status, err)
		failed.Unconfirmed = r.method != http.MethodGet
		return failed
	}
	return nil
}

// send sends a request until a try succeeds, or until no further try is allowed. The error is the last try's.
func (c *Client) send(ctx context.Context, r *request) (*response, *Error) {
	unconfirmed := false
	for n := 1; ; n++ {
		res, failed := c.try(ctx, r)
		if failed == nil {
			return res, nil
		}
		unconfirmed = unconfirmed || failed.Unconfirmed && r.method != http.MethodGet
		failed.Unconfirmed = unconfirmed
		if n >= c.tries || !r.mayRepeat(failed) || !pause(ctx, backoff(n, failed.RetryAfter)) {
			return nil, failed
		}
	}
}

// mayRepeat reports whether another try may follow a failure.
func (r *request) mayRepeat(failed *Error) bool {
	return failed.again && (r.repeat || r.resend && !failed.Unconfirmed)
}

// backoff returns the wait after the nth try. A Retry-After is extended by up to a half, any other wait is shortened by
// up to a half. The result is negative if the wait would be too long.
func backoff(n int, retryAfter time.Duration) time.Duration {
	if retryAfter > longestRetryAfter {
		return -1
	}
	if retryAfter > 0 {
		return retryAfter + rand.N(retryAfter/2+1)
	}
	wait := min(firstWait<<min(n-1, 10), longestWait)
	return wait - rand.N(wait/2+1)
}

// pause waits. It returns false at once if the wait is negative or would last beyond the context's deadline, and when
// the context ends.
func pause(ctx context.Context, wait time.Duration) bool {
	if end, limited := ctx.Deadline(); wait < 0 || limited && time.Until(end) <= wait {
		return false
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// try sends a request once.
func (c *Client) try(ctx context.Context, r *request) (*response, *Error) {
	limited, cancel := context.WithTimeout(ctx, c.tryTimeout+r.wait)
	defer cancel()
	req, err := c.newRequest(limited, r)
	if err != nil {
		return nil, &Error{Err: err}
	}
	prefer(limited, req.Header)
	res, err := c.http.Do(req)
	if err != nil {
		return nil, ended(ctx, broken(err))
	}
	defer func() { _ = res.Body.Close() }()
	body, err := readAll(res.Body)
	switch {
	case errors.Is(err, errTooLarge):
		return nil, unreadable(res.StatusCode, err)
	case err != nil:
		return nil, ended(ctx, broken(err))
	case res.StatusCode < 200 || res.StatusCode > 299:
		return nil, refusal(res.StatusCode, res.Header, body)
	}
	return &response{status: res.StatusCode, body: body}, nil
}

// newRequest returns the HTTP request. Its error does not quote the URL.
func (c *Client) newRequest(ctx context.Context, r *request) (*http.Request, error) {
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, c.base+r.path, body)
	if err != nil {
		return nil, errServerURL
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	c.authorize(req)
	return req, nil
}

// authorize adds the token to a request.
func (c *Client) authorize(r *http.Request) {
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
}

// prefer tells the service how long the client waits, if that is less than the service may take. It leaves half a
// second for the way.
func prefer(ctx context.Context, h http.Header) {
	const serviceTime, way = 15 * time.Second, 500 * time.Millisecond
	end, limited := ctx.Deadline()
	if wait := time.Until(end) - way; limited && wait < serviceTime {
		h.Set("Prefer", "wait="+strconv.Itoa(max(1, int(wait/time.Second))))
	}
}

// ended makes the end of the caller's context the cause of a failed try, after which no other try follows.
func ended(ctx context.Context, failed *Error) *Error {
	if ctx.Err() != nil {
		failed.Err, failed.again = context.Cause(ctx), false
	}
	return failed
}

// isDialError reports whether no connection was made, so that the service cannot have received the request.
func isDialError(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

var errTooLarge = fmt.Errorf("the response has more than %d bytes", responseBytes)

func readAll(r io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(r, responseBytes+1))
	if err == nil && len(b) > responseBytes {
		return nil, errTooLarge
	}
	return b, err
}
