package clock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The kinds of failure. Packages tell errors apart by these alone, with errors.Is. Error has the details.
var (
	ErrInvalid      = errors.New("invalid")             // the request is at fault; a repeat does not help
	ErrTooLarge     = errors.New("too large")           // as ErrInvalid: a size is over its limit
	ErrNotFound     = errors.New("not found")           // the key has no row
	ErrConflict     = errors.New("conflict")            // the alarm's state does not allow the request
	ErrPrecondition = errors.New("precondition failed") // the request's own condition does not hold
	ErrUnavailable  = errors.New("unavailable")         // nothing was changed; safe to repeat later
	ErrUnconfirmed  = errors.New("unconfirmed")         // the change may be committed or not; the caller repeats (a delay counts from the repeat)

	// ErrRowLocked is the cause of an ErrUnavailable whose op has waited for its row as long as it may.
	ErrRowLocked = errors.New("the row stayed locked")

	ErrUnauthenticated = errors.New("unauthenticated") // the caller is not known
	ErrForbidden       = errors.New("forbidden")       // the caller is known, and may not do this
	ErrLimited         = errors.New("limited")         // the caller has done too much; nothing was changed; safe to repeat later
)

// Codes of the errors. Clients match on them.
const (
	CodeUnknownAlarm     = "unknown_alarm"
	CodeAlreadyRung      = "already_rung"
	CodeAlreadyExpired   = "already_expired"
	CodeAlreadyDead      = "already_dead"
	CodeAlreadyCancelled = "already_cancelled"
	CodeRingInDoubt      = "ring_in_doubt"
	CodeUnknownRing      = "unknown_ring"
	CodeStaleRing        = "stale_ring"
	CodeNotDead          = "not_dead"
	CodeRingsOnce        = "rings_once" // the alarm has no occurrences
	CodeUnknownJob       = "unknown_job"
	CodeRepeats          = "repeats"       // the rule of the alarm says when it rings
	CodeUnreadable       = "unreadable"    // the row of the alarm cannot be read
	CodePaused           = "paused"        // a paused alarm does not ring
	CodeBackfillRuns     = "backfill_runs" // an alarm has one backfill at a time
	CodeUnknownToken     = "unknown_token"
	CodeTokenUnchanged   = "token_unchanged" // the token does not allow the change
	CodeOwned            = "owned"           // another manifest has made it
	CodeMissingKey       = "missing_key"     // a node has no key of encrypted settings
	CodeConditionFailed  = "condition_failed"
	CodeUnavailable      = "unavailable"
	CodeOverloaded       = "overloaded"     // the application has too many requests in the queue
	CodeKeyOverloaded    = "key_overloaded" // too many requests wait for one alarm
	CodeUnconfirmed      = "unconfirmed"
	CodeUnauthenticated  = "unauthenticated"
	CodeForbidden        = "forbidden"
	CodeRateLimited      = "rate_limited"
	CodeQuotaPending     = "quota_pending_alarms"  // the application has as many pending alarms as its quota allows
	CodeQuotaSets        = "quota_sets_per_second" // the application sets more alarms a second than its quota allows
)

// Codes of invalid input.
const (
	CodeInvalidApplication = "invalid_application"
	CodeInvalidBusinessID  = "invalid_business_id"
	CodeOutOfRange         = "out_of_range"
	CodeRequired           = "required"
	CodeAmbiguous          = "ambiguous"
	CodeInvalidValue       = "invalid_value"
	CodeUnknownField       = "unknown_field"
	CodePayloadTooLarge    = "payload_too_large"
	CodeInvalidCursor      = "invalid_cursor"
	CodeBatchTooLarge      = "batch_too_large"
	CodeTargetNotAllowed   = "target_not_allowed"   // the settings of the application do not let alarms name the target
	CodeReceiverNotAllowed = "receiver_not_allowed" // the settings of the application do not let alarms bring the field
	CodeUnknownDestination = "unknown_destination"  // the settings of the application have no such destination
)

// Error is a failure with its details. It unwraps to its kind and its cause.
type Error struct {
	Kind       error         // ErrInvalid, ErrTooLarge, ...
	Code       string        // stable code for programs
	Field      string        // offending field of the input, as "ring_at" or "retry.cap"; empty if no field is at fault
	Detail     string        // a sentence for a person
	Alarm      *Alarm        // the unchanged alarm, if its row decided the refusal; else nil
	RetryAfter time.Duration // with ErrUnavailable and ErrLimited: time until a repeat makes sense; 0 if unknown
	Cause      error         // underlying error, for logs only; may be nil
}

// Error returns the detail, followed by the cause if there is one.
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

// Unavailable returns an ErrUnavailable around cause. Stores use it for a failure after which certainly nothing is
// written.
func Unavailable(cause error) error {
	return &Error{Kind: ErrUnavailable, Code: CodeUnavailable, Detail: "the database is not available",
		RetryAfter: time.Second, Cause: cause}
}

// Unconfirmed returns an ErrUnconfirmed around cause. Stores use it for a failure that left a COMMIT without a reply.
func Unconfirmed(cause error) error {
	return &Error{
		Kind: ErrUnconfirmed, Code: CodeUnconfirmed, RetryAfter: time.Second, Cause: cause,
		Detail: "the database did not say whether the change was committed; repeat the request: the delay of a set counts from the repeat",
	}
}

// UnknownAlarm returns the ErrNotFound of a key without a row.
func UnknownAlarm(key Key) error {
	return &Error{
		Kind: ErrNotFound, Code: CodeUnknownAlarm,
		Detail: fmt.Sprintf("application %q has no alarm %q", key.Application, key.BusinessID),
	}
}

// UnknownJob returns the error for a job that does not exist.
func UnknownJob(id string) *Error {
	return &Error{Kind: ErrNotFound, Code: CodeUnknownJob, Detail: fmt.Sprintf("there is no job %.64q", id)}
}

// RingsOnce returns the refusal to list the occurrences of an alarm that has no repeat.
func RingsOnce(a *Alarm) error {
	return &Error{Kind: ErrConflict, Code: CodeRingsOnce, Detail: "the alarm rings once: it has no repeat", Alarm: a}
}

// kindDetails holds the code and the detail of errors that have none, by kind.
var kindDetails = []struct {
	kind         error
	code, detail string
}{
	{ErrInvalid, CodeInvalidValue, "the request is invalid"},
	{ErrTooLarge, CodePayloadTooLarge, "the payload is too large"},
	{ErrNotFound, CodeUnknownAlarm, "there is no such alarm"},
	{ErrConflict, "conflict", "the alarm's state does not allow it"},
	{ErrPrecondition, CodeConditionFailed, "the condition does not hold"},
	{ErrUnconfirmed, CodeUnconfirmed,
		"the change may or may not have been made; repeat the request: the delay of a set counts from the repeat"},
	{ErrUnavailable, CodeUnavailable, "the database is not available; repeat the request"},
	{ErrUnauthenticated, CodeUnauthenticated, "the request needs a token"},
	{ErrForbidden, CodeForbidden, "the caller may not do this"},
	{ErrLimited, CodeRateLimited, "too many requests; repeat later"},
}

// Described returns the kind and the details of err. An error of a kind without details gets the details of its kind.
// Nil: err is of no kind, so it is unexpected.
func Described(err error) *Error {
	for _, k := range kindDetails {
		if !errors.Is(err, k.kind) {
			continue
		}
		if e, ok := errors.AsType[*Error](err); ok {
			described := *e
			described.Kind = k.kind
			return &described
		}
		return &Error{Kind: k.kind, Code: k.code, Detail: k.detail}
	}
	return nil
}

// UnavailableIfLate turns err into ErrUnavailable if ctx has ended: then the database was too slow. An ErrUnconfirmed
// stays, because something may have been written. Other errors stay unexpected.
func UnavailableIfLate(ctx context.Context, err error) error {
	if ctx.Err() != nil && !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnconfirmed) {
		return Unavailable(err)
	}
	return err
}

// Invalid returns an ErrInvalid that names the field.
func Invalid(code, field, detail string) error { return invalid(code, field, detail) }

// Within returns an error whose field is below an object, such as webhook.url for the field url within webhook. An error
// without a field that is not about the request stays as it is.
func Within(object string, err error) error {
	e, is := errors.AsType[*Error](err)
	if !is || e.Field == "" && !errors.Is(err, ErrInvalid) {
		return err
	}
	below := *e
	if below.Field = object; e.Field != "" {
		below.Field += "." + e.Field
	}
	return &below
}

func invalid(code, field, detail string) *Error {
	return &Error{Kind: ErrInvalid, Code: code, Field: field, Detail: detail}
}
