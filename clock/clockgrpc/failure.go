package clockgrpc

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

// failures turns the errors of all procedures into errors of connect.
type failures struct{}

// WrapUnary wraps a procedure with one response.
func (failures) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		response, err := next(ctx, request)
		return response, failureOf(ctx, err)
	}
}

// WrapStreamingClient returns next, because this package has no client.
func (failures) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler wraps a procedure with a stream.
func (failures) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return failureOf(ctx, next(ctx, conn))
	}
}

// errNotBegun is the error of a call that has ended before its procedure began.
var errNotBegun = errors.New("the call has ended before it began, and nothing was changed")

// errEnded is the error of a call that has ended during its procedure.
var errEnded = errors.New("the call has ended before its response, and a change may have been made")

// endCode returns the code of a call whose context has ended with the error.
func endCode(ended error) connect.Code {
	if errors.Is(ended, context.Canceled) {
		return connect.CodeCanceled
	}
	return connect.CodeDeadlineExceeded
}

// failureOf returns the error that the client gets for err.
func failureOf(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*connect.Error](err); ok {
		return e
	}
	if err == context.DeadlineExceeded || err == context.Canceled { //nolint:errorlint // connect returns it unwrapped if the call ends before its procedure
		return connect.NewError(endCode(err), errNotBegun)
	}
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) && clock.Described(err) == nil { // the end of the call is no fault of the server
		return connect.NewError(endCode(ended), errEnded)
	}
	c := callOf(ctx)
	return newFailure(c.s.front.Refusal(c.request, err))
}

// statusCodes holds the code for each HTTP status that a failure may have. Another status is CodeInternal.
var statusCodes = map[int]connect.Code{
	http.StatusBadRequest:            connect.CodeInvalidArgument,
	http.StatusUnprocessableEntity:   connect.CodeInvalidArgument,
	http.StatusRequestEntityTooLarge: connect.CodeInvalidArgument,
	http.StatusUnsupportedMediaType:  connect.CodeInvalidArgument,
	http.StatusUnauthorized:          connect.CodeUnauthenticated,
	http.StatusForbidden:             connect.CodePermissionDenied,
	http.StatusNotFound:              connect.CodeNotFound,
	http.StatusConflict:              connect.CodeFailedPrecondition,
	http.StatusPreconditionFailed:    connect.CodeAborted, // the client reads the alarm and tries again
	http.StatusTooManyRequests:       connect.CodeResourceExhausted,
	http.StatusRequestTimeout:        connect.CodeUnavailable,
	http.StatusServiceUnavailable:    connect.CodeUnavailable,
}

func codeOf(status int) connect.Code {
	if code, known := statusCodes[status]; known {
		return code
	}
	return connect.CodeInternal
}

// newFailure returns the error of connect for a failure of the server or the domain.
func newFailure(status int, e *clock.Error) *connect.Error {
	failure := connect.NewError(codeOf(status), errors.New(e.Detail))
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		e.RetryAfter = max(e.RetryAfter, time.Second) // as over HTTP
		failure.Meta().Set("Retry-After", strconv.FormatInt(int64((e.RetryAfter+time.Second-1)/time.Second), 10))
	}
	if detail, err := connect.NewErrorDetail(problemOf(e)); err == nil { // fails only for a message that cannot be encoded
		failure.AddDetail(detail)
	}
	return failure
}

// problemOf returns the details of a failure. Its alarm has no payload, because clients limit the headers that carry
// it.
func problemOf(e *clock.Error) *clockdv1.Problem {
	p := &clockdv1.Problem{Code: e.Code, Field: e.Field}
	if e.Alarm != nil {
		brief := *e.Alarm
		brief.Payload, brief.PayloadKind = nil, clock.NoPayload
		p.Alarm = alarmOf(&brief)
	}
	if e.RetryAfter > 0 {
		p.RetryAfter = durationpb.New(e.RetryAfter)
	}
	return p
}

// refuse writes the response to a request that the server refuses.
func (s *Service) refuse(w http.ResponseWriter, r *http.Request, status int, e *clock.Error) {
	_ = s.errors.Write(w, r, newFailure(status, e)) // fails only if the client has left
}
