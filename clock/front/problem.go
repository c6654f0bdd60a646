package front

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
)

// Codes of the problems that this package defines. The codes of the domain are clock.Code*.
const (
	CodeCrossSite   = "cross_site"
	CodeUnknownHost = "unknown_host"
	CodeStreamCut   = "stream_cut" // only counted, never sent, because the response has already begun
	CodeInternal    = "internal"
)

// Problem is a failure in the form of RFC 9457. The name of its status is its title.
type Problem struct {
	Status     int
	Code       string        // stable code for programs
	Field      string        // field of the input that is wrong; empty if none
	Detail     string        // text for a person: the fault and the remedy
	Alarm      *clock.Alarm  // alarm that caused the refusal; nil if none
	RetryAfter time.Duration // wait before a repeat, only with the statuses 429 and 503
	Cause      error         // unexpected error for the log; nil for expected failures

	application string        // that a refusal is about; "": none, or the path has it
	token       *access.Token // expired or revoked, whose secret the request had; nil: none
}

// Error makes a problem an error that handlers return.
func (p *Problem) Error() string { return p.Detail }

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

// ProblemOf turns any error into a problem. No other code does this.
func ProblemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if e := clock.Described(err); e != nil {
		p := &Problem{Status: kindStatuses[e.Kind], Code: e.Code, Field: e.Field, Detail: e.Detail, Alarm: e.Alarm,
			RetryAfter: e.RetryAfter, token: access.EndedToken(err)}
		if refused, is := errors.AsType[*aboutError](err); is {
			p.application = refused.application
		}
		return p
	}
	return &Problem{
		Status: http.StatusInternalServerError, Code: CodeInternal, Cause: err,
		Detail: "an unexpected error; it is in the server's log, and the change may or may not have been made",
	}
}

// ServerFault reports whether the server failed, so that the same request may succeed later.
func (p *Problem) ServerFault() bool { return p.Status >= http.StatusInternalServerError }

// RetrySeconds returns the value of Retry-After, at least 1.
func (p *Problem) RetrySeconds() int64 {
	return max(1, int64((p.RetryAfter+time.Second-1)/time.Second))
}

// Note counts the problem, logs it if it is unexpected, and records it in the audit if the sender is at fault.
func (f *Front) Note(r *http.Request, p *Problem) {
	f.metrics.problems.WithLabelValues(p.Code).Inc()
	if p.denies(CallerOf(r)) {
		sender := *Actor(r)
		if p.token != nil {
			sender.Name, sender.Token = p.token.Name, p.token.ID
		}
		f.access.Refused(access.Refusal{
			Sender: sender, Code: p.Code, Request: r.Pattern,
			Application: cmp.Or(p.application, applicationIn(r.URL.Path)), Detail: p.Detail,
		})
	}
	if p.Cause == nil {
		return
	}
	attrs := []any{"request_id", RequestID(r), "method", r.Method, "path", r.URL.EscapedPath(), "err", p.Cause}
	if panicked, ok := errors.AsType[*panicError](p.Cause); ok {
		attrs = append(attrs, "stack", string(panicked.stack))
	}
	f.log.Error("request failed", attrs...)
}

// denies reports whether the problem is a refusal because of the sender of a request. Too many operations of a valid
// token are none.
func (p *Problem) denies(caller *access.Caller) bool {
	switch p.Code {
	case clock.CodeUnauthenticated, clock.CodeForbidden, CodeCrossSite, CodeUnknownHost:
		return true
	case clock.CodeRateLimited:
		return caller.TokenID() == ""
	}
	return false
}

// applicationIn returns the application in the path of a request, "" for none.
func applicationIn(path string) string {
	rest, below := strings.CutPrefix(path, "/v1/applications/")
	application, _, _ := strings.Cut(rest, "/")
	if !below || clock.ValidateApplication(application) != nil {
		return ""
	}
	return application
}

// panicError is the caught panic of a handler.
type panicError struct {
	value any
	stack []byte
}

// Error returns the panic's value as text.
func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }
