package clock

import (
	"fmt"
	"strings"
	"time"

	"github.com/clockd/clockd/clock/repeat"
)

// Bounds of a set's fields. The limit of the payload is configurable; the other bounds are part of the contract.
const (
	MaxContentType    = 128 // bytes
	MaxTraceparent    = 55  // bytes: version 00 of W3C Trace Context
	DefaultMaxPayload = 64 << 10
	MinAckTimeout     = time.Second
	MaxAckTimeout     = 24 * time.Hour
	DefaultMaxRings   = 10
	MaxRingsLimit     = 1000
	MaxPriority       = 9
)

// Set asks that an alarm has this content. Decide creates, keeps or changes the alarm.
type Set struct {
	Key
	Content           // RingAt is NoInstant until Delay is resolved
	Delay       Delay // alternative to RingAt
	Traceparent string
	If          Condition
	Omitted     SetOptions // options that the request does not name; their values are defaults
	// Defaulted has the omitted options whose defaults come from the application's settings (Service.Submit). Decide
	// does not compare them with an alarm that is over: it would not know whether the request or the settings have
	// changed, and a repeated set must not ring twice.
	Defaulted SetOptions
	Room      Room // see Admission; nil: the set may add a pending alarm
}

// EmptySet returns a set as it is before any field of its request is read: without times, and with the default of each
// option.
func EmptySet() Set {
	return Set{
		Content: Content{RingAt: NoInstant, LatestRingAt: NoInstant, Retry: DefaultRetryPolicy(),
			MaxRings: DefaultMaxRings},
		Omitted: RetryOption | AckTimeoutOption | MaxRingsOption,
	}
}

// SetOptions is a set of options of a set.
type SetOptions uint8

// The options that settings have defaults for.
const (
	RetryOption SetOptions = 1 << iota
	AckTimeoutOption
	MaxRingsOption
)

// Has reports whether the option is in the set.
func (o SetOptions) Has(option SetOptions) bool { return o&option != 0 }

// withDefaults returns a copy of s with the defaults of its application. An alarm that rings at most once needs no
// acknowledgement.
func (s *Set) withDefaults(defaults *Defaults) *Set {
	r := *s
	r.Defaulted = s.Omitted
	if s.Omitted.Has(RetryOption) {
		r.Retry = defaults.RetryPolicy()
	}
	if s.Omitted.Has(AckTimeoutOption) && s.Delivery != AtMostOnce {
		r.AckTimeout = defaults.AckTime(s.Target)
	}
	if s.Omitted.Has(MaxRingsOption) {
		r.MaxRings = defaults.Rings()
	}
	return &r
}

// scheduled returns the set with the anchor of its rule: a rule without one keeps the stored anchor, or begins now.
func (s *Set) scheduled(row *Alarm, now Instant) *Set {
	if s.Repeat == nil {
		return s
	}
	var stored repeat.Rule
	if row != nil && row.Repeat != nil {
		stored = *row.Repeat
	}
	r := *s
	anchored := s.Repeat.Anchored(stored, int64(now))
	r.Repeat = &anchored
	return &r
}

// neverRings reports whether the set has a rule without an occurrence after now.
func (s *Set) neverRings(now Instant) bool {
	if s.Repeat == nil {
		return false
	}
	_, occurs := s.Repeat.First(int64(now))
	return !occurs
}

// sameBesidesDefaults reports whether the alarm has the content of the set, apart from the options in Defaulted.
func (s *Set) sameBesidesDefaults(row *Alarm) bool {
	content := s.Content
	if s.Defaulted.Has(RetryOption) {
		content.Retry = row.Retry
	}
	if s.Defaulted.Has(AckTimeoutOption) {
		content.AckTimeout = row.AckTimeout
	}
	if s.Defaulted.Has(MaxRingsOption) {
		content.MaxRings = row.MaxRings
	}
	return row.Same(&content)
}

// Delay is a time span that begins when the request arrives, by the database's clock.
type Delay struct {
	Given bool
	Span  time.Duration
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
	if s.PayloadKind == JSON && nestsTooDeep(s.Payload) {
		return invalid(CodeOutOfRange, "payload",
			fmt.Sprintf("payload nests arrays and objects more than %d levels deep", MaxPayloadDepth))
	}
	if err := s.validateOptions(); err != nil {
		return err
	}
	return s.Retry.Validate()
}

func (s *Set) validateTimes() error {
	switch {
	case s.Repeat != nil:
		return s.validateRepeat()
	case s.Delay.Given && s.RingAt != NoInstant:
		return invalid(CodeAmbiguous, "delay", "give ring_at or delay, not both")
	case s.Delay.Given && (s.Delay.Span < 0 || s.Delay.Span > MaxDelay):
		return invalid(CodeOutOfRange, "delay", "delay must be from 0 to 100 years")
	case !s.Delay.Given && s.RingAt == NoInstant:
		return invalid(CodeRequired, "ring_at", "give ring_at, delay or repeat")
	case !s.Delay.Given && !s.RingAt.Valid():
		return invalid(CodeOutOfRange, "ring_at", fmt.Sprintf("ring_at must be from 0 to %d", int64(MaxInstant)))
	case s.LatestRingAt != NoInstant && !s.LatestRingAt.Valid():
		return invalid(CodeOutOfRange, "latest_ring_at",
			fmt.Sprintf("latest_ring_at must be from 0 to %d", int64(MaxInstant)))
	case !s.Delay.Given:
		return s.validateLatest()
	}
	return nil
}

// validateRepeat checks the options that an alarm with a rule cannot have. The rule itself is valid.
func (s *Set) validateRepeat() error {
	switch {
	case s.Delay.Given:
		return invalid(CodeAmbiguous, "delay", "give repeat or delay, not both: the rule says when the alarm rings")
	case s.RingAt != NoInstant:
		return invalid(CodeAmbiguous, "ring_at", "give repeat or ring_at, not both: the rule says when the alarm rings")
	case s.LatestRingAt != NoInstant:
		return invalid(CodeAmbiguous, "latest_ring_at",
			"with repeat, give repeat.latest_after: it counts from each occurrence")
	case s.If.Kind == Earlier || s.If.Kind == Later:
		return invalid(CodeAmbiguous, "if", "if earlier and later compare single times; they do not fit repeat")
	case s.Delivery == AtMostOnce:
		return invalid(CodeAmbiguous, "delivery", "delivery at_most_once does not fit repeat")
	}
	return nil
}

// MaxDelay is the longest delay of a set: 100 years of 365 days.
const MaxDelay = 100 * 365 * 24 * time.Hour

// validateLatest checks LatestRingAt against RingAt. A set with a delay must be resolved first.
func (s *Set) validateLatest() error {
	if s.LatestRingAt != NoInstant && s.LatestRingAt < s.RingAt {
		return invalid(CodeOutOfRange, "latest_ring_at",
			fmt.Sprintf("latest_ring_at %s lies before the ring at %s", s.LatestRingAt, s.RingAt))
	}
	return nil
}

func (s *Set) validateOptions() error {
	switch {
	case s.ContentType == "" || len(s.ContentType) > MaxContentType ||
		strings.ContainsFunc(s.ContentType, notPrintableASCII):
		return invalid(CodeInvalidValue, "content_type",
			fmt.Sprintf("content_type must be 1 to %d printable ASCII characters", MaxContentType))
	case s.AckTimeout != 0 && validateAckTimeout(s.AckTimeout) != nil:
		return validateAckTimeout(s.AckTimeout)
	case validateMaxRings(s.MaxRings) != nil:
		return validateMaxRings(s.MaxRings)
	case s.Delivery != AtLeastOnce && s.Delivery != AtMostOnce:
		return invalid(CodeInvalidValue, "delivery", `delivery must be "at_least_once" or "at_most_once"`)
	case s.Delivery == AtMostOnce && s.AckTimeout != 0:
		return invalid(CodeAmbiguous, "delivery",
			"delivery at_most_once never rings again, ack_timeout does until it is acknowledged: give one of them")
	case s.Target != NoTarget && s.Target.String() == "":
		return invalid(CodeInvalidValue, "target", "target must be one of: "+targetList())
	case s.Destination.Name != "" && (s.Target == NoTarget || !isName(s.Destination.Name)):
		return invalid(CodeInvalidValue, "target", "the destination of a target must be "+nameRule)
	case s.Receiver != "" && s.Target == NoTarget:
		return invalid(CodeRequired, "target", "with receiver, target is required: it has the fields of receiver")
	case s.Receiver != "" && ValidateReceiver(s.Receiver) != nil:
		return ValidateReceiver(s.Receiver)
	case s.Priority < 0 || s.Priority > MaxPriority:
		return invalid(CodeOutOfRange, "priority", fmt.Sprintf("priority must be from 0 to %d", MaxPriority))
	case len(s.Traceparent) > MaxTraceparent || strings.ContainsFunc(s.Traceparent, notPrintableASCII):
		return invalid(CodeInvalidValue, "traceparent", "traceparent must be as W3C Trace Context writes it")
	}
	return nil
}

func validateAckTimeout(d time.Duration) error {
	if d < MinAckTimeout || d > MaxAckTimeout || !wholeMillis(d) {
		return invalid(CodeOutOfRange, "ack_timeout", "ack_timeout must be from 1s to 24h, in whole milliseconds")
	}
	return nil
}

func validateMaxRings(n int) error {
	if n < 1 || n > MaxRingsLimit {
		return invalid(CodeOutOfRange, "max_rings", fmt.Sprintf("max_rings must be from 1 to %d", MaxRingsLimit))
	}
	return nil
}

func notPrintableASCII(r rune) bool { return r < ' ' || r > '~' }

// resolved returns a copy of s with at, the end of its delay, as RingAt. It does not change s. It also checks
// LatestRingAt, which Validate could not check without RingAt.
func (s *Set) resolved(at Instant) (*Set, error) {
	r := *s
	r.RingAt, r.Delay = at, Delay{}
	return &r, r.validateLatest()
}
