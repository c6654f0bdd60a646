package inbox

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// Names of the headers of a delayed message, beside x-delay.
const (
	headerApplication = "x-application"
	headerBusinessID  = "x-business-id"
	headerRingAt      = "x-ring-at" // its time: milliseconds since the epoch, or RFC 3339
)

// OurHeaders is the prefix of the headers that only clockd adds. The intake drops them from messages.
const OurHeaders = "x-clockd-"

// refusedMessage says why a message cannot be an alarm.
type refusedMessage struct{ code, detail string }

func (r *refusedMessage) Error() string { return r.detail }

func refuseMessage(code, detail string) *refusedMessage {
	return &refusedMessage{code: code, detail: detail}
}

// setOf returns the set of a delayed message. It notes the time of the alarm in d, so that all sets of one delivery
// have the same time. in is Setter.In; an error of setOf is its error, or a refusedMessage.
//
// maxProperties is the most bytes of properties, 0 for no limit.
func (c *IntakeConfig) setOf(
	d *incoming, in func(time.Duration) (clock.Instant, error), maxProperties int,
) (*clock.Set, error) {
	set := &clock.Set{
		Key: clock.Key{Application: c.Application, BusinessID: businessIDOf(d)},
		Content: clock.Content{
			RingAt: clock.NoInstant, LatestRingAt: clock.NoInstant, PayloadKind: clock.MessagePayload,
			ContentType: contentTypeOf(d.ContentType),
			Retry:       clock.DefaultRetryPolicy(), MaxRings: clock.DefaultMaxRings,
			Priority: min(int(d.Priority), clock.MaxPriority), Delivery: clock.AtLeastOnce,
		},
		If:      clock.Condition{Kind: clock.Absent},
		Omitted: clock.RetryOption | clock.MaxRingsOption,
	}
	if d.replaces != 0 {
		set.If = clock.Condition{Kind: clock.AtGeneration, Generation: d.replaces}
	}
	if value := d.Headers[headerApplication]; value != nil {
		var isText bool
		if set.Application, isText = wire.Text(value); !isText {
			return nil, refuseMessage(clock.CodeInvalidApplication, "header x-application is not a string")
		}
	}
	if value := d.Headers[headerBusinessID]; value != nil {
		if _, isText := wire.Text(value); !isText {
			return nil, refuseMessage(clock.CodeInvalidBusinessID, "header x-business-id is not a string")
		}
	}
	if d.ringAt == clock.NoInstant {
		at, err := ringAtOf(d, in)
		if err != nil {
			return nil, err
		}
		d.ringAt = at
	}
	set.RingAt = d.ringAt
	message, err := c.messageOf(d)
	if err == nil && maxProperties > 0 && len(message.Properties) > maxProperties {
		return nil, refuseMessage(clock.CodePayloadTooLarge,
			fmt.Sprintf("the properties have %d bytes, at most %d are kept", len(message.Properties), maxProperties))
	}
	if err == nil {
		set.Payload, err = message.Pack()
	}
	if err != nil {
		return nil, refuseMessage(clock.CodeInvalidValue, err.Error())
	}
	return set, nil
}

// messageOf returns the message as its ring publishes it. Two deliveries of one message give equal messages.
func (c *IntakeConfig) messageOf(d *incoming) (*clock.Message, error) {
	original := d.Delivery
	original.Headers = make(amqp.Table, len(d.Headers))
	for name, value := range d.Headers {
		if keepsHeader(name) {
			original.Headers[name] = value
		}
	}
	if value, given := original.Headers[headerDelay]; given {
		original.Headers[headerDelay] = negated(value)
	}
	properties, err := wire.EncodeProperties(&original)
	if err != nil {
		return nil, err
	}
	return &clock.Message{Exchange: c.Exchange, RoutingKey: d.RoutingKey, Properties: properties, Body: d.Body}, nil
}

// keepsHeader reports whether a message keeps the header. The broker counts deliveries in two headers, and clockd adds
// headers of its own.
func keepsHeader(name string) bool {
	return !wire.IsCount(name) && !strings.HasPrefix(name, OurHeaders)
}

// negated returns the delay of a message that has waited: as with the plugin for delayed messages, its sign is changed.
func negated(value any) any {
	d, err := delay(value)
	ms := -d.Span.Milliseconds()
	switch {
	case err != nil || ms >= 0:
		return value
	case ms >= math.MinInt32:
		return int32(ms)
	default:
		return ms
	}
}

var errTwoTimes = errors.New("the message has the headers x-delay and x-ring-at: give one of them")

// ringAtOf returns the time of the alarm. A message without a time, or with a time that has passed, rings at once. A
// delay counts from the receipt.
func ringAtOf(d *incoming, in func(time.Duration) (clock.Instant, error)) (clock.Instant, error) {
	delayed, at := d.Headers[headerDelay], d.Headers[headerRingAt]
	switch {
	case delayed != nil && at != nil:
		return clock.NoInstant, refuseMessage(clock.CodeInvalidValue, errTwoTimes.Error())
	case at != nil:
		i, err := instantOf(at)
		if err != nil {
			return clock.NoInstant, refuseMessage(clock.CodeInvalidValue, err.Error())
		}
		return i, nil
	}
	var span time.Duration
	if delayed != nil {
		given, err := delay(delayed)
		switch {
		case err == nil && given.Span > clock.MaxDelay:
			return clock.NoInstant, refuseMessage(clock.CodeOutOfRange, "header x-delay is longer than 100 years")
		case err != nil:
			return clock.NoInstant, refuseMessage(clock.CodeInvalidValue, err.Error())
		}
		span = given.Span
	}
	return in(max(0, max(0, span)-time.Since(d.received))) // the least span, less the time since then, would be positive
}

// instantOf reads a time from a number, of which the whole part counts, from a string, or from a timestamp of AMQP.
func instantOf(value any) (i clock.Instant, err error) {
	ms, isNumber := number(value)
	s, isText := wire.Text(value)
	t, isTime := value.(time.Time)
	switch {
	case isNumber:
		i, err = clock.InstantOfMillis(ms)
	case isText:
		i, err = clock.ParseInstant(s)
	case isTime:
		i, err = clock.ParseTime(t)
	default:
		err = errors.New("neither milliseconds since 1970 nor a time like 2026-11-21T18:30:00+01:00")
	}
	if err != nil {
		return clock.NoInstant, fmt.Errorf("header x-ring-at: %w", err)
	}
	return i, nil
}

// businessIDOf returns the business id of a message: the header x-business-id, else the message id. An id that cannot
// be a business id is replaced by its hash. A message without any id keeps a random one as long as this node has it in
// flight.
func businessIDOf(d *incoming) string {
	if id, isText := wire.Text(d.Headers[headerBusinessID]); isText && id != "" {
		return id
	}
	if d.MessageId == "" {
		if d.id == "" {
			d.id = "random:" + rand.Text()
		}
		return d.id
	}
	if clock.ValidateBusinessID(d.MessageId) == nil {
		return d.MessageId
	}
	hash := sha256.Sum256([]byte(d.MessageId))
	return "sha256:" + hex.EncodeToString(hash[:])
}

// contentTypeOf returns the content type of the alarm. The message keeps its own, which may be too long for an alarm,
// or unprintable.
func contentTypeOf(s string) string {
	printable := func(r rune) bool { return r >= ' ' && r <= '~' }
	if s == "" || len(s) > clock.MaxContentType || strings.ContainsFunc(s, func(r rune) bool { return !printable(r) }) {
		return clock.MessagePayload.DefaultContentType()
	}
	return s
}
