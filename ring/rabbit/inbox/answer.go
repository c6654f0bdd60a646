package inbox

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// Names of the headers of an answer.
const (
	headerMessageID = "x-message-id"
	headerDelay     = "x-delay"
	headerBy        = "x-by"
	headerReason    = "x-reason"
)

// answerPrefix is the beginning of the type of every answer: alarm.ack, alarm.release, alarm.bury, alarm.touch.
const answerPrefix = "alarm."

// answerKinds maps the type of an answer, without answerPrefix, to its kind.
var answerKinds = map[string]clock.AnswerKind{
	clock.Ack.String(): clock.Ack, clock.Release.String(): clock.Release, clock.Bury.String(): clock.Bury,
	clock.Touch.String(): clock.Touch,
}

// parseAnswer reads an answer from the properties of a message, and ignores the body. The error says why the message is
// no answer.
func parseAnswer(d *amqp.Delivery) (clock.Answer, error) {
	a := clock.Answer{By: answeredBy(d)}
	name, prefixed := strings.CutPrefix(d.Type, answerPrefix)
	a.Kind = answerKinds[name]
	if !prefixed || a.Kind == clock.NoAnswer {
		return clock.Answer{}, fmt.Errorf("type is %q, not alarm.ack, alarm.release, alarm.bury or alarm.touch", d.Type)
	}
	id := d.CorrelationId
	if value := d.Headers[headerMessageID]; value != nil {
		var isText bool
		if id, isText = wire.Text(value); !isText {
			return clock.Answer{}, errors.New("header x-message-id is not a string")
		}
	}
	var err error
	if a.Ring, err = clock.ParseRingID(id); err != nil {
		return clock.Answer{}, err
	}
	if value := d.Headers[headerDelay]; value != nil {
		if a.Delay, err = delay(value); err != nil {
			return clock.Answer{}, err
		}
	}
	a.Reason, _ = wire.Text(d.Headers[headerReason])
	return a, nil
}

// answeredBy returns the sender that the message names, or "amqp".
func answeredBy(d *amqp.Delivery) string {
	if by, _ := wire.Text(d.Headers[headerBy]); by != "" {
		return by
	}
	for _, by := range []string{d.AppId, d.UserId} {
		if by != "" {
			return by
		}
	}
	return "amqp"
}

// delay reads milliseconds from a number, of which the whole part counts, or from a decimal string. A delay that no
// Duration holds becomes the longest one: package clock checks the range.
func delay(value any) (clock.Delay, error) {
	ms, isNumber := number(value)
	if s, isText := wire.Text(value); isText {
		n, err := strconv.ParseInt(s, 10, 64)
		ms, isNumber = n, err == nil || errors.Is(err, strconv.ErrRange)
	}
	if !isNumber {
		return clock.Delay{}, errors.New("header x-delay is not a number of milliseconds")
	}
	const most = math.MaxInt64 / int64(time.Millisecond)
	ms = min(max(ms, -most), most)
	return clock.Delay{Given: true, Span: time.Duration(ms) * time.Millisecond}, nil
}

// number returns the whole part of a number, at most the least or greatest int64.
func number(value any) (int64, bool) {
	switch v := value.(type) {
	case float32:
		return wholePart(float64(v))
	case float64:
		return wholePart(v)
	case amqp.Decimal:
		return wholePart(float64(v.Value) / math.Pow10(int(v.Scale)))
	default:
		return integer(value)
	}
}

func wholePart(v float64) (int64, bool) {
	switch {
	case math.IsNaN(v):
		return 0, false
	case v >= math.MaxInt64:
		return math.MaxInt64, true
	case v <= math.MinInt64:
		return math.MinInt64, true
	default:
		return int64(v), true
	}
}

func integer(value any) (int64, bool) {
	switch v := value.(type) {
	case int8:
		return int64(v), true
	case uint8:
		return int64(v), true
	case int16:
		return int64(v), true
	case uint16:
		return int64(v), true
	case int32:
		return int64(v), true
	case uint32:
		return int64(v), true
	case int64:
		return v, true
	default:
		return 0, false
	}
}
