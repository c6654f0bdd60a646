package rabbit

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/inbox"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
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
)

// occurrenceHeaders are the headers of rings of repeating alarms.
var occurrenceHeaders = clock.OccurrenceNames{
	Number: "x-occurrence", At: "x-occurrence-at", PreviousAt: "x-occurrence-previous-at", NextAt: "x-occurrence-next-at",
}

// Names of the headers that the ring of a message has beside the message's own.
const (
	headerOurMessageID = inbox.OurHeaders + "message-id" // the ring's message id, because the message keeps its own
	headerOurRingAt    = inbox.OurHeaders + "ring-at"    // when it was to ring, in milliseconds since the epoch
)

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

// ownHeaders are the headers that clockd writes.
var ownHeaders = []string{
	headerApplication, headerBusinessID, headerGeneration, headerRingNo, headerTargetRingAt, headerRungAt,
	headerRetryTimes, headerClaimID, headerTraceparent,
	occurrenceHeaders.Number, occurrenceHeaders.At, occurrenceHeaders.PreviousAt, occurrenceHeaders.NextAt,
}

// encode returns the method frame and the header frame of r's message on channel. The caller sends the payload after
// them. The frames are valid until the next call. The error says why r cannot be a message.
func (e *messageEncoder) encode(r *clock.Ring, to *address, channel uint16) ([]byte, error) {
	e.buf = appendPublish(e.buf[:0], channel, to.exchange, to.routingKey)
	if r.Message != nil {
		return e.encodeMessage(r, channel)
	}
	if r.PayloadKind == clock.MessagePayload {
		return nil, errNoMessage
	}
	for _, p := range [...]struct{ name, value string }{
		{"application", r.Application}, {"business_id", r.BusinessID}, {"content_type", r.ContentType},
	} {
		if len(p.value) > wire.MaxShortString {
			return nil, fmt.Errorf("%s has %d bytes, AMQP allows %d", p.name, len(p.value), wire.MaxShortString)
		}
	}
	start := len(e.buf)
	e.buf = e.appendHeader(e.buf, r, to, channel)
	return e.buf, e.checkHeader(start)
}

// checkHeader refuses a header frame that the broker does not take. It begins at start.
func (e *messageEncoder) checkHeader(start int) error {
	if size := len(e.buf) - start - wire.FrameOverhead; e.maxHeader > 0 && size > e.maxHeader {
		return fmt.Errorf("the properties of the message take %d bytes, and the broker takes %d", size, e.maxHeader)
	}
	return nil
}

// errNoMessage is the error of a message that could not be unpacked.
var errNoMessage = errors.New("the stored message cannot be read")

// encodeMessage adds the header frame of a message that waited for its time. It keeps its properties and gets two
// headers of ours.
func (e *messageEncoder) encodeMessage(r *clock.Ring, channel uint16) ([]byte, error) {
	p, err := wire.DivideProperties(r.Message.Properties)
	if err != nil {
		return nil, err
	}
	b, start := e.buf, len(e.buf)
	b = wire.AppendContentHead(b, channel, len(r.Payload))
	b = binary.BigEndian.AppendUint16(b, p.Flags|wire.FlagHeaders)
	b = append(b, p.Before...)
	table := len(b)
	b = append(b, 0, 0, 0, 0)
	b = append(b, p.Fields...)
	b = wire.AppendText(b, headerOurMessageID, r.MessageID())
	b = wire.AppendInt64(b, headerOurRingAt, int64(r.RingAt))
	binary.BigEndian.PutUint32(b[table:], uint32(len(b)-table-4))
	e.buf = wire.EndFrame(append(b, p.After...), start)
	return e.buf, e.checkHeader(start)
}

// appendPublish appends the frame of basic.publish.
func appendPublish(b []byte, channel uint16, exchange, routingKey string) []byte {
	const mandatory = 1
	start := len(b)
	b = wire.AppendFrameHead(b, wire.FrameMethod, channel, 0)
	b = binary.BigEndian.AppendUint32(b, wire.BasicPublish)
	b = append(b, 0, 0) // reserved
	b = wire.AppendShort(b, exchange)
	b = wire.AppendShort(b, routingKey)
	b = append(b, mandatory)
	return wire.EndFrame(b, start)
}

func (e *messageEncoder) appendHeader(b []byte, r *clock.Ring, to *address, channel uint16) []byte {
	start := len(b)
	b = e.appendProperties(wire.AppendContentHead(b, channel, len(r.Payload)), r, to)
	return wire.EndFrame(b, start)
}

// appendProperties appends the properties of the message: first the flags that name them, then their values.
func (e *messageEncoder) appendProperties(b []byte, r *clock.Ring, to *address) []byte {
	flags, at := uint16(wire.FlagHeaders|wire.FlagDeliveryMode|wire.FlagCorrelationID|wire.FlagMessageID|wire.FlagTimestamp|wire.FlagType|wire.FlagAppID), len(b)
	b = append(b, 0, 0)
	if r.ContentType != "" {
		flags |= wire.FlagContentType
		b = wire.AppendShort(b, r.ContentType)
	}
	b = e.appendHeaders(b, r, to)
	b = append(b, amqp.Persistent)
	if r.Priority > 0 {
		flags |= wire.FlagPriority
		b = append(b, byte(r.Priority))
	}
	b = wire.AppendShort(b, r.BusinessID) // the correlation id
	if r.AckTimeout > 0 {
		flags |= wire.FlagReplyTo
		b = wire.AppendShort(b, e.replyTo)
	}
	if to.expiration > 0 {
		flags |= wire.FlagExpiration
		b = wire.AppendShort(b, strconv.FormatInt(to.expiration.Milliseconds(), 10))
	}
	b = appendMessageID(b, r)
	b = binary.BigEndian.AppendUint64(b, uint64(time.UnixMilli(int64(r.RingAt)).Unix()))
	b = wire.AppendShort(b, messageType)
	b = wire.AppendShort(b, appID)
	binary.BigEndian.PutUint16(b[at:], flags)
	return b
}

func (e *messageEncoder) appendHeaders(b []byte, r *clock.Ring, to *address) []byte {
	at := len(b)
	b = append(b, 0, 0, 0, 0) // the size of the table, written at the end
	if e.headers == FullHeaders || to.routingKey != r.Application {
		b = wire.AppendText(b, headerApplication, r.Application)
	}
	if e.headers == FullHeaders {
		b = wire.AppendText(b, headerBusinessID, r.BusinessID)
		b = wire.AppendInt64(b, headerGeneration, r.Generation)
		b = wire.AppendInt32(b, headerRingNo, int32(r.RingNo))
	}
	b = wire.AppendInt64(b, headerTargetRingAt, int64(r.RingAt))
	b = wire.AppendInt64(b, headerRungAt, int64(r.RungAt))
	b = wire.AppendInt32(b, headerRetryTimes, int32(r.RetryTimes()))
	b = wire.AppendText(b, headerClaimID, r.ClaimID)
	if r.Traceparent != "" {
		b = wire.AppendText(b, headerTraceparent, r.Traceparent)
	}
	r.EachOccurrenceNumber(&occurrenceHeaders, func(name string, n int64) { b = wire.AppendInt64(b, name, n) })
	for name, value := range to.headers {
		b = wire.AppendText(b, name, value)
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
