package clock

import (
	"bytes"
	"time"
)

// PayloadKind is the form in which a set gave the payload. Responses and streams show the payload in the same form. The numbers
// are stored.
type PayloadKind int8

// The kinds of payload.
const (
	NoPayload PayloadKind = 0 // an empty payload
	JSON      PayloadKind = 1 // any JSON value, kept byte for byte
	Text      PayloadKind = 2
	Binary    PayloadKind = 3 // base64 in JSON
	// MessagePayload is a packed Message. Messages that RabbitMQ delivers for a later time have it; no set over HTTP can give one.
	MessagePayload PayloadKind = 4
)

// DefaultContentType returns the content_type of an alarm whose set names none.
func (k PayloadKind) DefaultContentType() string {
	switch k {
	case JSON:
		return "application/json"
	case Text:
		return "text/plain; charset=utf-8"
	default:
		return "application/octet-stream"
	}
}

// Content is the part of an alarm that a set gives. Two sets with equal content are the same set.
type Content struct {
	RingAt       Instant
	LatestRingAt Instant // NoInstant: however late
	Payload      []byte
	PayloadKind  PayloadKind
	ContentType  string
	Retry        RetryPolicy
	AckTimeout   time.Duration // time for the acknowledgement of a ring; 0: none is wanted
	MaxRings     int           // with AckTimeout: rings until the alarm is dead, if none is acknowledged
	Priority     int           // 0 to 9; among alarms due at the same time the higher priority rings first
	Delivery     DeliveryMode
	Target       TargetKind // where the rings go; NoTarget: to the target of the application
}

// Same reports whether two sets with these contents are the same set.
func (c *Content) Same(other *Content) bool {
	return c.RingAt == other.RingAt && c.LatestRingAt == other.LatestRingAt && c.PayloadKind == other.PayloadKind &&
		c.ContentType == other.ContentType && c.Retry == other.Retry && c.AckTimeout == other.AckTimeout &&
		c.MaxRings == other.MaxRings && c.Priority == other.Priority && c.Delivery == other.Delivery && c.Target == other.Target &&
		bytes.Equal(c.Payload, other.Payload)
}
