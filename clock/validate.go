package clock

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Bounds of a set's fields. The limit of the payload is configurable; the other bounds are part of the contract.
const (
	MaxApplication    = 64  // bytes
	MaxBusinessID     = 128 // bytes
	MaxContentType    = 128 // bytes
	MaxTraceparent    = 55  // bytes: version 00 of W3C Trace Context
	DefaultMaxPayload = 64 << 10
	MinAckTimeout     = time.Second
	MaxAckTimeout     = 24 * time.Hour
	DefaultMaxRings   = 10
	MaxRingsLimit     = 1000
	MaxPriority       = 9
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
)

// Invalid returns an ErrInvalid that names the field.
func Invalid(code, field, detail string) error { return invalid(code, field, detail) }

// Validate returns an ErrInvalid that names the offending part of the key, or nil.
func (k Key) Validate() error {
	if err := ValidateApplication(k.Application); err != nil {
		return err
	}
	return ValidateBusinessID(k.BusinessID)
}

// ValidateApplication demands 1 to 64 characters of A-Z a-z 0-9 . _ - that begin with a letter or digit.
func ValidateApplication(s string) error {
	ok := s != "" && len(s) <= MaxApplication
	for i := 0; ok && i < len(s); i++ {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		ok = alnum || i > 0 && strings.IndexByte("._-", c) >= 0
	}
	if !ok {
		return invalid(CodeInvalidApplication, "application",
			"application must be 1 to 64 of A-Z a-z 0-9 . _ - and begin with a letter or digit")
	}
	return nil
}

// ValidateBusinessID demands 1 to 128 bytes of UTF-8 without control characters and without blanks at either end. "." and ".." are
// invalid too.
func ValidateBusinessID(s string) error {
	switch {
	case s == "" || len(s) > MaxBusinessID:
		return invalid(CodeInvalidBusinessID, "business_id", fmt.Sprintf("business_id must be 1 to %d bytes, not %d", MaxBusinessID, len(s)))
	case !utf8.ValidString(s):
		return invalid(CodeInvalidBusinessID, "business_id", "business_id must be UTF-8")
	case s == "." || s == "..":
		return invalid(CodeInvalidBusinessID, "business_id", `business_id must not be "." or ".."`)
	case strings.TrimSpace(s) != s:
		return invalid(CodeInvalidBusinessID, "business_id", "business_id must not begin or end with a blank")
	case strings.ContainsFunc(s, unicode.IsControl):
		return invalid(CodeInvalidBusinessID, "business_id", "business_id must not contain control characters")
	}
	return nil
}

// Validate returns an ErrInvalid or ErrTooLarge that names the first offending field, or nil. maxPayload is in bytes.
func (s *Set) Validate(maxPayload int) error {
	if err := s.Key.Validate(); err != nil {
		return err
	}
	if err := s.validateTimes(); err != nil {
		return err
	}
	if len(s.Payload) > maxPayload {
		return &Error{
			Kind: ErrTooLarge, Code: CodePayloadTooLarge, Field: "payload",
			Detail: fmt.Sprintf("payload has %d bytes; at most %d are kept", len(s.Payload), maxPayload),
		}
	}
	if err := s.validateOptions(); err != nil {
		return err
	}
	return s.Retry.Validate()
}

func (s *Set) validateTimes() error {
	switch {
	case s.Delay.Given && s.RingAt != NoInstant:
		return invalid(CodeAmbiguous, "delay", "give ring_at or delay, not both")
	case s.Delay.Given && (s.Delay.Span < 0 || s.Delay.Span > maxDelay):
		return invalid(CodeOutOfRange, "delay", "delay must be from 0 to 100 years")
	case !s.Delay.Given && s.RingAt == NoInstant:
		return invalid(CodeRequired, "ring_at", "give ring_at or delay")
	case !s.Delay.Given && !s.RingAt.Valid():
		return invalid(CodeOutOfRange, "ring_at", fmt.Sprintf("ring_at must be from 0 to %d", int64(MaxInstant)))
	case s.LatestRingAt != NoInstant && !s.LatestRingAt.Valid():
		return invalid(CodeOutOfRange, "latest_ring_at", fmt.Sprintf("latest_ring_at must be from 0 to %d", int64(MaxInstant)))
	case !s.Delay.Given:
		return s.validateLatest()
	}
	return nil
}

const maxDelay = 100 * 365 * 24 * time.Hour

// validateLatest checks LatestRingAt against RingAt. A set with a delay must be resolved first.
func (s *Set) validateLatest() error {
	if s.LatestRingAt != NoInstant && s.LatestRingAt < s.RingAt {
		return invalid(CodeOutOfRange, "latest_ring_at", fmt.Sprintf("latest_ring_at %s lies before the ring at %s", s.LatestRingAt, s.RingAt))
	}
	return nil
}

func (s *Set) validateOptions() error {
	switch {
	case s.ContentType == "" || len(s.ContentType) > MaxContentType || strings.ContainsFunc(s.ContentType, notPrintableASCII):
		return invalid(CodeInvalidValue, "content_type", fmt.Sprintf("content_type must be 1 to %d printable ASCII characters", MaxContentType))
	case s.AckTimeout != 0 && (s.AckTimeout < MinAckTimeout || s.AckTimeout > MaxAckTimeout || !wholeMillis(s.AckTimeout)):
		return invalid(CodeOutOfRange, "ack_timeout", "ack_timeout must be from 1s to 24h, in whole milliseconds")
	case s.MaxRings < 1 || s.MaxRings > MaxRingsLimit:
		return invalid(CodeOutOfRange, "max_rings", fmt.Sprintf("max_rings must be from 1 to %d", MaxRingsLimit))
	case s.Delivery != AtLeastOnce && s.Delivery != AtMostOnce:
		return invalid(CodeInvalidValue, "delivery", `delivery must be "at_least_once" or "at_most_once"`)
	case s.Delivery == AtMostOnce && s.AckTimeout != 0:
		return invalid(CodeAmbiguous, "delivery", "delivery at_most_once never rings again, ack_timeout does until it is acknowledged: give one of them")
	case s.Priority < 0 || s.Priority > MaxPriority:
		return invalid(CodeOutOfRange, "priority", fmt.Sprintf("priority must be from 0 to %d", MaxPriority))
	case len(s.Traceparent) > MaxTraceparent || strings.ContainsFunc(s.Traceparent, notPrintableASCII):
		return invalid(CodeInvalidValue, "traceparent", "traceparent must be as W3C Trace Context writes it")
	}
	return nil
}

func notPrintableASCII(r rune) bool { return r < ' ' || r > '~' }

// resolved returns a copy of s with RingAt set to now plus the delay. It does not change s. It also checks LatestRingAt, which
// Validate could not check without RingAt.
func (s *Set) resolved(now Instant) (*Set, error) {
	r := *s
	r.RingAt, r.Delay = now.Add(s.Delay.Span), Delay{}
	return &r, r.validateLatest()
}
