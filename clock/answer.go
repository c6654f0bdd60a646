package clock

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// RingID names one ring; its text is the message id, "<alarm id>.<generation>.<ring_no>".
type RingID struct {
	AlarmID    int64
	Generation int64
	RingNo     int
}

// ParseRingID reads a message id as String wrote it; all else is ErrInvalid.
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
	return invalid(CodeInvalidValue, "message_id", "message_id must be as the ring bore it: <id>.<generation>.<ring_no>")
}

// maxRingNo is what the column ring_no holds.
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

// AnswerKind is what an application says of a ring that waits for its acknowledgement. The numbers are stored.
type AnswerKind int8

// The answers. NoAnswer is what an alarm has before.
const (
	NoAnswer AnswerKind = 0
	Ack      AnswerKind = 1 // it is done
	Release  AnswerKind = 2 // ring again after Delay
	Bury     AnswerKind = 3 // dead, for a person to look at
	Touch    AnswerKind = 4 // more time: the acknowledgement is due after Delay
)

var answerNames = [...]string{NoAnswer: "", Ack: "ack", Release: "release", Bury: "bury", Touch: "touch"}

// String returns the answer's name, as paths, messages and reports use it.
func (k AnswerKind) String() string {
	if k < NoAnswer || k > Touch {
		return "answer(" + strconv.Itoa(int(k)) + ")"
	}
	return answerNames[k]
}

// Bounds of what an answer may hold.
const (
	MaxReleaseDelay = 10 * 365 * 24 * time.Hour
	MinTouchDelay   = time.Second
	MaxTouchDelay   = 24 * time.Hour
)

// Answer is an application's word on one of its rings. What its kind has no use for is not looked at.
type Answer struct {
	Key    Key    // of the ring's alarm; Service.Answers finds BusinessID, and Application where it is empty
	Ring   RingID // which ring
	Kind   AnswerKind
	Delay  Delay  // Release: until it rings again, 0 if not given; Touch: more time, the alarm's AckTimeout if not given
	Reason string // Release and Bury: becomes part of last_error; cut to 500 bytes
	By     string // who answered, for reports; cut to 128 bytes
}

// Validate returns an ErrInvalid that names the first offending field, or nil. Of the key it looks at the application, if
// there is one: the rest is found by the ring.
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

// more returns the time that a touch gives.
func (a *Answer) more(row *Alarm) time.Duration {
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

// Discard asks that a dead or expired alarm is cancelled: nobody will kick it.
type Discard struct {
	Key
	If Condition // AnyRow or AtGeneration
}

// DeliveryMode says what becomes of a ring whose outcome is not known. The numbers are stored.
type DeliveryMode int8

// The delivery modes.
const (
	AtLeastOnce DeliveryMode = 0 // rung again under the same message id until confirmed
	AtMostOnce  DeliveryMode = 1 // never published again: rung, with in_doubt said
)

// ParseDeliveryMode returns the mode of that name.
func ParseDeliveryMode(name string) (DeliveryMode, error) {
	for _, d := range []DeliveryMode{AtLeastOnce, AtMostOnce} {
		if d.String() == name {
			return d, nil
		}
	}
	return AtLeastOnce, fmt.Errorf("delivery %.64q is neither at_least_once nor at_most_once", name)
}

// String returns the mode's name as a set gives it.
func (d DeliveryMode) String() string {
	if d == AtMostOnce {
		return "at_most_once"
	}
	return "at_least_once"
}
