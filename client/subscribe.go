package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

const eventStreamType = "text/event-stream"

// longestSilence is the longest time in which a stream may be silent. The service sends a comment every 15 s.
const longestSilence = 50 * time.Second

var (
	errSilent      = errors.New("the service was silent for too long")
	errStreamEnded = errors.New("the service ended the stream")
)

// ErrNotResumed is the fault of a stream that goes on, but without the rings that were on their way when the former
// connection ended.
var ErrNotResumed = errors.New("this node of the service cannot resume the stream: rings without ack_timeout that were on their way may be lost")

// subscription is a stream of rings that connects again after each end.
type subscription struct {
	client      *Client
	application string
	take        func(*Ring) // may wait: the stream is not read meanwhile
	failed      func(error)
	lastID      string // id of the last event whose ring was handed over, from which the next stream resumes; empty: there was no event
}

// run hands over rings until ctx ends or the service refuses the stream for good. It returns the refusal, or nil.
func (s *subscription) run(ctx context.Context) *Error {
	for n := 1; ; n++ {
		begun := time.Now()
		rings, failed := s.stream(ctx)
		if isDone(ctx) {
			return nil
		}
		if !failed.again {
			return failed
		}
		s.failed(fmt.Errorf("stream of %s: %w", s.application, failed))
		if rings > 0 || time.Since(begun) > longestWait {
			n = 1
		}
		if !pause(ctx, backoff(n, min(failed.RetryAfter, longestRetryAfter))) {
			return nil
		}
	}
}

func isDone(ctx context.Context) bool { return ctx.Err() != nil }

// stream hands over the rings of one stream. It returns their number, and why the stream ended.
func (s *subscription) stream(ctx context.Context) (rings int, failed *Error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(s.client.tryTimeout, func() { cancel(errSilent) })
	defer watch.Stop()
	body, failed := s.open(ctx)
	if failed != nil {
		return 0, failed
	}
	defer func() { _ = body.Close() }()
	watch.Stop()
	events := newEventReader(&watchedReader{r: body, timer: watch, limit: longestSilence})
	for {
		e, err := events.next()
		if err != nil {
			return rings, endOfStream(ctx, err)
		}
		if e.kind == "ring" && len(e.data) > 0 { // others are of a later version of the service
			r := new(Ring)
			if err := r.UnmarshalJSON(e.data); err != nil {
				err = unreadable(http.StatusOK, fmt.Errorf("ring %s: %w", e.id, err))
				s.failed(fmt.Errorf("stream of %s: %w", s.application, err))
			} else {
				rings++
				s.take(r)
			}
		}
		s.lastID = e.id
	}
}

// endOfStream returns the error for a stream whose reading failed.
func endOfStream(ctx context.Context, err error) *Error {
	if errors.Is(err, io.EOF) {
		err = errStreamEnded
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return &Error{Err: err, again: true}
}

// open connects to the stream, and returns its body.
func (s *subscription) open(ctx context.Context) (io.ReadCloser, *Error) {
	header := http.Header{"Accept": {eventStreamType}}
	if s.lastID != "" {
		header.Set("Last-Event-ID", s.lastID)
	}
	req, err := s.client.newRequest(ctx,
		&request{method: http.MethodGet, path: applicationPath(s.application) + "/rings", header: header})
	if err != nil {
		return nil, &Error{Err: err}
	}
	res, err := s.client.http.Do(req)
	if err != nil {
		failed := broken(err)
		failed.Unconfirmed = false
		if cause := context.Cause(ctx); cause != nil {
			failed.Err = cause
		}
		return nil, failed
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")) // empty if it cannot be parsed
	if res.StatusCode == http.StatusOK && kind == eventStreamType {
		if res.Header.Get("X-Clockd-Resumed") == "false" {
			s.failed(fmt.Errorf("stream of %s: %w", s.application,
				&Error{Status: res.StatusCode, Err: ErrNotResumed, again: true}))
		}
		return res.Body, nil
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode == http.StatusOK {
		failed := unreadable(res.StatusCode, fmt.Errorf("it is %q, not a stream of events", kind))
		failed.Unconfirmed = false
		return nil, failed
	}
	body, _ := readAll(res.Body) // a part of a problem is no problem: refusal finds out
	failed := refusal(res.StatusCode, res.Header, body)
	failed.Unconfirmed = false
	failed.again = failed.again || res.StatusCode >= http.StatusInternalServerError || failed.Code == CodeRingsElsewhere
	return nil, failed
}
