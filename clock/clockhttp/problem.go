package clockhttp

import (
	"net/http"
	"strconv"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
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
	codeClientLeft           = "client_left" // reaches only clients that closed their sending half and still read
)

const problemJSON = "application/problem+json"

// absentPart returns the error of a route whose part this server does not have. A repeat does not help.
func absentPart(detail string) *clock.Error {
	return &clock.Error{Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, Detail: detail}
}

func problemOfEcho(he *echo.HTTPError) *front.Problem {
	switch he.Code {
	case http.StatusNotFound:
		return &front.Problem{Status: he.Code, Code: codeUnknownPath,
			Detail: "this path does not exist; /openapi.yaml lists all paths"}
	case http.StatusMethodNotAllowed:
		return &front.Problem{Status: he.Code, Code: codeMethodNotAllowed,
			Detail: "this path does not take the method; the header Allow lists its methods"}
	}
	return &front.Problem{Status: he.Code, Code: front.CodeInternal, Detail: http.StatusText(he.Code), Cause: he}
}

// appendProblem appends the problem as JSON, with the id of its request.
func appendProblem(b []byte, p *front.Problem, requestID string) []byte {
	b = append(b, `{"title":`...)
	b = appendString(b, http.StatusText(p.Status))
	b = append(b, `,"status":`...)
	b = strconv.AppendInt(b, int64(p.Status), 10)
	b = appendCause(b, p)
	b = appendString(append(b, `,"request_id":`...), requestID)
	if p.Alarm != nil {
		b = append(b, `,"alarm":`...)
		b = appendAlarm(b, p.Alarm)
	}
	return append(b, '}')
}

// appendCause appends code, field and detail as members, each with a comma before it.
func appendCause(b []byte, p *front.Problem) []byte {
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
	p := front.ProblemOf(err)
	s.front.Note(c.Request(), p)
	if c.Response().Committed {
		panic(http.ErrAbortHandler)
	}
	h := c.Response().Header()
	if p.Status == http.StatusServiceUnavailable || p.Status == http.StatusTooManyRequests {
		h.Set("Retry-After", strconv.FormatInt(p.RetrySeconds(), 10))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="clockd"`)
	}
	if p.Alarm != nil {
		h.Set("ETag", etag(p.Alarm))
	}
	return s.respond(c, p.Status, problemJSON, append(appendProblem(make([]byte, 0, 512), p, front.RequestID(c.Request())), '\n'))
}
