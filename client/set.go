package client

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Set is what an alarm is to be. A field that is zero has its default.
type Set struct {
	When         When      // time; required without Repeat
	Repeat       *Repeat   // rule of an alarm that rings again, instead of When; default: the alarm rings once
	LatestRingAt time.Time // last time to ring, after which the alarm expires; not with Repeat. Default: however late
	Payload      Payload   // default: empty
	ContentType  string    // default by the payload: application/json, text/plain; charset=utf-8, application/octet-stream
	If           Condition // default: none

	Retry      *Retry        // default: 1 s doubled up to 30 s, without a limit
	AckTimeout time.Duration // time for an answer to a ring, 1 s to 24 h, or NoAckTimeout; default: as the application's settings say
	MaxRings   int           // rings without an answer until the alarm is dead; default 10
	Priority   int           // 0 to 9; among alarms due at the same instant the higher rings first
	Delivery   Delivery      // default AtLeastOnce
	// Target is amqp, stream, webhook, kafka, grpc or pull, if the application's settings allow it, or one of their
	// destinations, such as webhook/refunds. Default: the application's target.
	Target string
	// Receiver has fields of the receiver of the rings, where the application's settings allow them. It needs Target.
	// Default: none.
	Receiver    Receiver
	Traceparent string // W3C trace context, which the rings carry; a batch and Apply have one for all their sets, so they ignore it
}

// NoAckTimeout is the AckTimeout of a set whose rings need no answer, whatever the application's settings say.
const NoAckTimeout time.Duration = -1

// givenAckTimeout returns nil for 0, and 0 for NoAckTimeout.
func givenAckTimeout(d time.Duration) *duration {
	if d == NoAckTimeout {
		return new(duration)
	}
	return given(d)
}

// setFields are the members of a set in JSON, without the payload.
type setFields struct {
	BusinessID   string         `json:"business_id,omitempty"`
	RingAt       json.Marshaler `json:"ring_at,omitempty"`
	TimeZone     string         `json:"time_zone,omitempty"`
	Delay        *duration      `json:"delay,omitempty"`
	Repeat       *Repeat        `json:"repeat,omitempty"`
	LatestRingAt *instant       `json:"latest_ring_at,omitempty"`
	ContentType  string         `json:"content_type,omitempty"`
	If           string         `json:"if,omitempty"`
	Retry        *Retry         `json:"retry,omitempty"`
	AckTimeout   *duration      `json:"ack_timeout,omitempty"`
	MaxRings     int            `json:"max_rings,omitempty"`
	Priority     int            `json:"priority,omitempty"`
	Delivery     Delivery       `json:"delivery,omitempty"`
	Target       string         `json:"target,omitempty"`
	Receiver     Receiver       `json:"receiver,omitempty"`
}

// Receiver has fields of a receiver by name: url, method and headers of a webhook; url, method and metadata of grpc;
// topic, key and headers of kafka; exchange, routing_key, headers and expiration of amqp. headers and metadata are a
// map[string]string, the others a string.
type Receiver map[string]any

// Set creates the alarm, keeps it if it is the same already, or changes it. It returns the alarm as it is now.
func (c *Client) Set(ctx context.Context, application, businessID string, s Set) (*Alarm, error) {
	body, failed := s.encode("")
	if failed != nil {
		return nil, failed
	}
	header := s.If.header()
	if strings.ContainsFunc(s.Traceparent, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, invalid("traceparent", "the trace context has a character that no header has")
	}
	if s.Traceparent != "" {
		if header == nil {
			header = http.Header{}
		}
		header.Set("Traceparent", s.Traceparent)
	}
	return c.alarm(ctx, &request{
		method: http.MethodPut, path: alarmPath(application, businessID), header: header, body: body,
		repeat: s.repeatable(),
	})
}

// repeatable reports whether a second effect of the set does no harm.
func (s *Set) repeatable() bool { return s.When.after == nil || s.If == Absent }

// encode returns the set as JSON. businessID is empty for a set whose id is in the path.
func (s *Set) encode(businessID string) ([]byte, *Error) {
	if failed := s.Payload.check(); failed != nil {
		return nil, failed
	}
	f := setFields{
		BusinessID: businessID, RingAt: s.When.at, TimeZone: s.When.timeZone, Delay: s.When.after, Repeat: s.Repeat,
		ContentType: s.ContentType, If: s.If.name, Retry: s.Retry,
		LatestRingAt: givenTime(s.LatestRingAt), AckTimeout: givenAckTimeout(s.AckTimeout), MaxRings: s.MaxRings,
		Priority: s.Priority, Delivery: s.Delivery,
		Target: s.Target, Receiver: s.Receiver,
	}
	b, err := json.Marshal(f)
	if err != nil { // Receiver has a value that JSON has not, or a number of Retry is not a number
		field := "retry"
		if _, failed := json.Marshal(s.Receiver); failed != nil {
			field = "receiver"
		}
		return nil, &Error{Code: CodeInvalidValue, Field: field, Detail: "the set cannot be encoded: " + err.Error(),
			Err: err}
	}
	return spliced(b, s.Payload), nil
}

// spliced adds the payload to an object in JSON. encoding/json would change the layout of a payload of JSON.
func spliced(object []byte, p Payload) []byte {
	if p.kind == NoPayload {
		return object
	}
	b := p.appendMember(object[:len(object)-1])
	if object[1] == '}' { // without other members no comma
		b = append(b[:1], b[2:]...)
	}
	return append(b, '}')
}

// alarm sends a request whose response is an alarm.
func (c *Client) alarm(ctx context.Context, r *request) (*Alarm, error) {
	var a Alarm
	if err := c.call(ctx, r, &a); err != nil {
		return nil, err
	}
	return &a, nil
}
