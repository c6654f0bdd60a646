package amqp

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/client"
)

// Ring is one ring of an alarm, as its message has it.
type Ring struct {
	MessageID   string // the same for all copies of one ring; no other ring has it
	Application string
	BusinessID  string
	Generation  int64 // version of the alarm
	RingNo      int   // number of the ring in its generation, from 1
	RetryTimes  int   // failed tries of the alarm; 0 with lean headers
	RingAt      time.Time
	NeedsAnswer bool // the alarm has an ack_timeout
	Redelivered bool // the broker has given the message to a consumer before
	ContentType string
	Payload     []byte
	Occurrence  *client.RingOccurrence // occurrence that rings; nil: the alarm rings once
}

// ringOf reads the ring of a message.
func ringOf(d *amqp.Delivery, application string) (*Ring, error) {
	if d.MessageId == "" || d.CorrelationId == "" {
		return nil, errors.New("it has no message_id or correlation_id")
	}
	parts := strings.Split(d.MessageId, ".")
	if len(parts) != 3 {
		return nil, fmt.Errorf("message_id %.64q is not alarm.generation.ring", d.MessageId)
	}
	generation, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("message_id %.64q has no generation", d.MessageId)
	}
	ringNo, err := strconv.Atoi(parts[2])
	if err != nil {
		return nil, fmt.Errorf("message_id %.64q has no ring number", d.MessageId)
	}
	r := &Ring{
		MessageID: d.MessageId, Application: application, BusinessID: d.CorrelationId, Generation: generation,
		RingNo: ringNo, RingAt: d.Timestamp,
		NeedsAnswer: d.ReplyTo != "", Redelivered: d.Redelivered, ContentType: d.ContentType, Payload: d.Body,
	}
	if at := timeIn(d.Headers, "x-target-ring-at"); !at.IsZero() {
		r.RingAt = at // the timestamp has seconds only
	}
	if n, ok := d.Headers["x-retry-times"].(int32); ok {
		r.RetryTimes = int(n)
	}
	if at := timeIn(d.Headers, "x-occurrence-at"); !at.IsZero() {
		number, _ := d.Headers["x-occurrence"].(int64)
		r.Occurrence = &client.RingOccurrence{
			Number: number, At: at,
			PreviousAt: timeIn(d.Headers, "x-occurrence-previous-at"), NextAt: timeIn(d.Headers, "x-occurrence-next-at"),
		}
	}
	return r, nil
}

// timeIn returns the time that a header has in milliseconds since the epoch; zero: it has none.
func timeIn(headers amqp.Table, name string) time.Time {
	if ms, ok := headers[name].(int64); ok {
		return time.UnixMilli(ms)
	}
	return time.Time{}
}
