package clock

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// RingID identifies one ring. Its text is the message id, "<alarm id>.<generation>.<ring_no>".
type RingID struct {
	AlarmID    int64
	Generation int64
	RingNo     int
}

// ParseRingID reads a message id as String writes it. Any other text is ErrInvalid.
func ParseRingID(s string) (RingID, error) {
	parts := strings.Split(s, ".")
	var n [3]int64
	good := len(parts) == len(n)
	for i := 0; good && i < len(n); i++ {
		v, err := strconv.ParseInt(parts[i], 10, 64)
		good = err == nil && v >= 1 && strconv.FormatInt(v, 10) == parts[i]
		n[i] = v
	}
	if !good || n[2] > maxRingNo {
		return RingID{}, invalidRingID()
	}
	return RingID{AlarmID: n[0], Generation: n[1], RingNo: int(n[2])}, nil
}

func invalidRingID() error {
	return invalid(CodeInvalidValue, "message_id", "message_id must be the message id of a ring: <id>.<generation>.<ring_no>")
}

// maxRingNo is the largest number that the column ring_no holds.
const maxRingNo = 1<<31 - 1

// String returns the message id.
func (r RingID) String() string {
	return string(r.Append(make([]byte, 0, 32)))
}

// Append appends the message id to b.
func (r RingID) Append(b []byte) []byte {
	b = strconv.AppendInt(b, r.AlarmID, 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, r.Generation, 10)
	b = append(b, '.')
	return strconv.AppendInt(b, int64(r.RingNo), 10)
}

// AnswerKind is the kind of an application's answer to a ring. The numbers are stored.
type AnswerKind int8

// The kinds of answers.
const (
	NoAnswer AnswerKind = 0 // the ring has not been answered
	Ack      AnswerKind = 1 // the ring's work is done
	Release  AnswerKind = 2 // ring again after Delay
	Bury     AnswerKind = 3 // make the alarm dead; a person decides about it
	Touch    AnswerKind = 4 // more time: acknowledge within Delay from now
)

var answerNames = [...]string{NoAnswer: "", Ack: "ack", Release: "release", Bury: "bury", Touch: "touch"}

// String returns the answer's name, as paths, messages and reports use it.
func (k AnswerKind) String() string {
	if k < NoAnswer || k > Touch {
		return "answer(" + strconv.Itoa(int(k)) + ")"
	}
	return answerNames[k]
}

// Bounds of an answer's delay.
const (
	MaxReleaseDelay = 10 * 365 * 24 * time.Hour
	MinTouchDelay   = time.Second
	MaxTouchDelay   = 24 * time.Hour
)

// Answer is an application's answer to a ring. Fields that have no meaning for its kind are ignored.
type Answer struct {
	Key    Key    // key of the ring's alarm; Service.Answers fills in BusinessID, and an empty Application
	Ring   RingID // the ring that is answered
	Kind   AnswerKind
	Delay  Delay  // Release: time until the next ring, 0 if not given; Touch: more time, the alarm's AckTimeout if not given
	Reason string // Release and Bury: part of last_error; cut to 500 bytes
	By     string // sender of the answer, for reports; cut to 128 bytes
	Brief  bool   // Op.Brief for the answer's op
}

// Validate returns an ErrInvalid that names the first offending field, or nil. It checks the application unless that is empty. It
// does not check the business id: the ring determines it.
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
			return invalid(CodeOutOfRange, "delay", "delay must be from 1s to 24h; leave it out for the alarm's ack_timeout")
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

// Kick asks that a dead or expired alarm is scheduled again, due at once.
type Kick struct {
	Key
	If Condition // AnyRow or AtGeneration
}

// Discard asks that a dead or expired alarm is cancelled, because it shall not ring again.
type Discard struct {
	Key
	If Condition // AnyRow or AtGeneration
}

// DeliveryMode decides about a ring whose outcome is unknown. The numbers are stored.
type DeliveryMode int8

// The delivery modes.
const (
	AtLeastOnce DeliveryMode = 0 // the same ring is published again, with the same message id, until it is confirmed
	AtMostOnce  DeliveryMode = 1 // the ring is not published again; the alarm is rung, with in_doubt set
)

// ParseDeliveryMode returns the mode with this name.
func ParseDeliveryMode(name string) (DeliveryMode, error) {
	for _, d := range []DeliveryMode{AtLeastOnce, AtMostOnce} {
		if d.String() == name {
			return d, nil
		}
	}
	return AtLeastOnce, fmt.Errorf("delivery %.64q is neither at_least_once nor at_most_once", name)
}

// String returns the mode's name, as ParseDeliveryMode reads it.
func (d DeliveryMode) String() string {
	if d == AtMostOnce {
		return "at_most_once"
	}
	return "at_least_once"
}
