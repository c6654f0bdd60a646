package rabbit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
)

// Properties that are the same in every message.
const (
	messageType = "alarm.ring"
	appID       = "clockd"
)

// Names of the headers of a ring. Rings with LeanHeaders lack the first four; if the routing key is not the
// application, they have the first.
const (
	headerApplication  = "x-application" // usually also the routing key
	headerBusinessID   = "x-business-id" // also the correlation id
	headerGeneration   = "x-generation"  // also in the message id
	headerRingNo       = "x-ring-no"     // also in the message id
	headerTargetRingAt = "x-target-ring-at"
	headerRungAt       = "x-rung-at"
	headerRetryTimes   = "x-retry-times"
	headerClaimID      = "x-claim-id"
	headerTraceparent  = "traceparent"
	// Only rings of repeating alarms have these: the number of the occurrence, and its time in milliseconds since the
	// epoch.
	headerOccurrence   = "x-occurrence"
	headerOccurrenceAt = "x-occurrence-at"
)

// Names of the headers that the ring of a message has beside the message's own.
const (
	headerOurMessageID = "x-clockd-message-id" // the ring's message id, because the message keeps its own
	headerOurRingAt    = "x-clockd-ring-at"    // when it was to ring, in milliseconds since the epoch
	ourHeaders         = "x-clockd-"           // prefix of all headers that only clockd adds
)

// maxShortString is the protocol's bound for short strings, in bytes.
const maxShortString = 255

// messageEncoder turns rings into frames. The library would need some 70 allocations for each message. One goroutine
// uses it.
type messageEncoder struct {
	replyTo   string
	headers   Headers
	maxHeader int    // largest payload of a content header frame, in bytes; 0: no limit
	buf       []byte // the frames of the last message
}

func newMessageEncoder(exchange string, headers Headers) *messageEncoder {
	return &messageEncoder{replyTo: answerQueue(exchange), headers: headers}
}

// answerQueue returns the name of the queue for applications' answers.
func answerQueue(exchange string) string { return exchange + ".answers" }

// encode returns the method frame and the header frame of r's message on channel. The caller sends the payload after
// them. The frames are valid until the next call. The error says why r cannot be a message.
func (e *messageEncoder) encode(r *clock.Ring, exchange, routingKey string, channel uint16) ([]byte, error) {
	e.buf = appendPublish(e.buf[:0], channel, exchange, routingKey)
	if r.Message != nil {
		return e.encodeMessage(r, channel)
	}
	if r.PayloadKind == clock.MessagePayload {
		return nil, errNoMessage
	}
	for _, p := range [...]struct{ name, value string }{
		{"application", r.Application}, {"business_id", r.BusinessID}, {"content_type", r.ContentType},
	} {
		if len(p.value) > maxShortString {
			return nil, fmt.Errorf("%s has %d bytes, AMQP allows %d", p.name, len(p.value), maxShortString)
		}
	}
	e.buf = e.appendHeader(e.buf, r, routingKey, channel)
	return e.buf, nil
}

// errNoMessage is the error of a message that could not be unpacked.
var errNoMessage = errors.New("the stored message cannot be read")

// encodeMessage adds the header frame of a message that waited for its time. It keeps its properties and gets two
// headers of ours.
func (e *messageEncoder) encodeMessage(r *clock.Ring, channel uint16) ([]byte, error) {
	p, err := divideProperties(r.Message.Properties)
	if err != nil {
		return nil, err
	}
	b, start := e.buf, len(e.buf)
	b = appendContentHead(b, channel, len(r.Payload))
	b = binary.BigEndian.AppendUint16(b, p.flags|flagHeaders)
	b = append(b, p.before...)
	table := len(b)
	b = append(b, 0, 0, 0, 0)
	b = append(b, p.fields...)
	b = appendText(b, headerOurMessageID, r.MessageID())
	b = appendInt64(b, headerOurRingAt, int64(r.RingAt))
	binary.BigEndian.PutUint32(b[table:], uint32(len(b)-table-4))
	e.buf = endFrame(append(b, p.after...), start)
	if size := len(e.buf) - start - frameOverhead; e.maxHeader > 0 && size > e.maxHeader {
		return nil, fmt.Errorf("the properties of the message take %d bytes, and the broker takes %d", size,
			e.maxHeader)
	}
	return e.buf, nil
}

// appendPublish appends the frame of basic.publish.
func appendPublish(b []byte, channel uint16, exchange, routingKey string) []byte {
	const mandatory = 1
	start := len(b)
	b = appendFrameHead(b, frameMethod, channel, 0)
	b = binary.BigEndian.AppendUint32(b, basicPublish)
	b = append(b, 0, 0) // reserved
	b = appendShort(b, exchange)
	b = appendShort(b, routingKey)
	b = append(b, mandatory)
	return endFrame(b, start)
}

// appendContentHead appends the beginning of the frame of a content header, up to its properties.
func appendContentHead(b []byte, channel uint16, bodySize int) []byte {
	b = appendFrameHead(b, frameHeader, channel, 0)
	b = append(b, 0, classBasic, 0, 0) // class, and an unused weight
	return binary.BigEndian.AppendUint64(b, uint64(bodySize))
}

func (e *messageEncoder) appendHeader(b []byte, r *clock.Ring, routingKey string, channel uint16) []byte {
	start := len(b)
	b = e.appendProperties(appendContentHead(b, channel, len(r.Payload)), r, routingKey)
	return endFrame(b, start)
}

// appendProperties appends the properties of the message: first the flags that name them, then their values.
func (e *messageEncoder) appendProperties(b []byte, r *clock.Ring, routingKey string) []byte {
	flags, at := uint16(flagHeaders|flagDeliveryMode|flagCorrelationID|flagMessageID|flagTimestamp|flagType|flagAppID), len(b)
	b = append(b, 0, 0)
	if r.ContentType != "" {
		flags |= flagContentType
		b = appendShort(b, r.ContentType)
	}
	b = e.appendHeaders(b, r, routingKey)
	b = append(b, amqp.Persistent)
	if r.Priority > 0 {
		flags |= flagPriority
		b = append(b, byte(r.Priority))
	}
	b = appendShort(b, r.BusinessID) // the correlation id
	if r.AckTimeout > 0 {
		flags |= flagReplyTo
		b = appendShort(b, e.replyTo)
	}
	b = appendMessageID(b, r)
	b = binary.BigEndian.AppendUint64(b, uint64(time.UnixMilli(int64(r.RingAt)).Unix()))
	b = appendShort(b, messageType)
	b = appendShort(b, appID)
	binary.BigEndian.PutUint16(b[at:], flags)
	return b
}

func (e *messageEncoder) appendHeaders(b []byte, r *clock.Ring, routingKey string) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0) // the size of the table, written at the end
	if e.headers == FullHeaders || routingKey != r.Application {
		b = appendText(b, headerApplication, r.Application)
	}
	if e.headers == FullHeaders {
		b = appendText(b, headerBusinessID, r.BusinessID)
		b = appendInt64(b, headerGeneration, r.Generation)
		b = appendInt32(b, headerRingNo, int32(r.RingNo))
	}
	b = appendInt64(b, headerTargetRingAt, int64(r.RingAt))
	b = appendInt64(b, headerRungAt, int64(r.RungAt))
	b = appendInt32(b, headerRetryTimes, int32(r.RetryTimes()))
	b = appendText(b, headerClaimID, r.ClaimID)
	if r.Traceparent != "" {
		b = appendText(b, headerTraceparent, r.Traceparent)
	}
	if o := r.Occurrence(); o.Number != 0 {
		b = appendInt64(b, headerOccurrence, o.Number)
		b = appendInt64(b, headerOccurrenceAt, o.At)
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func appendMessageID(b []byte, r *clock.Ring) []byte {
	at := len(b)
	b = r.ID().Append(append(b, 0))
	b[at] = byte(len(b) - at - 1)
	return b
}
