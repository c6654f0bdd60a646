package inbox

import (
	"maps"
	"math"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// Names of the headers of a dead letter of the intake, beside the message's own.
const (
	headerRefusalCode   = OurHeaders + "code"
	headerRefusalDetail = OurHeaders + "detail"
	headerRefusedBy     = OurHeaders + "queue"
	headerDeliveryTag   = OurHeaders + "delivery-tag" // of the original, so that a return can be told from others
)

// deadLetterRules says how a message that cannot be an alarm goes to the exchange for dead letters: whole, with its
// routing key, and with its reason in headers. If the exchange does not take it, it is submitted again after a pause.
func (t *intakeTurn) deadLetterRules() *copyRules {
	return &copyRules{
		role: roleDeadLetters,
		message: func(s *settlement) (exchange, routingKey string, message amqp.Publishing) {
			return t.cfg.DeadLetters, s.delivery.RoutingKey, t.deadLetter(s)
		},
		settle: func(s settlement, confirmed bool) settlement {
			if !confirmed {
				t.count(resultNoDeadLetter)
				s.action, s.pause = actionHold, min(answerPause, t.longest)
				return s
			}
			t.count(resultDeadLetter)
			s.action, s.endTurn = actionAckCopied, t.whole
			return s
		},
		failure: "messages that cannot be alarms wait on this node, because the exchange for dead letters does not take them",
		warns:   true,
		isReturned: func(r *amqp.Return, original *incoming) bool {
			return r.Headers[headerDeliveryTag] == int64(original.DeliveryTag)
		},
	}
}

// deadLetter returns the message with its reason. It has no user_id, because the broker accepts only clockd's own user.
// It is persistent and has no expiration, so that it waits until a person reads it. If the message's own headers leave
// no room in a frame, the dead letter has no headers with the reason. The log has it.
func (t *intakeTurn) deadLetter(s *settlement) amqp.Publishing {
	d := &s.delivery.Delivery
	headers := make(amqp.Table, len(d.Headers)+4)
	maps.Copy(headers, d.Headers)
	maps.DeleteFunc(headers, func(name string, _ any) bool { return wire.IsCount(name) }) // of the queue of the intake
	if size := sizeOfProperties(d); t.maxProperties > 0 && size > t.maxProperties {
		t.s.Log.Warn("dead letter without its reason: its headers fill a frame", "queue", t.queue(), "properties", size,
			"code", s.refusal.code, "detail", s.refusal.detail)
	} else {
		detail := s.refusal.detail
		headers[headerRefusalCode], headers[headerRefusalDetail] = s.refusal.code, strings.ToValidUTF8(detail[:min(len(detail), maxRefusalDetail)], "")
		headers[headerRefusedBy], headers[headerDeliveryTag] = t.queue(), int64(d.DeliveryTag)
	}
	return amqp.Publishing{
		Headers: headers, ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, DeliveryMode: amqp.Persistent,
		Priority:      d.Priority,
		CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo, MessageId: d.MessageId, Timestamp: d.Timestamp,
		Type: d.Type, AppId: d.AppId, Body: d.Body,
	}
}

// sizeOfProperties returns the size of the properties of a message, in bytes; math.MaxInt if they cannot be encoded.
func sizeOfProperties(d *amqp.Delivery) int {
	encoded, err := wire.EncodeProperties(d)
	if err != nil {
		return math.MaxInt
	}
	return len(encoded)
}

// maxRefusalDetail is the longest detail in the header of a dead letter, in bytes.
const maxRefusalDetail = 512
