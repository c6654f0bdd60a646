package clock

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/clockd/clockd/clock/repeat"
)

// PayloadKind is the form in which a set gave the payload. Responses and streams show the payload in the same form. The
// numbers are stored.
type PayloadKind int8

// The kinds of payload.
const (
	NoPayload PayloadKind = 0 // an empty payload
	JSON      PayloadKind = 1 // any JSON value, kept byte for byte
	Text      PayloadKind = 2
	Binary    PayloadKind = 3 // base64 in JSON
	// MessagePayload is a packed Message. Messages that RabbitMQ delivers for a later time have it; no set over HTTP
	// can give one.
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
	Target       TargetKind  // where the rings go; NoTarget: to the target of the application
	Destination  Destination // to which receiver of Target, if the application has several; only its name is content
	// Receiver has fields of the receiver that the alarm brings itself, instead of the settings: a JSON object; "":
	// none. With it Destination.Number is OwnNumber of the receiver's place.
	Receiver string
	// Repeat is the rule of an alarm that rings again, nil for an alarm that rings once. With a rule, RingAt is the
	// first occurrence's ring, and LatestRingAt is NoInstant, because each occurrence has a latest time of its own.
	Repeat *repeat.Rule
	// Local is the local time of an alarm that rings once, nil for an alarm whose set gave an instant. With a local
	// time, RingAt is its instant by the time-zone data of the node that computed it.
	Local *repeat.LocalTime
}

// Schedule returns the text of the rule or the local time for the database column repeat_rule, empty if the content has
// neither.
func (c *Content) Schedule() string {
	switch {
	case c.Repeat != nil:
		return c.Repeat.Encode()
	case c.Local != nil:
		return c.Local.Encode()
	}
	return ""
}

// TimeZone returns the time zone whose data decides when the alarm rings; empty if none does.
func (c *Content) TimeZone() (name string) {
	switch {
	case c.Repeat != nil:
		name = c.Repeat.TimeZone()
	case c.Local != nil:
		name = c.Local.TimeZone()
	}
	if name == "UTC" {
		return ""
	}
	return name
}

// ShownReceiver returns Receiver as people see it in settings: without the values of headers and the like, and without
// the query of a URL. It returns nil without Receiver.
func (c *Content) ShownReceiver() json.RawMessage {
	if c.Receiver == "" {
		return nil
	}
	return shownReceiver(c.Receiver)
}

// Same reports whether two sets with these contents are the same set.
func (c *Content) Same(other *Content) bool {
	sameTime := c.RingAt == other.RingAt
	if schedule, others := c.Schedule(), other.Schedule(); schedule != "" || others != "" {
		sameTime = schedule == others // RingAt follows from the rule, or from the local time and the time-zone data
	}
	return sameTime && c.LatestRingAt == other.LatestRingAt && c.PayloadKind == other.PayloadKind &&
		c.ContentType == other.ContentType && c.Retry == other.Retry && c.AckTimeout == other.AckTimeout &&
		c.MaxRings == other.MaxRings && c.Priority == other.Priority && c.Delivery == other.Delivery &&
		c.Target == other.Target && c.Destination.Name == other.Destination.Name && c.Receiver == other.Receiver &&
		bytes.Equal(c.Payload, other.Payload)
}
