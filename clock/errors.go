package clock

import (
	"errors"
	"time"
)

// The kinds of failure. Packages tell errors apart by these alone, with errors.Is; what more a caller needs is in Error.
var (
	ErrInvalid      = errors.New("invalid")             // the request is at fault; repeating it does not help
	ErrTooLarge     = errors.New("too large")           // as ErrInvalid, for a size over its cap
	ErrNotFound     = errors.New("not found")           // no row of that key
	ErrConflict     = errors.New("conflict")            // the alarm's state does not allow it
	ErrPrecondition = errors.New("precondition failed") // the request's own condition does not hold
	ErrUnavailable  = errors.New("unavailable")         // nothing was changed; safe to repeat later
	ErrUnconfirmed  = errors.New("unconfirmed")         // may or may not have been committed; safe to repeat
)

// Codes of the errors that people program against.
const (
	CodeUnknownAlarm    = "unknown_alarm"
	CodeAlreadyRung     = "already_rung"
	CodeAlreadyExpired  = "already_expired"
	CodeAlreadyDead     = "already_dead"
	CodeRingInDoubt     = "ring_in_doubt"
	CodeUnknownRing     = "unknown_ring"
	CodeStaleRing       = "stale_ring"
	CodeNotDead         = "not_dead"
	CodeConditionFailed = "condition_failed"
	CodeUnavailable     = "unavailable"
	CodeOverloaded      = "overloaded"
	CodeUnconfirmed     = "unconfirmed"
)

// Error is a failure with all that its reader needs. It unwraps to its kind.
type Error struct {
	Kind       error         // one of the kinds above
	Code       string        // stable, for programs
	Field      string        // of the input, where one is at fault: "ring_at", "retry.cap"
	Detail     string        // a sentence for a person
	Alarm      *Alarm        // as it stands, where a row decided the refusal
	RetryAfter time.Duration // with ErrUnavailable: when to repeat, 0 if unknown
	Cause      error         // what it came of, for logs only
}

// Error returns the detail, with the cause where there is one.
func (e *Error) Error() string {
	if e.Cause != nil {
		return e.Detail + ": " + e.Cause.Error()
	}
	return e.Detail
}

// Unwrap gives errors.Is the kind and errors.As the cause.
func (e *Error) Unwrap() []error {
	if e.Cause != nil {
		return []error{e.Kind, e.Cause}
	}
	return []error{e.Kind}
}

// Unavailable returns an ErrUnavailable around cause; stores wrap what a definite failure of the database was.
func Unavailable(cause error) error {
	return &Error{Kind: ErrUnavailable, Code: CodeUnavailable, Detail: "the database is not available", RetryAfter: time.Second, Cause: cause}
}

// Unconfirmed returns an ErrUnconfirmed around cause; stores wrap what left a COMMIT without an answer.
func Unconfirmed(cause error) error {
	return &Error{
		Kind: ErrUnconfirmed, Code: CodeUnconfirmed, RetryAfter: time.Second, Cause: cause,
		Detail: "the database did not say whether the change was committed; repeating the request is safe",
	}
}

func invalid(code, field, detail string) *Error {
	return &Error{Kind: ErrInvalid, Code: code, Field: field, Detail: detail}
}
