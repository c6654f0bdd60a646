package clockhttp

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
)

// Codes of the problems that this package defines. The codes of the domain are clock.Code*.
const (
	codeNotJSON              = "not_json"
	codeInvalidPath          = "invalid_path"
	codeUnknownPath          = "unknown_path"
	codeMethodNotAllowed     = "method_not_allowed"
	codeUnsupportedMediaType = "unsupported_media_type"
	codeBodyTooLarge         = "body_too_large"
	codeLineTooLong          = "line_too_long"
	codeIncompleteBody       = "incomplete_body"
	codeRequestTimeout       = "request_timeout"
	codeDuplicateField       = "duplicate_field"
	codeUnknownParameter     = "unknown_parameter"
	codeInvalidCondition     = "invalid_condition"
	codeRingsElsewhere       = "rings_go_elsewhere"
	codeUnexpectedBody       = "unexpected_body"
	codeCrossSite            = "cross_site"
	codeUnknownHost          = "unknown_host"
	codeClientLeft           = "client_left" // reaches only clients that closed their sending half and still read
	codeStreamCut            = "stream_cut"  // only counted, never sent, because the response has already begun
	codeInternal             = "internal"
)

const problemJSON = "application/problem+json"

// problem is a failure in the form of RFC 9457. The name of its status is its title.
type problem struct {
	Status     int
	Code       string        // stable code for programs
	Field      string        // field of the input that is wrong; empty if none
	Detail     string        // text for a person: the fault and the remedy
	Alarm      *clock.Alarm  // alarm that caused the refusal; nil if none
	RetryAfter time.Duration // wait before a repeat, only with the statuses 429 and 503
	cause      error         // unexpected error for the log; nil for expected failures
}

// Error makes a problem an error that handlers return.
func (p *problem) Error() string { return p.Detail }

// kindStatuses holds the status of each kind of failure.
var kindStatuses = map[error]int{
	clock.ErrInvalid:      http.StatusUnprocessableEntity,
	clock.ErrTooLarge:     http.StatusRequestEntityTooLarge,
	clock.ErrNotFound:     http.StatusNotFound,
	clock.ErrConflict:     http.StatusConflict,
	clock.ErrPrecondition: http.StatusPreconditionFailed,
	clock.ErrUnconfirmed:  http.StatusServiceUnavailable,
	clock.ErrUnavailable:  http.StatusServiceUnavailable,

	clock.ErrUnauthenticated: http.StatusUnauthorized,
	clock.ErrForbidden:       http.StatusForbidden,
	clock.ErrLimited:         http.StatusTooManyRequests,
}

// absentPart returns the error of a route whose part this server does not have. A repeat does not help.
func absentPart(detail string) *clock.Error {
	return &clock.Error{Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, Detail: detail}
}

// problemOf turns any error into a problem. No other code does this.
func problemOf(err error) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	if he, ok := errors.AsType[*echo.HTTPError](err); ok {
		return problemOfEcho(he)
	}
	if e := clock.Described(err); e != nil {
		return &problem{Status: kindStatuses[e.Kind], Code: e.Code, Field: e.Field, Detail: e.Detail, Alarm: e.Alarm,
			RetryAfter: e.RetryAfter}
	}
	return &problem{
		Status: http.StatusInternalServerError, Code: codeInternal, cause: err,
		Detail: "an unexpected error; it is in the server's log, and the change may or may not have been made",
	}
}

func problemOfEcho(he *echo.HTTPError) *problem {
	switch he.Code {
	case http.StatusNotFound:
		return &problem{Status: he.Code, Code: codeUnknownPath,
			Detail: "this path does not exist; /openapi.yaml lists all paths"}
	case http.StatusMethodNotAllowed:
		return &problem{Status: he.Code, Code: codeMethodNotAllowed,
			Detail: "this path does not take the method; the header Allow lists its methods"}
	}
	return &problem{Status: he.Code, Code: codeInternal, Detail: http.StatusText(he.Code), cause: he}
}

// serverFault reports whether the server failed, so that the same request may succeed later.
func (p *problem) serverFault() bool { return p.Status >= http.StatusInternalServerError }

// retrySeconds returns the value of Retry-After, at least 1.
func (p *problem) retrySeconds() int64 {
	return max(1, int64((p.RetryAfter+time.Second-1)/time.Second))
}

// append appends the problem as JSON, with the id of its request.
func (p *problem) append(b []byte, requestID string) []byte {
	b = append(b, `{"title":`...)
	b = appendString(b, http.StatusText(p.Status))
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.Status), 10)
	b = p.appendCause(b)
	b = appendString(append(b, `,"request_id":`...), requestID)
	if p.Alarm != nil {
		b = append(b, `,"alarm":`...)
		b = appendAlarm(b, p.Alarm)
	}
	return append(b, '}')
}

// appendCause appends code, field and detail as members, each with a comma before it.
func (p *problem) appendCause(b []byte) []byte {
	b = append(b, `,"code":`...)
	b = appendString(b, p.Code)
	if p.Field != "" {
		b = append(b, `,"field":`...)
		b = appendString(b, p.Field)
	}
	b = append(b, `,"detail":`...)
	return appendString(b, p.Detail)
}

// respondProblem sends the problem of err. It cuts the connection if the response has already begun.
func (s *Server) respondProblem(c echo.Context, err error) error {
	p := problemOf(err)
	s.note(c.Request(), p)
	if c.Response().Committed {
		panic(http.ErrAbortHandler)
	}
	h := c.Response().Header()
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		h.Set("Retry-After", strconv.FormatInt(p.retrySeconds(), 10))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="clockd"`)
	}
	if p.Alarm != nil {
		h.Set("ETag", etag(p.Alarm))
	}
	return s.respond(c, p.Status, problemJSON, append(p.append(make([]byte, 0, 512), requestID(c.Request())), '\n'))
}

// note counts the problem, and logs it if it is unexpected.
func (s *Server) note(r *http.Request, p *problem) {
	s.metrics.problems.WithLabelValues(p.Code).Inc()
	if p.cause == nil {
		return
	}
	attrs := []any{"request_id", requestID(r), "method", r.Method, "path", r.URL.EscapedPath(), "err", p.cause}
	if panicked, ok := errors.AsType[*panicError](p.cause); ok {
		attrs = append(attrs, "stack", string(panicked.stack))
	}
	s.log.Error("request failed", attrs...)
}

// panicError is the caught panic of a handler.
type panicError struct {
	value any
	stack []byte
}

// Error returns the panic's value as text.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }
