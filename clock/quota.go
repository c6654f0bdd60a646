package clock

import "fmt"

// Quotas bound what one application may use. The zero value bounds nothing.
type Quotas struct {
	PendingAlarms int // alarms that will ring: scheduled, ringing, or waiting for an answer; 0: no bound
	SetsPerSecond int // sets a second at one node, and at once; 0: no bound
	PayloadBytes  int // bytes of a payload; 0: no bound of its own
}

// Room is the room for the pending alarm that a set may add. Both calls may be repeated: a set may be judged more than
// once.
type Room interface {
	Take() *Error // takes the room, or returns why there is none
	GiveBack()    // the set changes an alarm, and adds none
}

// Bounds of quotas.
const (
	MaxPendingAlarms = 1 << 30
	MaxSetsPerSecond = 1_000_000
)

// Validate returns an *Error of kind ErrInvalid that names the field, or nil.
func (q *Quotas) Validate() error {
	for _, quota := range []struct {
		name        string
		value, most int
	}{
		{"pending_alarms", q.PendingAlarms, MaxPendingAlarms},
		{"sets_per_second", q.SetsPerSecond, MaxSetsPerSecond},
		{"payload_bytes", q.PayloadBytes, MaxStoredPayload},
	} {
		if quota.value < 0 || quota.value > quota.most {
			return invalid(CodeOutOfRange, quota.name,
				fmt.Sprintf("%s must be from 1 to %d; null means no quota", quota.name, quota.most))
		}
	}
	return nil
}

// checkPayload returns an ErrTooLarge if the payload of the set has too many bytes.
func (q *Quotas) checkPayload(set *Set) error {
	if q.PayloadBytes == 0 || len(set.Payload) <= q.PayloadBytes {
		return nil
	}
	return &Error{
		Kind: ErrTooLarge, Code: CodePayloadTooLarge, Field: "payload",
		Detail: fmt.Sprintf("payload has %d bytes; the quota payload_bytes of application %q is %d", len(set.Payload),
			set.Application, q.PayloadBytes),
	}
}
