package rabbit

import (
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
)

// What every message says of itself.
const (
	messageType = "alarm.ring"
	appID       = "clockd"
)

// Names of the headers.
const (
	headerApplication  = "x-application"
	headerBusinessID   = "x-business-id"
	headerTargetRingAt = "x-target-ring-at"
	headerRungAt       = "x-rung-at"
	headerGeneration   = "x-generation"
	headerRingNo       = "x-ring-no"
	headerRetryTimes   = "x-retry-times"
	headerClaimID      = "x-claim-id"
	headerTraceparent  = "traceparent"
)

// maxShortString is the protocol's, in bytes.
const maxShortString = 255

// envelope turns rings into messages. It reuses one table of headers, so a message is good only until the next one is
// made: the library encodes it before its publish returns. One goroutine.
type envelope struct {
	replyTo string
	headers amqp.Table

	// what the rings of a batch share is put into an interface once
	application, claimID string
	rungAt               clock.Instant
}

func newEnvelope(exchange string) *envelope {
	return &envelope{replyTo: answerQueue(exchange), headers: make(amqp.Table, 9)}
}

// answerQueue is what applications send their answers to.
func answerQueue(exchange string) string { return exchange + ".answers" }

// publishing returns r as a message. The error says why it cannot be one.
func (e *envelope) publishing(r *clock.Ring) (amqp.Publishing, error) {
	// the library would find out half way through the message, and break the connection
	for _, p := range [...]struct{ name, value string }{
		{"application", r.Application}, {"business_id", r.BusinessID}, {"content_type", r.ContentType},
	} {
		if len(p.value) > maxShortString {
			return amqp.Publishing{}, fmt.Errorf("%s has %d bytes, AMQP allows %d", p.name, len(p.value), maxShortString)
		}
	}
	e.fill(r)
	p := amqp.Publishing{
		Headers:       e.headers,
		ContentType:   r.ContentType,
		DeliveryMode:  amqp.Persistent,
		Priority:      uint8(r.Priority),
		CorrelationId: r.BusinessID,
		MessageId:     r.MessageID(),
		Timestamp:     time.UnixMilli(int64(r.RingAt)),
		Type:          messageType,
		AppId:         appID,
		Body:          r.Payload,
	}
	if r.AckTimeout > 0 {
		p.ReplyTo = e.replyTo
	}
	return p, nil
}

func (e *envelope) fill(r *clock.Ring) {
	h := e.headers
	if first := len(h) == 0; first || r.Application != e.application {
		e.application = r.Application
		h[headerApplication] = r.Application
	}
	if r.ClaimID != e.claimID || h[headerClaimID] == nil {
		e.claimID = r.ClaimID
		h[headerClaimID] = r.ClaimID
	}
	if r.RungAt != e.rungAt || h[headerRungAt] == nil {
		e.rungAt = r.RungAt
		h[headerRungAt] = int64(r.RungAt)
	}
	h[headerBusinessID] = r.BusinessID
	h[headerTargetRingAt] = int64(r.RingAt)
	h[headerGeneration] = r.Generation
	h[headerRingNo] = int32(r.RingNo)
	h[headerRetryTimes] = int32(r.RetryTimes)
	if r.Traceparent != "" {
		h[headerTraceparent] = r.Traceparent
	} else {
		delete(h, headerTraceparent)
	}
}
