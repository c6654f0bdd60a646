package clock

import (
	"fmt"
	"time"
)

// Bounds of an answer's delay.
const (
	MaxReleaseDelay = 10 * 365 * 24 * time.Hour
	MinTouchDelay   = time.Second
	MaxTouchDelay   = 24 * time.Hour
)

// Answer is an application's answer to a ring. Fields that have no meaning for its kind are ignored.
type Answer struct {
	Key            Key    // key of the ring's alarm; Service.Answers fills in BusinessID, and an empty Application
	Ring           RingID // the ring that is answered
	Kind           AnswerKind
	Delay          Delay  // Release: time until the next ring, 0 if not given; Touch: more time, the alarm's AckTimeout if not given
	Reason         string // Release and Bury: part of last_error; cut to 500 bytes
	By             string // sender of the answer, for reports; cut to 128 bytes
	WithoutPayload bool   // Op.WithoutPayload for the answer's op
}

// Fields returns the fields besides the ring that a request with this kind of answer may have.
func (k AnswerKind) Fields() []string {
	switch k {
	case Ack:
		return []string{"by"}
	case Release:
		return []string{"by", "delay", "reason"}
	case Bury:
		return []string{"by", "reason"}
	case Touch:
		return []string{"by", "delay"}
	case NoAnswer:
	}
	return nil
}

// CheckReason refuses a reason that would be cut.
func CheckReason(reason string) error {
	if len(reason) > MaxReason {
		return invalid(CodeOutOfRange, "reason",
			fmt.Sprintf("reason must be at most %d bytes, not %d", MaxReason, len(reason)))
	}
	return nil
}

// Validate returns an ErrInvalid that names the first offending field, or nil. It checks the application unless that is
// empty. It does not check the business id: the ring determines it.
func (a *Answer) Validate() error {
	if a.Key.Application != "" {
		if err := ValidateApplication(a.Key.Application); err != nil {
			return err
		}
	}
	if a.Ring.AlarmID < 1 || a.Ring.Generation < 1 || a.Ring.RingNo < 1 || a.Ring.RingNo > maxRingNo {
		return invalidRingID()
	}
	return a.validateKind()
}

func (a *Answer) validateKind() error {
	switch a.Kind {
	case Ack, Bury:
		return nil
	case Release:
		if a.Delay.Given && (a.Delay.Span < 0 || a.Delay.Span > MaxReleaseDelay) {
			return invalid(CodeOutOfRange, "delay", "delay must be from 0 to 10 years")
		}
		return nil
	case Touch:
		if a.Delay.Given && (a.Delay.Span < MinTouchDelay || a.Delay.Span > MaxTouchDelay) {
			return invalid(CodeOutOfRange, "delay",
				"delay must be from 1s to 24h; leave it out for the alarm's ack_timeout")
		}
		return nil
	case NoAnswer:
	}
	return invalid(CodeInvalidValue, "answer", "an answer is ack, release, bury or touch")
}

// extension returns the time that a touch gives.
func (a *Answer) extension(row *Alarm) time.Duration {
	if a.Delay.Given {
		return a.Delay.Span
	}
	return row.AckTimeout
}
