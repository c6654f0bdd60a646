package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Codes of errors that programs often tell apart. The OpenAPI document of the service lists all codes.
const (
	CodeUnknownAlarm     = "unknown_alarm"     // no alarm has this business id
	CodeConditionFailed  = "condition_failed"  // the alarm does not meet the condition
	CodeAlreadyRung      = "already_rung"      // too late to cancel: the alarm has rung
	CodeAlreadyExpired   = "already_expired"   // too late to cancel: the alarm has expired
	CodeAlreadyDead      = "already_dead"      // too late to cancel: the alarm is dead
	CodeAlreadyCancelled = "already_cancelled" // too late to pause, resume or trigger: the alarm is cancelled
	CodePaused           = "paused"            // cannot trigger or backfill: the alarm is paused
	CodeUnreadable       = "unreadable"        // the stored row cannot be read: only a set, a cancel or a discard changes it
	CodeBackfillRuns     = "backfill_runs"     // cannot backfill: the alarm has a backfill that is not over
	CodeRingInDoubt      = "ring_in_doubt"     // a ring may be out, so the alarm cannot be changed now
	CodeNotDead          = "not_dead"          // only dead and expired alarms can be kicked or discarded
	CodeUnknownRing      = "unknown_ring"      // the application has no such ring
	CodeStaleRing        = "stale_ring"        // it is too late to answer this ring
	CodeRingsOnce        = "rings_once"        // the alarm has no occurrences, because it has no repeat
	CodeRingsElsewhere   = "rings_go_elsewhere"
	CodeUnavailable      = "unavailable"          // the database is not available; nothing was changed
	CodeOverloaded       = "overloaded"           // too many requests; nothing was changed
	CodeKeyOverloaded    = "key_overloaded"       // too many requests for this alarm; nothing was changed
	CodeUnconfirmed      = "unconfirmed"          // the change may have been made
	CodeInvalidValue     = "invalid_value"        // Field names the wrong part of the input
	CodeRateLimited      = "rate_limited"         // too many operations of the token; nothing was changed
	CodeQuotaPending     = "quota_pending_alarms" // the application has as many alarms as its quota allows
	CodeQuotaSets        = "quota_sets_per_second"
	CodeUnauthenticated  = "unauthenticated" // the token is missing, unknown, expired or revoked
	CodeForbidden        = "forbidden"       // the role or the applications of the token do not allow the call
)

// Error is the failure of a call.
type Error struct {
	Status     int           // status of the response; 0 if there was none
	Code       string        // stable name of the failure; empty if the response has none
	Field      string        // wrong part of the input; empty if no part is wrong
	Detail     string        // text for people
	RetryAfter time.Duration // wait that the service asks for before a repeat; 0: none
	Alarm      *Alarm        // alarm that caused the refusal; nil if there is none
	// Unconfirmed tells that this try or an earlier try of the call may have changed something.
	Unconfirmed bool
	Err         error // cause of a failure without a response; nil otherwise

	again bool // another try may succeed
}

// Error returns the detail, and the code with the field.
func (e *Error) Error() string {
	var b strings.Builder
	switch {
	case e.Detail != "":
		b.WriteString(e.Detail)
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	default:
		fmt.Fprintf(&b, "the server returned status %d", e.Status)
	}
	var more []string
	if e.Code != "" {
		more = append(more, e.Code)
	}
	if e.Field != "" {
		more = append(more, "field "+e.Field)
	}
	if e.RetryAfter > 0 {
		more = append(more, "repeat after "+strconv.Itoa(int(e.RetryAfter/time.Second))+" s")
	}
	if len(more) > 0 {
		fmt.Fprintf(&b, " (%s)", strings.Join(more, ", "))
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// invalid returns the error for input that the client itself refuses.
func invalid(field, detail string) *Error {
	return &Error{Code: CodeInvalidValue, Field: field, Detail: detail}
}

// problem is an error of the service (RFC 9457).
type problem struct {
	Code   string          `json:"code"`
	Field  string          `json:"field"`
	Detail string          `json:"detail"`
	Alarm  json.RawMessage `json:"alarm"`
}

// refusal returns the error for a response that is not 2xx. body may be anything, because a proxy may have sent it.
func refusal(status int, header http.Header, body []byte) *Error {
	e := &Error{Status: status, RetryAfter: retryAfter(header.Get("Retry-After"))}
	e.again, e.Unconfirmed = again(status), mayHaveChanged(status)
	var p problem
	if json.Unmarshal(body, &p) != nil || p.Code == "" {
		return e
	}
	e.Code, e.Field, e.Detail = p.Code, p.Field, p.Detail
	switch e.Code {
	case CodeUnavailable, CodeOverloaded, CodeKeyOverloaded:
		e.Unconfirmed = false
	}
	var a Alarm
	if json.Unmarshal(p.Alarm, &a) == nil && a.BusinessID != "" {
		e.Alarm = &a
	}
	return e
}

// again reports whether another try may succeed after a response with this status.
func again(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// mayHaveChanged reports whether the service may have made the change, by the status alone. A proxy sends 502 and 504
// when it does not know.
func mayHaveChanged(status int) bool { return status >= http.StatusInternalServerError }

// retryAfter reads a Retry-After header in either of its forms. It returns 0 for a value that it cannot read, and for a
// time that has passed.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, time.Until(at).Round(time.Second))
	}
	return 0
}

// broken returns the error for a try without a whole response.
func broken(err error) *Error {
	var e *url.Error
	if errors.As(err, &e) {
		err = e.Err // the text of a url.Error repeats the URL
	}
	return &Error{Err: err, again: true, Unconfirmed: !isDialError(err)}
}

// unreadable returns the error for a response with an expected status that is not clockd's.
func unreadable(status int, err error) *Error {
	return &Error{Status: status, Detail: "the server's response cannot be read: " + err.Error(), Err: err,
		Unconfirmed: true}
}
